"""Hazard: among thousands of rows the search does not find the one that the target refuses, or blames another one."""

from __future__ import annotations

from dataclasses import replace

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.execution import refused_rows
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from pkg.mysql.connection import classify, is_retryable
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

ID = Column("id", "int", "int(11)", nullable=False)
NOTE = Column("note", "varchar", "varchar(20)", charset="utf8mb4")
KEY = Index("PRIMARY", (IndexPart("id"),), unique=True)
UPSTREAM = TableInfo("s", "t", (ID, NOTE), (KEY,))
TARGET = TableInfo("d", "t", (NOTE, ID), (KEY,))


@given(st.data())
def test_search_finds_the_first_bad_row_with_few_statements(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 3000))
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=5))
    written: list[int] = []
    asked = 0
    tried = 0

    def refused(first: int, last: int) -> bool:
        nonlocal asked, tried
        asked += 1
        tried += last - first
        assert first == len(written)
        rows = range(first, last)
        if bad.isdisjoint(rows):
            written.extend(rows)
            return False
        return True

    assert refused_rows.first_bad(count, refused) == min(bad)
    assert written == list(range(min(bad)))
    assert asked <= count.bit_length()
    assert tried <= 2 * count


@pytest.mark.parametrize(
    ("number", "text", "setting"),
    [
        (8004, "Transaction is too large, size: 104857601", "txn-total-size-limit"),
        (8175, "Your query has been cancelled due to exceeding the allowed memory limit", "tidb_mem_quota_query"),
    ],
)
def test_a_transaction_that_is_too_large_is_blamed_on_no_row(number: int, text: str, setting: str) -> None:
    refused = pymysql.err.OperationalError(number, text)
    assert not refused_rows.is_of_a_row(refused)
    plan = build(1, 1, b"", UPSTREAM, TARGET, PlanOptions())
    assert setting in refused_rows.statement_refusal(refused, plan).workaround
    # It may be noticed at the COMMIT only, or by another unit.
    assert setting in classify(refused, scope="downstream", statement="COMMIT").workaround
    assert not is_retryable(refused)


def test_a_row_that_is_too_large_is_named_with_the_setting() -> None:
    refused = pymysql.err.OperationalError(8025, "entry too large, the max entry size is 6291456")
    assert refused_rows.is_of_a_row(refused)
    plan = build(1, 1, b"", UPSTREAM, TARGET, PlanOptions())
    error = refused_rows.refusal(refused, plan, b"7", 0, [plan])
    assert "the row (7)" in error.message
    assert "txn-entry-size-limit" in error.workaround
    # A load names its file and statement.
    assert "txn-entry-size-limit" in classify(refused, scope="downstream", statement="INSERT …").workaround


@pytest.mark.parametrize(
    ("generated", "way_out"),
    [("STORED", "MODIFY COLUMN `h` int(11);`"), ("VIRTUAL", "`ALTER TABLE `s`.`t` DROP KEY `k1`;`")],
)
def test_a_duplicate_that_only_the_target_computes_has_its_way_out(generated: str, way_out: str) -> None:
    """To drop the other row would lose it: the upstream has both."""
    hour = Column("h", "int", "int(11)", generated=generated)
    columns = (ID, Column("ts", "timestamp", "timestamp"), hour)
    by_hour = Index("k1", (IndexPart("h"),), unique=True)
    zoned = replace(UPSTREAM, columns=columns, indexes=(KEY, by_hour), expressions=(("h", "hour(`ts`)"),))
    refused = pymysql.err.IntegrityError(1062, "Duplicate entry '7' for key 'k1'")
    for table in (UPSTREAM, zoned):
        plan = build(1, 1, b"", table, table, PlanOptions())
        workaround = refused_rows.refusal(refused, plan, b"1", 0, ()).workaround
        assert ("two rows may have one value" in workaround) == (table is zoned)
        assert (way_out in workaround) == (table is zoned)
        assert refused_rows.REPAIRS[1062] in workaround
