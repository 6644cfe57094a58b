"""Hazard: a structure that is not the upstream's says NOT NULL where rows have NULL."""

from __future__ import annotations

import pytest

from dm_worker.syncer.rows.logged_structure import as_logged
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from pkg.binlog import constants as c
from pkg.binlog.table_map import TableMap
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

ID = Column("id", "int", "int(11)", nullable=False)
C = Column("c", "char", "char(8)", nullable=False, charset="utf8mb4", collation="utf8mb4_bin")


def of_target(key: str) -> TableInfo:
    return TableInfo("d", "t", (ID, C), (Index(key, (IndexPart("c"), IndexPart("id")), unique=True),))


def table_map(*nullable: bool) -> TableMap:
    types = bytes((c.TYPE_LONG, *(c.TYPE_STRING,) * (len(nullable) - 1)))
    return TableMap(7, "d", "t", types, (0,) * len(nullable), nullable)


@pytest.mark.parametrize("key", ["PRIMARY", "k"])
def test_a_column_that_may_be_null_in_rows_is_in_no_row_key(key: str) -> None:
    target = of_target(key)

    def key_of(*nullable: bool) -> tuple[str, ...]:
        return build(1, 0, b"", as_logged(target, table_map(*nullable)), target, PlanOptions()).key_names

    assert key_of(False, True) == ()
    assert key_of(False, False) == ("c", "id")


def test_a_structure_that_does_not_fit_is_left_as_it_is() -> None:
    assert as_logged(of_target("k"), table_map(False, True, True)) == of_target("k")
