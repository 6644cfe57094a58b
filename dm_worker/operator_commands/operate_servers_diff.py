"""`diff start|stop|status --config`: what a worker does with a comparison of servers that no task connects."""

from __future__ import annotations

import time

from dm_worker.diff.servers_diff import ServersDiffOrder, ServersDiffs
from dm_worker.operator_commands.operate_diff import diff_settings, unknown_operation
from pkg.config.codec import decode_subtask
from pkg.pb import dmworker_pb2 as pb


def operate_servers_diff(diffs: ServersDiffs, request: pb.OperateServersDiffRequest) -> list[pb.DiffSourceStatus]:
    """Carries the order out and shows the comparison. Raises 43104 where it does not fit, and the servers' errors."""
    match request.op:
        case pb.StartDiff:
            known = diffs.begin(_order(request))
        case pb.StopDiff:
            known = diffs.named(request.name)
            known.stop()
        case pb.ShowDiff:
            known = diffs.named(request.name)
        case _:
            raise unknown_operation(request.op)
    return known.status()


def _order(request: pb.OperateServersDiffRequest) -> ServersDiffOrder:
    upstreams = sorted((decode_subtask(text) for text in request.upstreams), key=lambda one: one.source_id)
    sources = tuple(request.sources) or tuple(one.source_id for one in upstreams)
    return ServersDiffOrder(
        request.name,
        request.run,
        time.time(),
        tuple(upstreams),
        diff_settings(request.options, sources),
        request.settleSeconds,
        request.outputDir,
    )
