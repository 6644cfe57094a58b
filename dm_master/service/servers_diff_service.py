"""OperateDiff without a task: a comparison of two servers, on a worker that this master chooses.

Nothing of it is stored: the worker that runs it is asked for. The file's passwords are sent to that worker only,
encrypted as those of tasks are.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dm_master.scheduling.scheduler import WorkerState
from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.diff_verdict import verdict
from pkg import errors
from pkg.config.codec import encode_subtask
from pkg.config.servers_diff import load_servers_diff
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.process.log import get_logger

log = get_logger("diff")

#: Seconds. The worker opens a session to each server.
_START_TIMEOUT = 60.0
#: Seconds for a worker to answer what it compares.
_ASK_TIMEOUT = 10.0
_MOST_AT_ONCE = 32


class ServersDiffService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    def operate(self, request: pb.OperateDiffRequest) -> pb.OperateDiffResponse:
        """Raises the errors of the file, and 43104 where the order does not fit."""
        if request.op == worker_pb.StartDiff:
            return self._start(request)
        if request.op == worker_pb.StopDiff and request.sources:
            raise errors.new(
                Code.DiffRefused,
                "a comparison of two servers can be ended as a whole only",
                workaround="Leave out --source.",
            )
        order = worker_pb.OperateServersDiffRequest(op=worker_pb.ShowDiff, name=request.comparison)
        found, silent = self._find(order)
        if found is None:
            return pb.OperateDiffResponse(msg=_unknown(request.comparison, silent))
        worker, answer = found
        if request.op != worker_pb.ShowDiff:
            order = worker_pb.OperateServersDiffRequest(op=request.op, name=request.comparison)
            answer = self._call(worker, order, _START_TIMEOUT)
        shown = _answer(answer)
        if request.sources:
            chosen = [one for one in shown.sources if one.source in request.sources]
            shown = pb.OperateDiffResponse(result=True, verdict=verdict(chosen), sources=chosen)
        return shown

    def _start(self, request: pb.OperateDiffRequest) -> pb.OperateDiffResponse:
        if request.options.repair or request.options.lock or request.options.mostLag:
            raise errors.new(
                Code.DiffRefused,
                "repair, lock and most-lag need a task: without one there is no position at which a row of both sides "
                "is known, and no replication that could be held",
                workaround="Compare by a task, or read the statements in `repairs` and run them while nothing writes.",
            )
        config = load_servers_diff(request.config)
        known = [one.source_id for one in config.upstreams]
        foreign = sorted(set(request.sources) - set(known))
        if foreign:
            raise errors.new(
                Code.ConfigSourceIDNotFound,
                f"the file has no source {', '.join(foreign)}",
                workaround=f"It has: {', '.join(known)}.",
            )
        options = worker_pb.DiffOptions()
        options.CopyFrom(request.options)
        options.chunkRows = config.chunk_rows
        if not options.tables:
            options.tables.extend(config.tables)
        order = worker_pb.OperateServersDiffRequest(
            op=worker_pb.StartDiff,
            name=config.name,
            options=options,
            run=secrets.token_hex(8),
            upstreams=[encode_subtask(one) for one in config.upstreams],
            sources=sorted(set(request.sources)) or sorted(known),
            settleSeconds=config.settle_time,
            outputDir=config.output_dir,
        )
        return _answer(self._call(self._worker_for(config.name), order, _START_TIMEOUT), config.warnings)

    def _worker_for(self, name: str) -> WorkerState:
        """The worker that has the comparison; else a free one, of equal workers always the same: it may have what an
        earlier process did."""
        found, silent = self._find(worker_pb.OperateServersDiffRequest(op=worker_pb.ShowDiff, name=name))
        if found is not None:
            return found[0]
        answering = [worker for worker in self._online() if worker.name not in silent]
        if not answering:
            raise errors.new(
                Code.DiffRefused,
                "no dm-worker answers that could compare the servers",
                workaround="Start a dm-worker; `list-member --worker` shows them.",
            )
        return min(answering, key=lambda worker: (worker.stage != "free", worker.name))

    def _online(self) -> list[WorkerState]:
        return [worker for worker in self._cluster.scheduler.workers() if worker.stage != "offline"]

    def _find(
        self, order: worker_pb.OperateServersDiffRequest
    ) -> tuple[tuple[WorkerState, worker_pb.OperateServersDiffResponse] | None, list[str]]:
        """The worker that has the comparison, with its answer; and the workers that do not answer."""

        def ask(worker: WorkerState) -> worker_pb.OperateServersDiffResponse | None:
            try:
                return self._call(worker, order, _ASK_TIMEOUT)
            except DMError as exc:
                log.warning("a worker does not answer what it compares", worker=worker.name, error=str(exc))
                return None

        online = self._online()
        if not online:
            return None, []
        with ThreadPoolExecutor(min(len(online), _MOST_AT_ONCE), thread_name_prefix="ask") as pool:
            answers = list(zip(online, pool.map(ask, online), strict=True))
        found = next(((worker, one) for worker, one in answers if one is not None and one.result), None)
        return found, [worker.name for worker, one in answers if one is None]

    def _call(
        self, worker: WorkerState, order: worker_pb.OperateServersDiffRequest, timeout: float
    ) -> worker_pb.OperateServersDiffResponse:
        answer: worker_pb.OperateServersDiffResponse = self._cluster.workers.call(
            worker.addr, "OperateServersDiff", order, timeout=timeout
        )
        return answer


def _unknown(name: str, silent: Sequence[str]) -> str:
    if silent:
        return f"worker {', '.join(silent)} does not answer, and no other one has a comparison {name}"
    return (
        f"no worker has a comparison {name}: it was not started, or its worker was restarted. `dmctl diff start "
        "--config FILE.yaml` starts it, or continues it"
    )


def _answer(answer: worker_pb.OperateServersDiffResponse, warnings: Sequence[str] = ()) -> pb.OperateDiffResponse:
    sources = list(answer.sources)
    return pb.OperateDiffResponse(
        result=answer.result, msg=answer.msg or "\n".join(warnings), verdict=verdict(sources), sources=sources
    )
