"""The way of a table's next part: whole rows where they took less time, and never where a slow network makes them
late."""

from __future__ import annotations

import pytest

from dm_worker.comparison.chunk_ways import ChunkWays
from dm_worker.comparison.outcome import ChunkOutcome, DifferenceKind

EQUAL = ChunkOutcome((1000, 1000), 100, "")
DENSE = ChunkOutcome((1000, 900), 100, "", ((DifferenceKind.MISSING, 100),), dense=True)
FEW = ChunkOutcome((1000, 999), 100, "", ((DifferenceKind.MISSING, 1),))
#: Bytes per second, and the seconds that a part may take.
FAST, SLOW, LIMIT = 1e9, 1e6, 30.0


def compared(ways: ChunkWays, parts: int, checksums: float, whole: float, speed: float = FAST) -> list[bool]:
    """The ways of equal parts of which one way takes ``checksums`` seconds and the other ``whole``."""
    taken = []
    for _ in range(parts):
        way = ways.whole(speed, LIMIT)
        ways.took(EQUAL, whole if way else checksums, whole=way)
        taken.append(way)
    return taken


@pytest.mark.parametrize(("checksums", "whole"), [(0.5, 0.2), (0.2, 0.5)])
def test_the_faster_way_is_taken_and_the_other_one_measured_again(checksums: float, whole: float) -> None:
    taken = compared(ChunkWays(), 100, checksums, whole)
    assert taken[:2] == [False, True]
    faster = whole < checksums
    assert taken[2:].count(not faster) == 3
    assert set(taken[2:32]) == {faster}


def test_the_way_changes_with_the_times() -> None:
    ways = ChunkWays()
    assert compared(ways, 32, 0.5, 0.2)[-1]
    assert not any(compared(ways, 40, 0.1, 0.2)[1:31])


def test_a_network_on_which_rows_could_be_late_gets_checksums() -> None:
    assert not any(compared(ChunkWays(), 100, 0.5, 0.1, SLOW))
    assert not any(compared(ChunkWays(), 100, 0.5, 0.1, 0.0))
    # What takes so long may have so many bytes that even a fast network needs longer than the limit.
    assert not any(compared(ChunkWays(), 100, 20.0, 0.1))


def test_after_many_differences_rows_are_read_whole_on_any_network() -> None:
    ways = ChunkWays()
    ways.took(DENSE, 0.5, whole=False)
    assert ways.whole(0.0, LIMIT)
    ways.took(EQUAL, 0.5, whole=True)
    assert not ways.whole(0.0, LIMIT)


def test_parts_with_differences_and_without_rows_are_no_measure() -> None:
    ways = ChunkWays()
    for outcome in (FEW, ChunkOutcome((0, 0), 0, "")):
        ways.took(outcome, 0.5, whole=False)
        assert not ways.can_choose
        assert not ways.whole(FAST, LIMIT)
