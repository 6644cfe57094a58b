"""Hazards: a key that acts at one server alone is missed; looking for it costs more than the statements themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dm_worker.syncer.ddl import foreign_key_watch
from dm_worker.syncer.ddl.foreign_key_watch import ForeignKeyWatch
from pkg.binlog.position import Location, Position
from pkg.errors import Code, DMError
from pkg.rules.foreign_keys import ForeignKeyProblem


def at(pos: int) -> Location:
    return Location(Position("bin.000001", pos))


def problem(name: str) -> ForeignKeyProblem:
    return ForeignKeyProblem(f"key {name}", "Do something.")


class Servers:
    """What both servers show now."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.found: list[ForeignKeyProblem] = []
        self.asked = 0
        self.watch = ForeignKeyWatch(self._look, lambda: at(self.end))

    def _look(self) -> Sequence[ForeignKeyProblem]:
        self.asked += 1
        return list(self.found)


def test_a_backlog_of_statements_is_looked_at_where_it_ends() -> None:
    servers = Servers(end=1000)
    for pos in range(100, 200):
        servers.watch.changed(at(pos))
    assert servers.asked == 1
    servers.watch.passed(at(999))
    assert servers.asked == 1
    servers.watch.passed(at(1000))
    assert servers.asked == 2


def test_each_problem_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(foreign_key_watch.log, "warning", lambda _, **values: said.append(values))
    servers = Servers(end=1000)
    for n in range(99):
        servers.found.append(problem(str(n)))
        servers.watch.look(at(100 + n))
    assert sum(line["new"] for line in said) == len(said) == 99
    assert said[-1]["all"] == 99


def test_a_problem_that_is_still_there_stops() -> None:
    servers = Servers(end=1000)
    servers.found = [problem("a")]
    servers.watch.look(at(100))
    with pytest.raises(DMError) as caught:
        servers.watch.passed(at(1000))
    assert caught.value.kind is Code.ConfigUnsupportedForeignKeyChecksOption


def test_a_task_that_begins_at_a_gtid_set_alone_has_no_position_at_first() -> None:
    servers = Servers(end=1000)
    servers.found = [problem("a")]
    start = Location(Position("", 4), "0-101-7")
    servers.watch.look(start)
    servers.watch.changed(start)
    servers.watch.passed(start)
    with pytest.raises(DMError):
        servers.watch.passed(at(1000))


def test_a_problem_that_statements_may_have_solved_gets_time_again() -> None:
    servers = Servers(end=1000)
    servers.found = [problem("a")]
    servers.watch.look(at(100))
    servers.watch.changed(at(200))
    servers.end = 2000
    servers.watch.passed(at(1000))
    with pytest.raises(DMError):
        servers.watch.passed(at(2000))


def test_a_problem_stops_at_once_where_nothing_is_unread() -> None:
    servers = Servers(end=100)
    servers.watch.changed(at(100))
    servers.found = [problem("a")]
    with pytest.raises(DMError):
        servers.watch.changed(at(101))
