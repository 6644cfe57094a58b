"""A syncer between real servers, in a thread, and the comparison of what it wrote."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from deploy.local.mysql import SQLServer
from deploy.local.process import WAIT_TIMEOUT
from dm_worker.engine.engine import SparkEngine
from dm_worker.relay.source_selection import RelayReader
from dm_worker.subtask.unit import Control, UnitOutcome
from dm_worker.syncer import SyncUnit
from dm_worker.syncer.shard_ddl.lock_client import LockService
from dm_worker.syncer.unit.batch_observer import BatchObserver
from pkg.binlog.position import Location
from pkg.binlog.streams.server_position import master_status
from pkg.config.model import Meta, SubTaskConfig
from pkg.errors import DMError
from pkg.errors.workarounds import way_on
from pkg.ha.binlog_operator import OperatorSource


def location(upstream: SQLServer) -> Location:
    conn = upstream.connect()
    try:
        found = master_status(conn, upstream.flavor)
    finally:
        conn.close()
    assert found is not None
    return found


def subtask(upstream: SQLServer, target: SQLServer, **changes: Any) -> SubTaskConfig:
    """An incremental subtask from where the upstream is now."""
    here = location(upstream)
    cfg = SubTaskConfig(
        name="t",
        source_id="source-1",
        task_mode="incremental",
        from_=upstream.db_config,
        to=target.db_config,
        flavor=upstream.flavor,
        online_ddl=False,
        meta=Meta(here.position.name, here.position.pos, here.gtid_set),
    )
    return replace(cfg, **changes)


class Running:
    """A unit in its thread."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        engine: SparkEngine,
        orders: OperatorSource = tuple,
        lock_service: LockService | None = None,
        relay: RelayReader | None = None,
        safe_request: int = 0,
        observer: BatchObserver | None = None,
    ) -> None:
        self.cfg = cfg
        self._control = Control(safe_request=safe_request)
        self.unit = SyncUnit(cfg, engine, relay, orders, lock_service, observer)
        self.outcome: UnitOutcome | None = None
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        outcome = self.unit.run(self._control)
        # As a subtask does it.
        outcome.errors = [one.with_workaround(way_on(one, self.cfg.name, self.cfg.source_id)) for one in outcome.errors]
        self.outcome = outcome

    def wait_synced(self, upstream: SQLServer, timeout: float = WAIT_TIMEOUT) -> None:
        """Until the checkpoint is at the end of the upstream's binlog, as it is now, or after it.

        MariaDB writes a BINLOG_CHECKPOINT of its own accord some time after a FLUSH.
        """
        want = location(upstream)
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            assert self.outcome is None, self.outcome
            # The status shows an earlier position while a DDL of merged shards waits.
            here = self.unit.flushed
            if self.cfg.enable_gtid:
                synced = here is not None and here.gtid_set == want.gtid_set
            else:
                synced = here is not None and bool(here.position.name) and want.position <= here.position
            if synced:
                return
            time.sleep(0.02)
        raise AssertionError(f"not at {want} after {timeout} s: {self.unit.status()}")

    def wait_ended(self, timeout: float = WAIT_TIMEOUT) -> UnitOutcome:
        self._thread.join(timeout)
        assert self.outcome is not None, f"still running: {self.unit.status()}"
        return self.outcome

    def stop(self, *, graceful: bool = True) -> UnitOutcome:
        """As a subtask does it: again and again, for the first stop may come before what it is to end has begun."""
        end = time.monotonic() + WAIT_TIMEOUT
        while self._thread.is_alive() and time.monotonic() < end:
            self.unit.stop(graceful=graceful)
            self._thread.join(0.5)
        return self.wait_ended(0)


@contextmanager
def running(
    cfg: SubTaskConfig,
    engine: SparkEngine,
    orders: OperatorSource = tuple,
    lock_service: LockService | None = None,
    relay: RelayReader | None = None,
    safe_request: int = 0,
    observer: BatchObserver | None = None,
) -> Iterator[Running]:
    run = Running(cfg, engine, orders, lock_service, relay, safe_request, observer)
    try:
        yield run
    finally:
        if run.outcome is None:
            run.stop(graceful=False)


def run_until_synced(
    cfg: SubTaskConfig, engine: SparkEngine, upstream: SQLServer, orders: OperatorSource = tuple
) -> None:
    """One run to the end of the upstream's binlog."""
    with running(cfg, engine, orders) as run:
        run.wait_synced(upstream)


def rows(server: SQLServer, table: str) -> list[tuple[Any, ...]]:
    """All rows, in an order that depends on their content alone."""
    conn = server.connect(charset="utf8mb4", init_command="SET time_zone='+00:00'")
    try:
        with conn.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            return sorted(cursor.fetchall(), key=repr)
    finally:
        conn.close()


def assert_equal(upstream: SQLServer, target: SQLServer, *tables: str) -> None:
    for table in tables:
        assert rows(target, table) == rows(upstream, table), table


def refusal(code: int, action: Callable[[], object]) -> DMError:
    with pytest.raises(DMError) as caught:
        action()
    assert caught.value.code == code
    assert caught.value.workaround
    return caught.value


@contextmanager
def read_by_somebody(server: SQLServer) -> Iterator[None]:
    """Whoever reads ``d.t`` in a transaction makes DDL about it, or TiDB's job for it, wait for its end."""
    with closing(server.connect(autocommit=False)) as reader:
        with reader.cursor() as cursor:
            cursor.execute("SELECT * FROM d.t")
        yield
