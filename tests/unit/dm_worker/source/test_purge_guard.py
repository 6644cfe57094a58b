"""Hazard: an upstream that will purge needed files is not noticed in time, or a false alarm is raised."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.source.purge_guard import NO_RISK, PurgeGuard, PurgeRisk, RiskLevel
from pkg.binlog.position import Position
from pkg.errors.workarounds import StoppedUnit
from tests.sweeps import examples

STOPPED = StoppedUnit("s1", "t")
DAY = 86400.0
SIZE = 1000


def files(first: int, last: int, *, open_size: int = 500) -> dict[str, int]:
    return {f"bin.{n:06d}": SIZE if n < last else open_size for n in range(first, last + 1)}


def at(number: int, pos: int = 4) -> Position:
    return Position(f"bin.{number:06d}", pos)


def test_a_reader_that_keeps_up_is_fine() -> None:
    guard = PurgeGuard(STOPPED)
    for day in range(30):
        assert guard.look(day * DAY, files(max(1, day - 6), day + 1), 7 * DAY, at(day + 1, 400)) == NO_RISK


def test_a_paused_reader_is_warned_of_when_half_the_retention_is_left() -> None:
    guard = PurgeGuard(STOPPED)
    risks: list[PurgeRisk] = []
    for hour in range(8 * 24):
        oldest = max(1, (hour - 7 * 24) // 24 + 1)
        risks.append(guard.look(hour * 3600, files(oldest, hour // 24 + 2), 7 * DAY, at(1)))
    first = next(hour for hour, risk in enumerate(risks) if risk.level)
    assert 3.5 * 24 <= first <= 3.5 * 24 + 1
    assert risks[first].seconds_left == pytest.approx(3.5 * DAY, abs=7200)
    assert "bin.000001" in risks[first].text
    assert "hours" in risks[first].text
    levels = [risk.level for risk in risks]
    assert levels == sorted(levels)
    assert levels[-1] == RiskLevel.OK or levels[-1] == RiskLevel.WARNING
    assert guard.look(9 * DAY, files(2, 10), 7 * DAY, at(1)).level == RiskLevel.LOST


def test_what_was_closed_before_the_first_look_is_judged_by_the_lag() -> None:
    assert PurgeGuard(STOPPED).look(0, files(1, 5), 7 * DAY, at(2), lag=DAY) == NO_RISK
    risk = PurgeGuard(STOPPED).look(0, files(1, 5), 7 * DAY, at(2), lag=6 * DAY)
    assert risk.level == RiskLevel.WARNING
    assert risk.seconds_left == pytest.approx(DAY)


def test_a_reader_that_is_too_slow_is_warned_of_early() -> None:
    """It moves, and yet the last file of the backlog will be gone when it comes to it."""
    backlog = files(1, 100)
    slow, fast = PurgeGuard(STOPPED), PurgeGuard(STOPPED)
    for minute in range(5):
        risk = slow.look(minute * 60, backlog, DAY, at(1, 4 + minute * 10))
        fine = fast.look(minute * 60, backlog, DAY, at(1, 4 + minute * 100))
    assert risk.level == RiskLevel.WARNING
    assert fine == NO_RISK


def test_purges_by_others_are_seen_coming() -> None:
    """No retention at all, but somebody removes a file a minute."""
    guard = PurgeGuard(STOPPED)
    risks = [guard.look(n * 60, files(1 + n, 200), None, at(100, 4 + n)) for n in range(30)]
    assert risks[0] == NO_RISK
    assert risks[-1].level == RiskLevel.WARNING
    assert risks[-1].seconds_left == pytest.approx(70 * 60, rel=0.05)


def test_a_file_that_is_yet_to_come_is_not_lost() -> None:
    """The upstream switched to a server that is behind; GTIDs tell what is missing."""
    assert PurgeGuard(STOPPED).look(0, files(1, 5), DAY, at(9)) == NO_RISK
    assert PurgeGuard(STOPPED).look(0, {}, DAY, at(9)) == NO_RISK


def test_the_distance_is_what_may_be_purged_before_and_lost_after() -> None:
    guard = PurgeGuard(STOPPED)
    guard.look(0, files(3, 6), 7 * DAY, at(4, 100), lag=DAY)
    found = guard.distance(DAY, files(3, 6), 7 * DAY, at(4, 100))
    assert (found.oldest, found.before, found.after) == ("bin.000003", SIZE + 100, SIZE - 100 + SIZE + 500)
    # The file was at least a day old at the first look.
    assert found.expires == pytest.approx(5 * DAY)
    writing = guard.distance(DAY, files(3, 6), 7 * DAY, at(6, 100))
    assert writing.expires == pytest.approx(7 * DAY)
    assert guard.distance(DAY, files(3, 6), None, at(4, 100)).expires is None


def test_a_position_that_is_gone_has_no_distance() -> None:
    guard = PurgeGuard(STOPPED)
    guard.look(0, files(3, 6), DAY, at(1))
    found = guard.distance(0, files(3, 6), DAY, at(1))
    assert (found.oldest, found.before, found.after, found.expires) == ("bin.000003", None, None, None)


@settings(max_examples=examples(60))
@given(
    retention=st.integers(400, 3000),
    write=st.integers(1, 50),
    read=st.integers(0, 50),
    every=st.integers(5, 20),
)
def test_no_file_is_lost_without_a_warning_well_before(retention: int, write: int, read: int, every: int) -> None:
    """Against a simulated server: files close when they are full, and go when their retention is over."""
    guard = PurgeGuard(STOPPED)
    warned: float | None = None
    written = position = 0
    closed: dict[int, int] = {}
    for now in range(0, 8_000, every):
        written += write * every
        for number in range(written // SIZE):
            closed.setdefault(number, now)
        position = min(position + read * every, written)
        kept = [n for n in range(written // SIZE + 1) if n not in closed or closed[n] + retention > now]
        sizes = {f"bin.{n:06d}": SIZE if n in closed else written - n * SIZE for n in kept}
        risk = guard.look(now, sizes, retention, at(position // SIZE, position % SIZE))
        if risk.level == RiskLevel.LOST:
            assert warned is not None
            assert now - warned >= retention * 0.3
            return
        if risk.level == RiskLevel.WARNING:
            warned = now if warned is None else warned
        elif read >= write:
            warned = None
