"""A relay log between an attempt's upstream and its task, as a worker keeps it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError, wait_until
from dm_worker.relay.source_relay import SourceRelay
from dm_worker.relay.source_selection import RelayReader
from dm_worker.source.binlog_needs import needed_files
from pkg.binlog.position import Location
from pkg.config.model import SourceConfig, SubTaskConfig
from tests.fuzz.played import Hang
from tests.fuzz.tasks.rules import SOURCES
from tests.integration.syncer.support import location

_SECONDS = 30.0
#: How far the relays' ids as replicas are from those of servers; each source has one of its own.
_REPLICAS = 50_000
#: What a process that is killed may leave of an event that it was writing.
_TORN = 7


class TaskRelay:
    """The relay log of ``upstream`` in ``folder``, from ``start`` on, for the task ``cfg``."""

    def __init__(self, upstream: SQLServer, folder: Path, cfg: SubTaskConfig) -> None:
        self._upstream = upstream
        self._folder = folder
        self._cfg = cfg
        self._begin: Location = location(upstream)
        self._source = SourceConfig(
            source_id=cfg.source_id, flavor=upstream.flavor, from_=upstream.db_config, enable_gtid=cfg.enable_gtid
        )
        self._relay = self._started()

    def _started(self) -> SourceRelay:
        relay = SourceRelay(
            self._source,
            self._folder,
            start_at=lambda: self._begin,
            needed=lambda folder, end: needed_files(folder, end, [self._cfg]),
            server_id=self._upstream.server_id + _REPLICAS + 1000 * SOURCES.index(self._source.source_id),
        )
        relay.change_stage("Running")
        return relay

    def reader(self) -> RelayReader:
        return self._relay.reader()

    def close(self) -> None:
        self._relay.close()

    def restart(self) -> None:
        """As stop-relay and start-relay, in the middle of a file."""
        self._relay.close()
        self._relay.change_stage("Running")

    def killed(self) -> None:
        """As kill -9 and a new worker: the last event that was written is torn. No task may read meanwhile."""
        self._relay.close()
        current = self._relay.folder.current()
        if current is not None and current.files():
            newest = current.path / current.files()[-1]
            with newest.open("r+b") as file:
                file.truncate(max(0, newest.stat().st_size - _TORN))
        self._relay = self._started()

    def move(self, upstream: SQLServer) -> None:
        """The source's address leads to another server: the worker goes on with the relay log that it has."""
        self._relay.close()
        self._upstream = upstream
        self._source = replace(self._source, from_=upstream.db_config)
        self._relay = self._started()

    def purge(self) -> None:
        """New files at the upstream, then all that the task does not need any more goes."""
        self._upstream.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        self._caught_up()
        self._relay.purge(filename="", sub_dir="", before=0.0, inactive=True)

    def _caught_up(self) -> None:
        try:
            wait_until(
                self._relay.caught_up, lambda: f"the relay at the upstream's end: {self._relay.status()}", _SECONDS
            )
        except HarnessError as exc:
            raise Hang(str(exc)) from exc
