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


#: Rows (key, a, b); UNIQUE (a, live), where ``live`` is what the target computes from ``b``.
_WATCHING = ConflictKey(7, (1,), (KeyNormalizer(key_normalization.EXACT),), (1, 2))
_LIVE = {b"0": b"yes", b"1": b"yes", b"2": b"no"}
Row = tuple[bytes, bytes, bytes]


def _held(row: Row | None) -> tuple[bytes, bytes] | None:
    """The value of the unique key that a row holds."""
    return None if row is None or row[2] == b"NULL" else (row[1], _LIVE[row[2]])


@given(st.lists(st.tuples(*(st.sampled_from(v) for v in ((b"1", b"2", b"3"), (b"a", b"b"), (*_LIVE, b"NULL"))),
                          st.booleans()), max_size=20))  # fmt: skip
def test_rows_that_hand_on_a_value_with_a_computed_part_are_in_one_set(
    steps: list[tuple[bytes, bytes, bytes, bool]],
) -> None:
    pairs, key_of = ConflictPairs(), key_hash((KeyNormalizer(key_normalization.EXACT),), 1)
    collector = ConflictCollector([_WATCHING], 1, key_changes_conflict=False)
    rows: dict[bytes, Row] = {}
    gave_up: dict[tuple[bytes, bytes], set[bytes]] = {}
    handed_on: list[tuple[bytes, bytes]] = []
    for key, a, b, gone in steps:
        before, after = rows.get(key), None if gone else (key, a, b)
        held, wanted = _held(before), _held(after)
        taken = wanted is not None and any(_held(row) == wanted for other, row in rows.items() if other != key)
        if taken or before == after:
            continue
        place = key_of(key)
        one, other = (None if row is None else place for row in (before, after))
        hands = collector.collect(pairs, one, other, before, after)
        assert hands or held == wanted
        if held is not None and held != wanted:
            gave_up.setdefault(held, set()).add(key)
        if wanted is not None and held != wanted:
            handed_on += [(before_, key) for before_ in gave_up.get(wanted, ()) if before_ != key]
        rows.pop(key, None)
        if after is not None:
            rows[key] = after
    moved = find_conflict_sets([pairs.packed()])
    for giver, taker in handed_on:
        assert moved[key_of(giver)] == moved[key_of(taker)]


ends = st.tuples(st.sampled_from("ABCDEFGH"), st.sampled_from("abcdefgh"), st.booleans())


@given(st.lists(ends, max_size=12))
def test_a_family_is_all_that_keys_reach(edges: list[tuple[str, str, bool]]) -> None:
    keys = [ForeignKey(("d", child), ("x",), ("d", parent), ("y",), acts) for child, parent, acts in edges]
    joined = {frozenset({child.lower(), parent}) for child, parent, _ in edges}
    while True:
        # One after the other, those that share a table become one.
        pair = next(((a, b) for a in joined for b in joined if a != b and a & b), None)
        if pair is None:
            break
        joined = (joined - set(pair)) | {pair[0] | pair[1]}
    found = families(keys)
    assert {frozenset(table for _, table in family.tables) for family in found.values()} == joined
    for (_, table), family in found.items():
        own = [key for key in keys if ("d", key.child[1].lower()) in family.tables]
        assert ("d", table) in family.tables
        assert (list(family.keys), family.acts) == (own, any(key.acts for key in own))
