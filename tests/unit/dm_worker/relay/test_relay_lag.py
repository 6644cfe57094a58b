"""Hazard: a relay that does not receive anything, or whose upstream is gone, is shown as being up to date."""

from __future__ import annotations

import pytest

from dm_worker.relay.relay_lag import relay_lag
from dm_worker.relay.upstream_end import BinlogTail
from pkg.binlog.position import Location, Position
from pkg.status.lag import UNKNOWN, StreamLag

UPSTREAM = BinlogTail(Location(Position("b.000002", 300)), 1000.5, {"b.000001": 500, "b.000002": 4})
BEHIND, THERE, ELSEWHERE = Position("b.000001", 400), Position("b.000002", 300), Position("c.000007", 4)


@pytest.mark.parametrize(
    ("here", "newest", "lag"),
    [
        (BEHIND, 990, StreamLag(10, 400, "reading")),
        (BEHIND, 0, StreamLag(UNKNOWN, 400, "reading")),
        # The newest event may be a day old when nothing has been written since.
        (THERE, 5, StreamLag(0, 0, "source_idle")),
        (ELSEWHERE, 990, StreamLag(10, UNKNOWN, "reading")),
        (None, 0, StreamLag(UNKNOWN, UNKNOWN, "reading")),
    ],
)
def test_a_relay_is_behind_by_its_newest_event(here: Position | None, newest: int, lag: StreamLag) -> None:
    assert relay_lag(UPSTREAM, here, newest, running=True, connected=True) == lag


@pytest.mark.parametrize(
    ("running", "connected", "reason"),
    [(False, False, "stopped"), (True, False, "retry"), (True, True, "upstream_away")],
)
def test_without_an_answer_of_the_upstream_nothing_is_known(running: bool, connected: bool, reason: str) -> None:
    lag = StreamLag(UNKNOWN, UNKNOWN, reason)
    assert relay_lag(None, THERE, 990, running=running, connected=connected) == lag


def test_a_paused_relay_that_has_all_is_not_behind() -> None:
    assert relay_lag(UPSTREAM, THERE, 5, running=False, connected=False) == StreamLag(0, 0, "stopped")
