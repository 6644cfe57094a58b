"""Hazard: the sweep loads the servers more than allowed, or reports rows as compared that it never read."""

from __future__ import annotations

import pytest

from dm_worker.diff.pace import LEAST_REST, ROW_BYTES, SweepState, rest_after
from dm_worker.diff.progress import ChunkWork, ComparedChunk, DiffCounts, DiffProgress, TableProgress


@pytest.mark.parametrize(
    ("rows", "read", "seconds", "rest"),
    [
        (1000, 0, 1.0, 9.0),
        (0, 1000 * ROW_BYTES, 1.0, 9.0),
        (1000, 500 * ROW_BYTES, 1.0, 9.0),
        # Too slow for the rate: most of the time is rest nevertheless.
        (1000, 0, 20.0, 20.0 * LEAST_REST),
        (0, 0, 0.5, 0.5 * LEAST_REST),
    ],
)
def test_a_job_is_followed_by_a_rest(rows: int, read: int, seconds: float, rest: float) -> None:
    assert rest_after(rows, read, seconds, 100) == pytest.approx(rest)


def test_without_a_rate_there_is_no_rest() -> None:
    assert rest_after(1000, 1 << 30, 20.0, 0) == 0.0


def progress() -> DiffProgress:
    """A table of which one of four chunks is compared, and one of another source."""
    found = DiffProgress(
        [TableProgress(("d", "t"), (), 400), TableProgress(("d", "u"), (), 9000, reason="rows of source s2 are in it")]
    )
    found.planned(("d", "t"), ["a", "b", "c", "d"])
    found.compared(ChunkWork(("d", "t"), 0, "a"), ComparedChunk(DiffCounts(), 100, 50, "p", "checksums"))
    return found


def test_the_status_has_the_time_of_whole_rounds_and_where_the_present_one_is() -> None:
    assert SweepState(progress(), 30.0, 95.0).text() == (
        "last whole round: 95s; present round: 100 of about 400 rows (25.00 %), estimated 120s in all;"
        " tables not swept as a whole: 1 (`d`.`u`: rows of source s2 are in it)"
    )


def test_what_is_not_known_yet_is_not_guessed() -> None:
    assert SweepState(DiffProgress([TableProgress(("d", "t"), (), 7)]), 3.0, 0.0, "a lag").text() == (
        "last whole round: none yet; present round: 0 of about 7 rows (0.00 %), estimated unknown in all; waits: a lag"
    )
    assert SweepState(DiffProgress([]), None, 5.0).text() == (
        "last whole round: 5s; the next round begins within a minute"
    )
