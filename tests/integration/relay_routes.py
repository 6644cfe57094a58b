"""What a subtask of a test reads: the upstream itself, or a relay log of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deploy.local.mysql import SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.relay.layout import RelayDir
from dm_worker.relay.source_relay import SourceRelay
from dm_worker.relay.source_selection import RelayReader
from pkg.config.model import SubTaskConfig
from pkg.pb import dmworker_pb2 as pb
from tests.harness.running_relay import binlog_end, same_files, source_of
from tests.integration.binlog_replay import here


@contextmanager
def relayed(upstream: SQLServer, folder: Path, *, gtid: bool) -> Iterator[SourceRelay]:
    start = here(upstream)
    source = replace(source_of(upstream, enable_gtid=gtid), server_id=88_800 + upstream.port)
    relay = SourceRelay(source, folder, start_at=lambda: start, needed=lambda *_: [])
    relay.change_stage("Running")
    try:
        yield relay
    finally:
        relay.close()


@contextmanager
def read_through(route: str, cfg: SubTaskConfig, upstream: SQLServer, folder: Path) -> Iterator[RelayReader | None]:
    """What a subtask reads by ``route``. At the end, the relay's files must be the server's."""
    if route == "direct":
        yield None
        return
    with relayed(upstream, folder, gtid=cfg.enable_gtid) as relay:

        def status() -> pb.RelayStatus:
            found = relay.status()
            assert found is not None
            assert not found.result.errors, found
            return found

        wait_until(lambda: bool(status().relayBinlog), "the relay has begun", WAIT_TIMEOUT)
        yield relay.reader()
        wait_until(lambda: status().relayBinlog == str(binlog_end(upstream)), "the relay has all", WAIT_TIMEOUT)
        current = RelayDir(folder).current()
        assert current is not None
        same_files(upstream, current)
