"""Hazard: a hold at another location than the one that was asked for, or without an end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from dm_worker.operator_commands.hold_subtask import hold_subtask
from dm_worker.subtask.subtask import SubTask
from dm_worker.syncer.unit.hold import LONGEST_HOLD, HoldState
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb

HERE = Location(Position("bin.000001", 4))


class Asked:
    """Stands for the unit and its hold."""

    unit_type = pb.Sync
    flushed = HERE

    def __init__(self) -> None:
        self.hold = self
        self.seen: list[tuple[Location | None, float]] = []

    def at(self, location: Location | None, limit: float) -> HoldState:
        self.seen.append((location, limit))
        return HoldState(location)


def ask(**request: object) -> tuple[Asked, HoldState]:
    unit = Asked()
    subtask = cast(SubTask, SimpleNamespace(name="t", unit=lambda: unit, config=SimpleNamespace(flavor="mysql")))
    return unit, hold_subtask(subtask, pb.HoldSubTaskRequest(task="t", source="s", **request))  # type: ignore[arg-type]


def test_a_hold_is_asked_at_a_position_a_gtid_set_or_anywhere() -> None:
    place = Location(Position("bin.000003", 1 << 33))
    assert ask(binlogName="bin.000003", binlogPos=1 << 33, seconds=10)[0].seen == [(place, 10.0)]
    gtids = Location(Position("", 0), "00010203-0405-0607-0809-0a0b0c0d0e0f:1-5")
    assert ask(binlogGTID=gtids.gtid_set, seconds=0.5)[0].seen == [(gtids, 0.5)]
    assert ask(seconds=LONGEST_HOLD)[0].seen == [(None, LONGEST_HOLD)]


@pytest.mark.parametrize("seconds", [0, -1, LONGEST_HOLD + 1, float("nan"), float("inf")])
def test_a_hold_has_an_end(seconds: float) -> None:
    unit, state = ask(seconds=seconds)
    assert (unit.seen, state.is_held, state.location) == ([], False, HERE)
    assert "time limit" in state.reason


@pytest.mark.parametrize("request_", [{"binlogName": "bin"}, {"binlogGTID": "0-1-7"}])
def test_what_is_no_location_is_refused(request_: dict[str, str]) -> None:
    with pytest.raises(DMError):
        ask(seconds=10, **request_)
