"""Hazard: a row in a transaction that the snapshot does not show yet is reported, or a fault of a row that is written
all the time is not."""

from __future__ import annotations

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.diff.confirmations import MOST_LOOKS, NEEDED, SETTLE, Confirmations
from dm_worker.diff.progress import ChunkWork

WORK = ChunkWork(("db", "t"), 0, "all")


class Looks:
    """A chunk, looked at whenever it is due."""

    def __init__(self) -> None:
        self.now = 100.0
        self.confirmations = Confirmations(lambda: self.now)

    def look(self, *found: Difference, exact: bool = False) -> list[Difference] | None:
        assert self.confirmations.is_due(WORK)
        answer = self.confirmations.seen(WORK, found, exact=exact)
        self.now += SETTLE
        return answer


def changed(key: int, here: int, there: int) -> Difference:
    name = b"%d" % key
    return Difference(DifferenceKind.CHANGED, (name,), ("v",), (name, b"%d" % here), (name, b"%d" % there))


def test_one_look_is_enough_where_positions_are_exact() -> None:
    assert Looks().look(changed(1, 5, 0), exact=True) == [changed(1, 5, 0)]


def test_an_exact_look_after_others_decides() -> None:
    looks = Looks()
    assert looks.look(changed(1, 5, 0)) is None
    assert looks.look(changed(2, 5, 0), exact=True) == [changed(2, 5, 0)]


def test_a_difference_that_vanishes_does_not_count() -> None:
    looks = Looks()
    assert looks.look(changed(1, 5, 0)) is None
    assert looks.look(changed(2, 5, 0)) == []  # equal at the first look


def test_a_row_in_a_transaction_at_each_look_does_not_count() -> None:
    """The snapshot never has its last version, the target has."""
    looks = Looks()
    for number in range(MOST_LOOKS - 2):
        assert looks.look(changed(1, number, number + 1), changed(2, number % 2, 1 - number % 2)) is None
    assert looks.look() == []


def test_a_row_that_stays_different_counts() -> None:
    looks = Looks()
    for number in range(NEEDED - 1):
        assert looks.look(changed(1, 5, 0), changed(2, number, number + 1)) is None
    assert looks.look(changed(1, 5, 0)) == [changed(1, 5, 0)]


def test_a_target_that_does_not_follow_a_row_counts() -> None:
    looks = Looks()
    for number in range(NEEDED - 1):
        assert looks.look(changed(1, number + 5, 0)) is None
    assert looks.look(changed(1, 99, 0)) == [changed(1, 99, 0)]


def test_a_row_that_is_never_decided_is_named() -> None:
    looks = Looks()
    for number in range(MOST_LOOKS - 1):
        assert looks.look(changed(1, number, number + 1)) is None
    assert looks.look(changed(1, 1000, 1001)) == []
    assert "--lock" in looks.confirmations.given_up(WORK)


def test_an_equal_chunk_needs_no_second_look() -> None:
    assert Looks().look() == []
