"""Hazards: a tied row stays behind in another bucket, rows meet that have nothing in common, a place that depends on
the order in which pairs are seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.execution import row_block
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
    TargetCharsets,
    normalize_function,
    normalizer_of,
    split_literals,
)
from pkg.binlog.literals import MembersByName
from pkg.mysql.collation_weights import NEAR, CollationWeights, weights
from pkg.mysql.schema import Column, ForeignKey

pairs_of = st.lists(st.tuples(st.integers(0, 12), st.integers(100, 112)), max_size=40)


def packed(pairs: list[tuple[int, int]]) -> bytes:
    return b"".join(CONFLICT_PAIR.pack(*pair) for pair in pairs)


@given(pairs_of, st.randoms(use_true_random=False))
def test_components_are_what_one_reaches_over_shared_ties(pairs: list[tuple[int, int]], chance: random.Random) -> None:
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


def bound(
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


def test_only_values_that_change_hands_tie() -> None:
    assert bound(([b"1", b"5"], [b"1", b"5"])) == (0, [False])
    assert bound(([b"1", b"5"], [b"1", b"6"])) == (2, [True])
    assert bound(([b"1", b"5"], [b"1", b"NULL"])) == (1, [True])
    assert bound((None, [b"1", b"NULL"]), ([b"1", b"NULL"], None))[0] == 0
    # The row has another key, hence another place, and takes its value along.
    assert bound(([b"1", b"5"], [b"2", b"5"])) == (2, [False])
    assert bound(([b"1", b"NULL"], [b"2", b"NULL"])) == (0, [False])
    assert bound(([b"1", b"NULL"], [b"2", b"NULL"]), key_changes_conflict=True) == (2, [False])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=20), st.integers(1, 7))
def test_resettled_blocks_hold_every_record_once_where_it_belongs(rows: list[tuple[int, int]], buckets: int) -> None:
    records = [row_block.state_record(1, 0, place, b"k%d" % place, b"(%d)" % value) for place, value in rows]
    ordered = [row_block.row_record((n, 0, 2, 9, None, [b"%d" % n]), place) for n, (place, _) in enumerate(rows)]
    data = (
        row_block.HEADER.pack(50)
        + row_block.section(3, row_block.STATES, records)
        + row_block.section(4, row_block.ROWS, ordered)
    )
    moved = {0: 5, 5: 5, 3: 8}
    home = 2 % buckets
    made = row_block.reassign(data, home, moved, buckets)
    assert sum(row_block.changes_of(part) for _, part in made) == 50
    states: dict[int, list[bytes]] = {}
    for bucket, part in made:
        for target, found, kept in row_block.sections(part):
            assert target == (3 if found else 4)
            states.setdefault(bucket, []).extend(key for key, *_ in found)
            assert [row[0] for row in kept] == sorted(row[0] for row in kept)
    expected: dict[int, list[bytes]] = {}
    for place, _ in rows:
        expected.setdefault(moved[place] % buckets if place in moved else home, []).append(b"k%d" % place)
    assert states == expected


literal = st.one_of(
    st.integers().map(lambda n: b"%d" % n),
    st.just(b"NULL"),
    st.binary(max_size=9).map(lambda raw: b"x'%b'" % raw.hex().encode()),
    st.text().map(lambda text: b"'%b'" % text.encode().replace(b"\\", b"\\\\").replace(b"'", b"\\'")),
    st.binary(min_size=1, max_size=9).map(lambda raw: b"_gbk x'%b'" % raw.hex().encode()),
)


@given(st.lists(literal, min_size=1, max_size=5))
def test_joined_literals_come_apart_again(parts: list[bytes]) -> None:
    assert split_literals(b",".join(parts)) == parts


@given(st.decimals(-1000, 1000, places=4), st.integers(0, 6))
def test_decimals_meet_when_the_target_stores_one_number(value: Decimal, places: int) -> None:
    make = normalize_function(KeyNormalizer(key_normalization.DECIMAL, places))
    made = make(str(value).encode())
    assert make(made) == made
    assert make(b"%b00" % str(value).encode()) == made
    assert abs(Decimal(made.decode()) - value) <= Decimal(5).scaleb(-places - 1)


def column(name: str, kind: str, **more: str) -> Column:
    return Column("c", name, kind, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("here", "there", "kind"),
    [
        (column("int", "int"), column("bigint", "bigint unsigned"), key_normalization.EXACT),
        (column("int", "int"), column("double", "double"), key_normalization.INCOMPARABLE),
        (column("float", "float"), column("double", "double"), key_normalization.FLOAT),
        (column("float", "float(7,2)"), column("float", "float(7,3)"), key_normalization.INCOMPARABLE),
        (column("enum", "enum('a','b')"), column("enum", "enum('a','b','c')"), key_normalization.EXACT),
        (MembersByName.of(column("enum", "enum('b','a')")), column("enum", "enum('a','b')"), key_normalization.MEMBERS),
        (column("enum", "enum('z')"), column("enum", "enum('a')"), key_normalization.INCOMPARABLE),
        (column("binary", "binary(4)"), column("binary", "binary(6)"), key_normalization.BINARY),
        (column("varbinary", "varbinary(4)"), column("blob", "blob"), key_normalization.EXACT),
        (column("varchar", "varchar(9)", charset="utf8mb4"), column("blob", "blob"), key_normalization.INCOMPARABLE),
        (column("json", "json"), column("json", "json"), key_normalization.INCOMPARABLE),
        (column("int", "int", generated="STORED"), column("int", "int"), key_normalization.INCOMPARABLE),
    ],
)
def test_forms_by_types(here: Column, there: Column, kind: str) -> None:
    assert normalizer_of(here, there, 0, key_normalization.UNKNOWN_CHARSETS).kind == kind


def test_members_by_name_and_by_number_meet() -> None:
    there = column("enum", "enum('a','it''s')")
    by_name = normalize_function(
        normalizer_of(MembersByName.of(column("enum", "enum('it''s')")), there, 0, key_normalization.UNKNOWN_CHARSETS)
    )
    assert (by_name(b"'it\\'s'"), by_name(b"'a'"), by_name(b"''")) == (b"2", b"1", b"0")


def text_maker(
    table: list[bytes], *, prefix: int = 0, far: bytes = b"", here: str = "utf8mb4"
) -> Callable[[bytes], bytes]:
    there = column("varchar", "varchar(9)", charset="utf8mb4", collation="utf8mb4_x_ci")
    collation_weights = CollationWeights.of("utf8mb4_x_ci", table, far)
    assert weights(collation_weights) == tuple(table)
    told = TargetCharsets(lambda *_: collation_weights, lambda _: "".join(chr(0x20 + n % 0x60) for n in range(256)))
    return normalize_function(normalizer_of(column("varchar", "varchar(9)", charset=here), there, prefix, told))


def test_texts_fold_by_weights_without_trailing_spaces() -> None:
    table = [b"\0%c" % n for n in range(128)]
    table[ord("B")] = table[ord("b")]
    table[ord("-")] = b""
    table[ord("w")] = table[ord("v")] * 2
    make = text_maker(table)
    assert make(b"'aB-- '") == make(b"'ab'") != make(b"' ab'")
    assert make(b"'w'") == make(b"'v-v '")
    assert make(b"'a\\'\\\\'") == b"\0a\0'\0\\"
    assert text_maker(table, prefix=2)(b"'a  b'") == make(b"'a'")
    # Beyond the table a character stands for itself, or all are one.
    assert make("'\U0001f600'".encode()) != make("'\U0001f601'".encode())
    all_one = text_maker(table, far=b"??")
    assert all_one("'\U0001f600 '".encode()) == all_one("'\U0010ffff'".encode()) == b"??"
    assert text_maker([b"%c" % (n % 251) for n in range(NEAR + 0x1000)])("'\U000e0001'".encode()) == b"%c" % (
        (NEAR + 1) % 251
    )


def test_texts_of_other_charsets_fold_by_their_characters() -> None:
    table = [b"%c" % n for n in range(128)]
    assert text_maker(table, here="latin1")(b"_latin1 x'0121'") == b"!A"
    assert text_maker(table, here="utf16")(b"_utf16 x'00410020'") == b"A"


def test_families_are_what_foreign_keys_connect() -> None:
    def key(child: str, parent: str, *, acts: bool = False) -> ForeignKey:
        return ForeignKey(("d", child), ("p",), ("D", parent), ("id",), acts)

    found = families([key("b", "A"), key("x", "x"), key("c", "b", acts=True), key("y", "z")])
    assert found["d", "a"] is found["d", "c"]
    assert (found["d", "a"].acts, found["d", "x"].acts, found["d", "z"].acts) == (True, False, False)
    assert found["d", "a"].tables == {("d", "a"), ("d", "b"), ("d", "c")}
    assert len(found["d", "a"].keys) == 2
