"""Hazard: without a position, a row that replication has not delivered yet is reported, or a lasting difference is
not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.diff import standing
from dm_worker.diff.progress import ChunkWork
from dm_worker.diff.standing import MOST_LOOKS, NEEDED, StandingDifferences

WORK = ChunkWork(("db", "t"), 0, "all")
SETTLE = 30.0


class Looks:
    """A chunk, looked at whenever it is due."""

    def __init__(self) -> None:
        self.now = 100.0
        self.standing = StandingDifferences(SETTLE, lambda: self.now)

    def look(self, *found: Difference) -> list[Difference] | None:
        assert self.standing.is_due(WORK)
        answer = self.standing.seen(WORK, found, exact=False)
        if answer is None:
            assert not self.standing.is_due(WORK)
            self.now += SETTLE / (NEEDED - 1)
        return answer


def changed(key: int, *values: tuple[int, int]) -> Difference:
    """``values``: of each column upstream and at the target."""
    here, there = ((str(key).encode(), *(str(pair[side]).encode() for pair in values)) for side in (0, 1))
    return Difference(DifferenceKind.CHANGED, (str(key).encode(),), ("v",), here, there)


def missing(key: int, value: int) -> Difference:
    row = (str(key).encode(), str(value).encode())
    return Difference(DifferenceKind.MISSING, row[:1], (), row, None)


def keyless(value: int, here: int, there: int) -> Difference:
    row = (str(value).encode(),)
    kind = DifferenceKind.MISSING if here > there else DifferenceKind.EXTRA
    return Difference(kind, (), (), row if here else None, row if there else None, counts=(here, there))


def test_an_equal_chunk_needs_no_second_look() -> None:
    assert Looks().look() == []


def test_a_difference_that_stays_counts_after_the_settle_time() -> None:
    looks = Looks()
    for _ in range(NEEDED - 1):
        assert looks.look(changed(1, (5, 6))) is None
    assert looks.look(changed(1, (5, 6))) == [changed(1, (5, 6))]
    assert looks.now == 100.0 + SETTLE


def test_a_row_that_was_equal_at_one_look_is_not_reported() -> None:
    looks = Looks()
    assert looks.look(missing(1, 5), missing(2, 5)) is None
    assert looks.look(missing(2, 5)) is None
    assert looks.look(missing(1, 5), missing(2, 5)) == [missing(2, 5)]


def test_a_row_that_changes_at_each_look_does_not_count_and_is_named() -> None:
    looks = Looks()
    for number in range(MOST_LOOKS - 1):
        assert looks.look(changed(1, (number, number - 1)), missing(2, 5)) is None
    assert looks.look(changed(1, (99, 98)), missing(2, 5)) == [missing(2, 5)]
    reason = looks.standing.given_up(WORK)
    assert "1 rows had other values at each of 20 looks" in reason
    assert "changed (1)" in reason
    assert looks.standing.given_up(WORK) == ""


def test_a_fault_beside_a_column_that_always_changes_is_found() -> None:
    looks = Looks()
    for number in range(NEEDED - 1):
        assert looks.look(changed(1, (number, number - 1), (7, 8))) is None
    assert looks.look(changed(1, (9, 8), (7, 8))) == [changed(1, (9, 8), (7, 8))]


def test_a_row_that_is_missing_then_changed_is_one_row_that_never_was_equal() -> None:
    looks = Looks()
    assert looks.look(missing(1, 5)) is None
    for _ in range(NEEDED - 1):
        assert looks.look(changed(1, (6, 5))) is None
    assert looks.look(changed(1, (6, 5))) == [changed(1, (6, 5))]


def test_numbers_of_equal_rows_without_a_key_must_stay() -> None:
    looks = Looks()
    for number in range(NEEDED - 1):
        assert looks.look(keyless(3, 1, 0), keyless(4, 0, 1 + number)) is None
    assert looks.look(keyless(3, 1, 0)) == [keyless(3, 1, 0)]


def test_a_table_that_is_not_compared_any_more_is_forgotten() -> None:
    looks = Looks()
    assert looks.look(missing(1, 5)) is None
    assert "(1) are compared again" in looks.standing.waits_for
    looks.standing.forget(WORK.target)
    assert looks.standing.waits_for == ""


def test_no_other_chunk_begins_while_too_many_rows_are_to_be_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks()
    assert looks.look(*(missing(key, 1) for key in range(5))) is None
    other = ChunkWork(("db", "t"), 1, "rest")
    assert looks.standing.is_due(other)
    monkeypatch.setattr(standing, "MOST_ROWS", 5)
    assert not looks.standing.is_due(other)


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=12))
def test_what_counts_differed_at_each_look_and_was_the_same_at_the_last_ones(history: list[list[int]]) -> None:
    """Each look gives each of four rows a state: equal, or one of two differences."""
    looks = Looks()
    for number, states in enumerate(history, start=1):
        found = [changed(key, (state, 0)) for key, state in enumerate(states) if state]
        answer = looks.look(*found)
        if answer is None:
            continue
        expected = []
        for key in range(4):
            own = [states[key] for states in history[:number]]
            if all(own) and len(own) >= NEEDED and len(set(own[-NEEDED:])) == 1:
                expected.append(changed(key, (own[-1], 0)))
        assert answer == expected
        return
