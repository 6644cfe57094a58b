"""Hazard: when suspects are added up, a row or a table is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.foreign_writes import suspects
from dm_worker.foreign_writes.suspects import RowKey, Suspects, TableWrites

T, K = ("d", "t"), ("d", "k")
keys = st.sets(st.tuples(st.integers(0, 30).map(lambda n: b"%d" % n)), max_size=6)
writes = st.tuples(st.sampled_from([("id",), ("id",), ("id",), ("other",), ()]), keys)


@given(st.lists(writes, max_size=6), st.integers(0, 6))
def test_merged_writes_are_those_of_all(found: list[tuple[tuple[str, ...], set[RowKey]]], cut: int) -> None:
    one, first, second = TableWrites(), TableWrites(), TableWrites()
    for number, (columns, some) in enumerate(found):
        one.add(columns, some, len(some))
        (first if number < cut else second).add(columns, some, len(some))
    first.merge(second)
    named = {columns for columns, _ in found}
    assert one.whole == first.whole == (() in named or len(named) > 1)
    wanted = set() if one.whole else {key for _, some in found for key in some}
    assert one.keys == first.keys == wanted
    assert one.rows == first.rows == sum(len(some) for _, some in found)


def test_many_rows_and_many_statements_stand_for_whole_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "MOST_KEYS", 3)
    monkeypatch.setattr(suspects, "MOST_STATEMENTS", 2)
    table = TableWrites()
    table.add(("id",), [(b"1",), (b"2",), (b"3",)], 3)
    assert not table.whole
    table.add(("id",), [(b"4",)], 1)
    assert (table.whole, table.keys, table.rows) == (True, set(), 4)

    found = Suspects()
    assert not found
    for text in ("TRUNCATE `t`", "DELETE FROM x"):
        found.add_statement(text)
    assert found.of(K, folded=False) is None
    found.add_statement("DELETE FROM y")
    assert found
    assert found.of(K, folded=False) == TableWrites(whole=True)
    other = Suspects({T: TableWrites(("id",), {(b"1",)}, rows=1)})
    other.merge(found)
    assert other.of(T, folded=False) == TableWrites(whole=True, rows=1)


def test_a_statement_concerns_each_table_that_it_may_name() -> None:
    found = Suspects(statements=["truncate table `a``b`", "drop database d2"])
    assert found.of(("x", "a`b"), folded=False) is not None
    assert found.of(("d2", "t"), folded=False) is not None
    assert found.of(("d", "t"), folded=False) is None
    assert found.of(("d", "A`B"), folded=False) is not None


def test_names_are_found_as_the_target_writes_them() -> None:
    found = Suspects({T: TableWrites(("id",), {(b"1",)}, rows=1)})
    assert found.of(("D", "T"), folded=True) == found.tables[T]
    assert found.of(("D", "T"), folded=False) is None
