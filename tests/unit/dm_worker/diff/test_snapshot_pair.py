"""Hazard: a pair that was found after a failed attempt loses its snapshots."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest
from pymysql.connections import Connection

from dm_worker.diff import snapshot_pair
from dm_worker.diff.meeting import ASKED, GIVEN_UP, HELD, OPENED, READY, REFUSED, WANTED, MeetingRow, PairMeeting
from dm_worker.diff.snapshot_pair import PairServers, PairUpstream, is_certain, open_pair_in
from dm_worker.diff.target_place import TargetPlace
from dm_worker.diff.upstream_snapshot import SNAPSHOT, UpstreamKind
from dm_worker.syncer.checkpoint.target_location import TargetLocation, Whereabouts
from pkg.binlog.position import Location, Position
from pkg.errors import Code, DMError
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)
PLACES = [Location(Position("bin.000001", number)) for number in (4, 5, 6)]
SOURCE = PairUpstream("s1", SERVER, UpstreamKind("mariadb", lock=False), TargetPlace("m", "t", "s1", "mariadb", False))
SERVERS = PairServers((SOURCE,), SERVER, "meeting", "s1")


class Session:
    def __init__(self) -> None:
        self.statements: list[str] = []

    def query(self, sql: str) -> None:
        self.statements.append(sql)


class Worker:
    """The meeting's row; the worker holds the syncer, or refuses as often as it is told."""

    def __init__(self, refusals: int) -> None:
        self.step = ""
        self.refused = 0
        self._refusals = refusals

    def want(self, _: str) -> None:
        self.step = WANTED

    def move(self, _: str, before: str, after: str, *, place: Location | None = None) -> bool:
        if self.step != before:
            return False
        self.step = after
        return True

    def await_other(self, _: str, while_at: str, __: float) -> MeetingRow:
        if while_at == WANTED:
            self.step = READY
        elif while_at == ASKED:
            self._refusals -= 1
            self.step = REFUSED if self._refusals >= 0 else HELD
            self.refused += self.step == REFUSED
        return MeetingRow("s1 0", self.step, None, "the location is passed" if self.step == REFUSED else "")


def opened(
    monkeypatch: pytest.MonkeyPatch, worker: Worker, problems: list[str]
) -> tuple[list[Location], Session, Session]:
    places = iter(PLACES * 10)
    monkeypatch.setattr(snapshot_pair, "open_upstream_snapshot", lambda *_: next(places))

    def look(_: TargetPlace, __: object, place: Location) -> TargetLocation:
        where = Whereabouts.AHEAD if problems else Whereabouts.EXACT
        return TargetLocation(place, where, problems.pop(0) if problems else "")

    monkeypatch.setattr(TargetPlace, "look", look)
    upstream, target = Session(), Session()
    sessions = [cast("Connection[Any]", upstream)], cast("Connection[Any]", target)
    found, exact = open_pair_in(SERVERS, "s1 0", *sessions, [cast(PairMeeting, worker)])
    assert exact
    return found, upstream, target


@pytest.mark.parametrize(
    ("kind", "gtids", "checkpoint", "certain"),
    [
        (UpstreamKind("mariadb", lock=False), "", Location(Position("b.1", 5)), True),
        (UpstreamKind("mysql", lock=True), "", Location(Position("b.1", 9)), True),
        (UpstreamKind("mysql", lock=False), "", Location(Position("b.1", 5)), False),
        (UpstreamKind("mysql", lock=False), "u:1-3", Location(Position("b.1", 5), "u:1-3"), True),
        # In the binlog, and not yet in the executed set: visible or not.
        (UpstreamKind("mysql", lock=False), "u:1-3", Location(Position("b.1", 4), "u:1-3"), False),
        (UpstreamKind("mysql", lock=False), "u:1-3", None, False),
    ],
)
def test_a_mysqls_snapshot_is_certain_where_no_commit_is_running(
    kind: UpstreamKind, gtids: str, checkpoint: Location | None, certain: bool
) -> None:
    assert is_certain(kind, Location(Position("b.1", 5), gtids), checkpoint) is certain


def test_a_pair_keeps_its_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(refusals=0)
    found, upstream, target = opened(monkeypatch, worker, [])
    assert (found, worker.step) == ([PLACES[0]], OPENED)
    assert (upstream.statements, target.statements) == ([], [SNAPSHOT])


def test_a_pair_after_a_refusal_keeps_its_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(refusals=1)
    found, upstream, target = opened(monkeypatch, worker, [])
    assert (found, worker.step) == ([PLACES[1]], OPENED)
    assert upstream.statements == ["ROLLBACK"]
    assert target.statements == ["ROLLBACK", SNAPSHOT]


def test_a_target_at_another_place_is_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, target = opened(monkeypatch, Worker(refusals=0), ["the checkpoint is elsewhere"])
    assert found == [PLACES[1]]
    assert target.statements == [SNAPSHOT, "ROLLBACK", SNAPSHOT]


def test_a_failed_pair_reports_the_reason_and_no_worker_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(refusals=1000)
    with pytest.raises(DMError, match="source s1: the location is passed") as caught:
        opened(monkeypatch, worker, [])
    assert (caught.value.kind, caught.value.retryable) == (Code.DiffNoPair, True)
    assert worker.step in (REFUSED, GIVEN_UP)


def test_slow_attempts_end_before_the_status_is_silent_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=40)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    worker = Worker(refusals=1000)
    with pytest.raises(DMError, match="the location is passed"):
        opened(monkeypatch, worker, [])
    assert worker.refused == 2
