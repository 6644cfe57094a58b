"""Hazard: a command fails because another source writes its state at the same moment."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from dm_worker.diff.companion import COMMAND_SECONDS, after
from dm_worker.diff.state_table import RUNNING, DiffRecord, DiffSettings, DiffStateTable
from dm_worker.syncer.checkpoint import meta_connection
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.settings.connections import DBConfig

_CFG = SubTaskConfig(
    name="t", source_id="s", task_mode="all", from_=DBConfig("up", 3306, "u", ""), to=DBConfig("down", 3306, "u", "")
)


class _Server:
    """Answers each statement; the first transactions end in a deadlock."""

    def __init__(self, deadlocks: int) -> None:
        self.deadlocks = deadlocks
        self.committed = 0

    def connect(self, *_: Any, **__: Any) -> _Server:
        return self

    def cursor(self) -> _Server:
        return self

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        """The cursor has nothing to close."""

    def execute(self, sql: str, _: object = None) -> None:
        if sql.startswith("DELETE") and self.deadlocks:
            self.deadlocks -= 1
            raise pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock")

    def fetchall(self) -> list[Any]:
        return []

    def commit(self) -> None:
        self.committed += 1

    def close(self) -> None:
        """Nothing is open."""


def _begin(seconds: float, server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meta_connection, "connect", server.connect)
    DiffStateTable(_CFG, after(seconds)).replace(DiffRecord("run", 0.0, RUNNING, DiffSettings()))


def test_a_deadlock_with_another_source_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(deadlocks=2)
    _begin(COMMAND_SECONDS, server, monkeypatch)
    assert server.committed == 1


def test_a_command_does_not_wait_longer_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(deadlocks=1_000)
    with pytest.raises(DMError, match="1213"):
        _begin(-1.0, server, monkeypatch)
    assert server.committed == 0
