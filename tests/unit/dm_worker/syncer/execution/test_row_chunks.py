"""Hazard: a chunk expects other rows than were written, or in another order than the target returns them in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.execution.row_chunks import RowChunk, chunks_of, may_chunk
from dm_worker.syncer.execution.row_look import ExpectedRow
from tests.unit.dm_worker.syncer.execution.test_row_block import plan_of

PLAN = plan_of().to_compare()
TWO = replace(PLAN, key=(0, 1), key_names=("id", "note"))
ROWS = [b"(2,'b')", b"(10,'k,(')", b"(1,NULL)"]


def chunks(keys: list[bytes], rows: list[bytes], most_rows: int = 100, *, full: bool = True) -> list[RowChunk]:
    return list(chunks_of(PLAN, keys, rows, most_rows, 1 << 20, full=full))


def test_the_text_has_the_rows_in_the_order_of_their_keys_and_the_statement_asks_for_it() -> None:
    (chunk,) = chunks([b"1", b"2", b"10", b"3"], ROWS)
    assert chunk.text == b"(1,NULL),(10,'k,('),(2,'b')"
    assert chunk.statement(PLAN, full=True) == (
        b"SELECT CAST(GROUP_CONCAT(_binary'(',IFNULL(`id`,'NULL'),',',QUOTE(CAST(`note` AS BINARY)),')'"
        b" ORDER BY CAST(IFNULL(`id`,'NULL') AS BINARY) SEPARATOR ',') AS BINARY)"
        b" FROM `d`.`t1` WHERE `id` IN (1,10,2,3)"
    )
    assert [row.expected() for row in chunk.rows(PLAN)] == [
        ExpectedRow(1, b"1", [b"1", b"NULL"]),
        ExpectedRow(1, b"10", [b"10", b"'k,('"]),
        ExpectedRow(1, b"2", [b"2", b"'b'"]),
        ExpectedRow(1, b"3", None),
    ]


def test_without_values_the_text_has_the_keys_of_the_rows_that_are_there() -> None:
    (chunk,) = chunks([b"1", b"2", b"10", b"3"], ROWS, full=False)
    assert chunk.text == b"(1),(10),(2)"
    assert b"note" not in chunk.statement(PLAN, full=False)


def test_a_key_of_two_columns_is_looked_up_as_a_row() -> None:
    (chunk,) = chunks_of(TWO, [b"(10,'a')", b"(1,'b')"], [b"(1,'b')"], 100, 1 << 20, full=True)
    assert b"WHERE (`id`,`note`) IN ((1,'b'),(10,'a'))" in chunk.statement(TWO, full=True)
    order = b"ORDER BY CAST(IFNULL(`id`,'NULL') AS BINARY),CAST(QUOTE(CAST(`note` AS BINARY)) AS BINARY) "
    assert order in chunk.statement(TWO, full=True)
    assert list(chunk.row_keys()) == [b"1,'b'", b"10,'a'"]
    assert [row.expected().values for row in chunk.rows(TWO)] == [[b"1", b"'b'"], None]


numbers = st.integers(-120, 120)


@given(st.sets(numbers), st.sets(numbers), st.integers(1, 7), st.integers(1, 60))
def test_each_row_is_in_one_chunk_with_its_key(there: set[int], gone: set[int], rows: int, size: int) -> None:
    keys = [b"%d" % n for n in there | gone]
    found = list(chunks_of(PLAN, keys, [b"(%d,'%d')" % (n, n) for n in there], rows, size, full=True))
    assert sorted(key for chunk in found for key in chunk.row_keys()) == sorted(keys)
    assert {(row.key, row.values is not None) for chunk in found for row in chunk.rows(PLAN)} == {
        (b"%d" % n, n in there) for n in there | gone
    }
    for chunk in found:
        assert chunk.keys.count <= rows
        assert chunk.keys.count == 1 or len(chunk.text) <= size + chunk.there.count


@given(st.sets(st.tuples(numbers, st.sampled_from([b"''", b"'a'", b"'a b'", b"'a\\'b'", b"'b'"]))))
def test_keys_of_two_columns_are_in_the_order_of_each_ones_bytes(keys: set[tuple[int, bytes]]) -> None:
    joined = [b"(%d,%b)" % key for key in keys]
    wanted = [b"(%b,%b)" % pair for pair in sorted((b"%d" % number, text) for number, text in keys)]
    found = list(chunks_of(TWO, joined, joined, 1000, 1 << 20, full=True))
    assert [row for chunk in found for row in chunk.there.rows()] == wanted


@pytest.mark.parametrize("full", [False, True])
def test_a_column_without_a_text_prevents_chunks_only_where_it_is_compared(full: bool) -> None:
    assert may_chunk(PLAN, full=full)
    assert may_chunk(replace(PLAN, texts=(PLAN.texts[0], "")), full=full) == (not full)
    assert not may_chunk(replace(PLAN, texts=("", PLAN.texts[1])), full=full)


@given(st.sets(numbers), st.sets(numbers), st.integers(1, 7))
def test_without_values_each_key_that_is_there_is_in_the_text(there: set[int], gone: set[int], rows: int) -> None:
    keys = [b"%d" % n for n in there | gone]
    found = list(chunks_of(PLAN, keys, [b"(%d,'%d')" % (n, n) for n in there], rows, 1 << 20, full=False))
    assert [key for chunk in found for key in chunk.text.split(b",") if key] == sorted(b"(%d)" % n for n in there)


texts = st.dictionaries(numbers, st.sampled_from([b"'a'", b"'b'", b"'),(1,\\'a'", b"NULL"]))


@given(texts, st.sets(numbers), texts)
def test_only_rows_with_other_text_are_in_doubt(
    there: dict[int, bytes], gone: set[int], found: dict[int, bytes]
) -> None:
    gone = gone - there.keys()
    keys = [b"%d" % n for n in there.keys() | gone]
    rows = sorted(b"(%d,%b)" % row for row in found.items())
    is_more = bool(found.keys() - there.keys())
    for chunk in chunks_of(PLAN, keys, [b"(%d,%b)" % row for row in there.items()], 1000, 1 << 20, full=True):
        doubtful = list(chunk.doubtful(PLAN, b",".join(rows), full=True))
        assert {int(row.key) for row in doubtful if row.values} == {n for n in there if found.get(n) != there[n]}
        assert {int(row.key) for row in doubtful if not row.values} == (gone if is_more else set())
    for chunk in chunks_of(PLAN, keys, [b"(%d,%b)" % row for row in there.items()], 1000, 1 << 20, full=False):
        doubtful = list(chunk.doubtful(PLAN, b",".join(sorted(b"(%d)" % n for n in found)), full=False))
        assert {int(row.key) for row in doubtful if row.values} == there.keys() - found.keys()
        assert {int(row.key) for row in doubtful if not row.values} == (gone if is_more else set())


@pytest.mark.parametrize("text", [b"(1,'a", b"(1,'a'", b"(1,'a')(2,'b')", b"(1,'a'),(2,'b'),", b"?", b"((1,'a'))"])
def test_a_text_that_is_no_list_of_rows_proves_no_row_that_follows(text: bytes) -> None:
    (chunk,) = chunks([b"1", b"2", b"3"], [b"(1,'a')", b"(2,'b')"])
    doubtful = [row.key for row in chunk.doubtful(PLAN, text, full=True)]
    assert doubtful == ([b"3"] if text.endswith(b",") else [b"1", b"2", b"3"])


def test_rows_with_keys_of_two_columns_are_told_apart() -> None:
    rows = [b"(1,'a')", b"(1,'b')", b"(12,'a')"]
    (chunk,) = chunks_of(TWO, rows, rows, 100, 1 << 20, full=True)
    assert [row.key for row in chunk.doubtful(TWO, b"(1,'a'),(12,'a')", full=True)] == [b"1,'b'"]
