"""Hazards: rows are planned by a structure that the target no longer has; each statement asks for all tables again."""

from __future__ import annotations

import pytest

from dm_worker.syncer.rows.plan_builder import PlanOptions
from dm_worker.syncer.rows.table_plan import TablePlan
from dm_worker.syncer.rows.table_registry import TableRegistry
from pkg.binlog.position import Position
from pkg.binlog.table_map import TableMap
from pkg.mysql.names import TableId
from pkg.mysql.schema import Column, ForeignKey, Index, IndexPart, TableInfo
from tests.harness.binlog_bytes import table_map

COLUMNS = (Column("id", "int", "int(11)", nullable=False),)
KEYS = (Index("PRIMARY", (IndexPart("id", 0),), unique=True),)
PLACE = Position("bin.000001", 4)


class Servers:
    """Upstream tables ``s.NAME`` that go to ``m.NAME``; which structures and keys the target was asked for."""

    def __init__(self, *keys: tuple[str, str]) -> None:
        self.asked: list[object] = []
        self.keys = [ForeignKey(("m", child), ("id",), ("m", parent), ("id",)) for child, parent in keys]
        self.registry = TableRegistry(
            allows=lambda *_: True,
            route=lambda schema, table: ("m", table),
            source=self,
            target=self._target,
            options=PlanOptions(),
            foreign_keys=self._foreign_keys,
        )

    def structure(self, table_map: TableMap) -> TableInfo:
        return TableInfo(table_map.schema, table_map.table, COLUMNS, KEYS)

    def _target(self, schema: str, table: str) -> TableInfo:
        self.asked.append(table)
        return TableInfo(schema, table, COLUMNS, KEYS)

    def _foreign_keys(self) -> list[ForeignKey]:
        self.asked.append("keys")
        return self.keys

    def rows(self, *tables: str) -> list[object]:
        """What the target is asked for when these tables have rows."""
        self.asked.clear()
        for table in tables:
            data = table_map(bytes([3]), b"", table=table.encode()).data
            plan, _ = self.registry.resolve(data, PLACE)
            assert isinstance(plan, TablePlan)
        return list(self.asked)


@pytest.mark.parametrize(
    ("changed", "keys", "asked"),
    [
        ((), False, []),
        ((("m", "a"),), False, ["a"]),
        # Servers may take names for the same that differ in case.
        ((("M", "A"), ("m", "new")), False, ["a"]),
        ((("m", "child"),), False, ["child", "parent"]),
        ((("m", "parent"),), True, ["child", "keys", "parent"]),
        ((("m", ""),), True, ["a", "b", "child", "keys", "parent"]),
        (None, True, ["a", "b", "child", "keys", "parent"]),
    ],
)
def test_the_target_is_asked_for_what_a_statement_may_have_changed(
    changed: tuple[TableId, ...] | None, keys: bool, asked: list[str]
) -> None:
    servers = Servers(("child", "parent"))
    tables = ("a", "b", "child", "parent")
    assert sorted(map(str, servers.rows(*tables))) == ["a", "b", "child", "keys", "parent"]
    assert servers.rows(*tables) == []
    servers.registry.forget(changed, keys=keys)
    assert sorted(map(str, servers.rows(*tables))) == asked
