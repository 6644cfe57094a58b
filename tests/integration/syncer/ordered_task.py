"""A subtask that stops at statements and goes on under an operator's orders."""

from __future__ import annotations

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.ha.binlog_operator import BinlogOperator, position_name
from tests.integration.syncer.support import running


class OrderedTask:
    """A subtask that stops at statements and goes on under orders, each time in a new run."""

    def __init__(self, cfg: SubTaskConfig, upstream: SQLServer, spark: SparkEngine) -> None:
        self._cfg = cfg
        self._upstream = upstream
        self._spark = spark
        self._orders: list[BinlogOperator] = []
        self._at = ""

    def stop_at(self, code: int) -> DMError:
        """Runs until it stands at a statement."""
        with running(self._cfg, self._spark, lambda: self._orders) as run:
            (error,) = run.wait_ended().errors
            assert error.code == code, error
            assert run.unit.stuck_at is not None
            self._at = position_name(run.unit.stuck_at.at)
        assert f"dmctl binlog skip t -s source-1 -b {self._at}" in error.workaround
        return error

    def give(self, kind: str, *statements: str) -> None:
        """An order for the statement at which it stands."""
        self._orders = [BinlogOperator(kind, "t", "source-1", self._at, statements)]  # type: ignore[arg-type]

    def go_on(self, *statements: str) -> None:
        """Runs until it has caught up, with these statements upstream in between."""
        with running(self._cfg, self._spark, lambda: self._orders) as run:
            run.wait_synced(self._upstream)
            if statements:
                self._upstream.execute(*statements)
            run.wait_synced(self._upstream)
