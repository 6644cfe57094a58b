"""Hazard: a row that others have written is in no part that is compared."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import ComparedColumn, KeyLookup, KeyRange, LookupKind, TablePair, TableSide, Way
from dm_worker.comparison.value_forms import Reading
from dm_worker.diff.suspect_parts import ROWS_PER_PART, SuspectRows, WholeTables, points_of
from dm_worker.diff.tables import TableParts
from dm_worker.foreign_writes.suspects import Suspects, TableWrites

T, K = ("d", "T"), ("d", "k")


def pair_of(*ranged: str) -> TablePair:
    columns = tuple(ComparedColumn(name, Reading.SAME) for name in ("id", "part", "v"))
    side = TableSide(*T, 0, ("`id`", "`part`", "`v`"), (), (), tuple((name, 0) for name in ranged))
    return TablePair(side, (side,), columns, (0, 1), tuple(range(len(ranged))), Way.PUSHED, "")


def rows_of(*keys: tuple[bytes, ...], folded: bool = False) -> SuspectRows:
    found = TableWrites()
    found.add(("id", "part"), keys, len(keys))
    return SuspectRows(Suspects({("d", "t") if folded else T: found}), folded)


@given(st.sets(st.tuples(*[st.integers(0, 1200).map(lambda n: b"%d" % n)] * 2), min_size=1, max_size=1500))
def test_each_key_is_in_one_part(keys: set[tuple[bytes, ...]]) -> None:
    parts = rows_of(*keys).of(pair_of("id", "part"))
    points = [point for part in parts for point in part.points]
    assert sorted(points) == sorted(keys)
    assert all(0 < len(part.points) <= ROWS_PER_PART for part in parts)
    # Fewer columns have the rows of more keys.
    assert {point for part in rows_of(*keys).of(pair_of("id")) for point in part.points} == {key[:1] for key in keys}


TEXT = KeyLookup("part", LookupKind.BYTES, "utf8mb4")


def extra(key: tuple[bytes, ...]) -> Difference:
    return Difference(DifferenceKind.EXTRA, key, ("id",), None, (*key, b"1"))


def test_rows_that_only_a_collation_calls_wanted_are_looked_at_once_by_themselves() -> None:
    pair = pair_of("id")
    text = replace(pair.target, lookups=(KeyLookup("id", LookupKind.NUMBER), TEXT))
    pair = replace(pair, target=text, sources=(text,))
    upper, lower, third = (b"1", b"'A'"), (b"1", b"'a'"), (b"1", b"'\xc3\xa4'")
    rows: SuspectRows | None = rows_of(upper, third)
    assert rows is not None
    assert rows.of(pair) == [KeyRange(points=(upper, third))]
    found = [extra(upper), extra(lower)]
    assert rows.wanted(pair, found) == [extra(upper)]
    rows = rows.others_found()
    assert rows is not None
    assert rows.has(T)
    assert rows.of(pair) == [KeyRange(points=(lower,))]
    # The same rows again: each is reported once, and then it ends.
    assert rows.wanted(pair, found) == [extra(lower)]
    assert rows.rows == 0
    assert rows.others_found() is None


def test_each_difference_counts_where_all_servers_find_the_same_rows() -> None:
    rows = rows_of((b"1", b"2"))
    rows.of(pair_of("id", "part"))
    assert rows.wanted(pair_of("id", "part"), [extra((b"01", b"2"))]) == [extra((b"01", b"2"))]
    assert rows.others_found() is None


def test_a_number_that_stands_for_other_text_on_another_server_finds_no_rows() -> None:
    numbered = replace(pair_of().target, lookups=(KeyLookup("id", LookupKind.NUMBER), TEXT))
    assert numbered.point_columns == ()
    assert replace(numbered, bases=(("id", 7),)).point_columns == (("id", 7), ("part", 0))
    assert replace(numbered, bases=(("id", 7),), lookups=(TEXT, None)).point_columns == (("id", 7),)


def test_a_table_whose_rows_can_not_be_named_is_compared_as_a_whole() -> None:
    for rows, pair in (
        (rows_of((b"1", b"2")), pair_of()),
        (rows_of((b"1", b"2")), pair_of("other")),
        (rows_of((b"'\xff'", b"2")), pair_of("id")),
    ):
        assert rows.has(T)
        assert rows.whole == set()
        assert list(rows.of(pair)) == []
        assert rows.whole == {T}
    without_key = SuspectRows(Suspects({K: TableWrites(whole=True, rows=3)}), folded=False)
    assert not without_key.has(K)
    assert (without_key.whole, without_key.rows) == ({K}, 3)
    assert points_of(TableWrites(("id",), {(b"1",)}), ["ID"]) == [(b"1",)]


def test_tables_that_are_not_the_tasks_are_told() -> None:
    rows = rows_of((b"1", b"2"), folded=True)
    rows.suspects.tables["app", "t"] = TableWrites(("id",), {(b"7",)}, rows=5)
    assert rows.has(T)
    assert not rows.has(K)
    assert rows.others() == {("app", "t")}
    assert rows.rows == 1
    assert rows.of(pair_of("id", "part")) == [KeyRange(points=((b"1", b"2"),))]
    assert rows_of((b"1", b"2")).others() == {T}


def test_whole_tables_have_no_parts() -> None:
    tables: TableParts = WholeTables(frozenset({T}))
    assert (tables.has(T), tables.has(K), tables.of(pair_of("id"))) == (True, False, None)
