"""Differences that must be seen at several positions."""

from __future__ import annotations

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.diff.confirmations import Confirmations
from dm_worker.diff.progress import ChunkWork

WORK = ChunkWork(("db", "t"), 0, "all")


def changed(key: bytes, value: bytes) -> Difference:
    return Difference(DifferenceKind.CHANGED, (key,), ("v",), (key, value), (key, b"0"))


def test_one_look_is_enough_where_positions_are_exact() -> None:
    assert Confirmations().seen(WORK, [changed(b"1", b"5")], exact=True) == [changed(b"1", b"5")]


def test_an_exact_look_after_others_decides() -> None:
    looks = Confirmations()
    assert looks.seen(WORK, [changed(b"1", b"5")], exact=False) is None
    assert looks.seen(WORK, [changed(b"2", b"5")], exact=True) == [changed(b"2", b"5")]


def test_a_difference_that_vanishes_does_not_count() -> None:
    looks = Confirmations()
    assert looks.seen(WORK, [changed(b"1", b"5")], exact=False) is None
    assert looks.seen(WORK, [changed(b"2", b"5")], exact=False) == []


def test_a_row_that_differs_each_time_counts_with_its_last_values() -> None:
    looks = Confirmations()
    assert looks.seen(WORK, [changed(b"1", b"5"), changed(b"2", b"5")], exact=False) is None
    assert looks.seen(WORK, [changed(b"1", b"6")], exact=False) is None
    assert looks.seen(WORK, [changed(b"1", b"7"), changed(b"3", b"7")], exact=False) == [changed(b"1", b"7")]


def test_an_equal_chunk_needs_no_second_look() -> None:
    assert Confirmations().seen(WORK, [], exact=False) == []


def test_looks_at_one_chunk_do_not_count_for_another() -> None:
    looks = Confirmations()
    assert looks.seen(WORK, [changed(b"1", b"5")], exact=False) is None
    assert looks.seen(ChunkWork(("db", "t"), 1, "rest"), [changed(b"1", b"5")], exact=False) is None
