"""Hazards: a row of a conflict set stays in another bucket; unrelated rows meet; the order of finding decides."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.rows import key_normalization
from dm_worker.syncer.rows.conflict_sets import (
    CONFLICT_PAIR,
    ConflictCollector,
    ConflictKey,
    ConflictPairs,
    families,
    find_conflict_sets,
    key_hash,
)
from dm_worker.syncer.rows.key_normalization import (
    KeyNormalizer,
)
from pkg.mysql.schema import ForeignKey

pairs_of = st.lists(st.tuples(st.integers(0, 12), st.integers(100, 112)), max_size=40)


def packed(pairs: list[tuple[int, int]]) -> bytes:
    return b"".join(CONFLICT_PAIR.pack(*pair) for pair in pairs)


@given(pairs_of, st.randoms(use_true_random=False))
def test_a_conflict_set_is_what_shared_values_reach(pairs: list[tuple[int, int]], chance: random.Random) -> None:
    moved = find_conflict_sets([packed(pairs)])
    reached = {row: {row} for row, _ in pairs}
    for _ in pairs:
        for row, conflict_key in pairs:
            for other, same in pairs:
                if conflict_key == same:
                    both = reached[row] | reached[other]
                    for member in both:
                        reached[member] = reached[member] | both
    assert moved == {row: min(found) for row, found in reached.items() if len(found) > 1}
    shuffled = pairs * 2
    chance.shuffle(shuffled)
    cut = len(shuffled) // 3
    assert find_conflict_sets([packed(shuffled[:cut]), packed(shuffled[cut:])]) == moved


BY_VALUE = ConflictKey(7, (1,), (KeyNormalizer(key_normalization.EXACT),))


def collected(
    *changes: tuple[list[bytes] | None, list[bytes] | None], key_changes_conflict: bool = False
) -> tuple[int, list[bool]]:
    """How many pairs the changes of (key, value) rows give, and which change hands."""
    pairs, key = ConflictPairs(), key_hash((KeyNormalizer(key_normalization.EXACT),), 1)
    collector = ConflictCollector([BY_VALUE], 1, key_changes_conflict=key_changes_conflict)
    hands = [
        collector.collect(pairs, None if a is None else key(a[0]), None if b is None else key(b[0]), a, b)
        for a, b in changes
    ]
    return len(pairs.packed()) // CONFLICT_PAIR.size, hands


def test_only_values_that_change_hands_conflict() -> None:
    assert collected(([b"1", b"5"], [b"1", b"5"])) == (0, [False])
    assert collected(([b"1", b"5"], [b"1", b"6"])) == (2, [True])
    assert collected(([b"1", b"5"], [b"1", b"NULL"])) == (1, [True])
    assert collected((None, [b"1", b"NULL"]), ([b"1", b"NULL"], None))[0] == 0
    # The row has another key, hence another place, and takes its value along.
    assert collected(([b"1", b"5"], [b"2", b"5"])) == (2, [False])
    assert collected(([b"1", b"NULL"], [b"2", b"NULL"])) == (0, [False])
    assert collected(([b"1", b"NULL"], [b"2", b"NULL"]), key_changes_conflict=True) == (2, [False])


def test_families_are_what_foreign_keys_connect() -> None:
    def key(child: str, parent: str, *, acts: bool = False) -> ForeignKey:
        return ForeignKey(("d", child), ("p",), ("D", parent), ("id",), acts)

    found = families([key("b", "A"), key("x", "x"), key("c", "b", acts=True), key("y", "z")])
    assert found["d", "a"] is found["d", "c"]
    assert (found["d", "a"].acts, found["d", "x"].acts, found["d", "z"].acts) == (True, False, False)
    assert found["d", "a"].tables == {("d", "a"), ("d", "b"), ("d", "c")}
    assert len(found["d", "a"].keys) == 2
