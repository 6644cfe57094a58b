"""What a run asks and reports about shards where no tables merge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dm_worker
from dm_worker.syncer.planning.instructions import Advance
from dm_worker.syncer.shard_ddl.coordination import NoSharding
from dm_worker.syncer.shard_ddl.groups_table import GroupsChanges
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg.binlog.position import Location, Position
from pkg.binlog.table_map import TableMap
from pkg.mysql.schema import Column, TableInfo

HERE = Location(Position("bin.000001", 4))
KNOWN = TableInfo("d", "t", (Column("id", "int", "int(11)"),))
SETTLE = SettleDDL(("m", "t"), 1, ("ALTER TABLE m.t ADD n INT",), True, "(bin.000001, 4)", "[]", 1, HERE.position)


class Structures:
    def structure(self, table_map: TableMap) -> TableInfo:
        return KNOWN


@pytest.fixture
def none() -> NoSharding:
    return NoSharding(Structures(), lambda schema, table: table == "t")


def test_the_rows_of_the_task_are_due_where_they_are_read(none: NoSharding) -> None:
    assert [none.allows("d", name) for name in ("t", "other")] == [True, False]
    assert not none.holds_back("d", "t")


def test_no_pass_follows_another_one(none: NoSharding) -> None:
    none.passed(Advance(HERE))
    assert not none.follow_decisions()
    assert not none.needs_new_pass
    assert none.due(HERE) is None
    assert none.reread is None
    assert none.checkpoint is None


def test_nothing_is_stored_and_nothing_waits_for_that(none: NoSharding) -> None:
    assert none.take_changes() == GroupsChanges()
    assert not none.has_news
    assert none.oldest_needed is None


def test_what_only_merged_shards_have_is_a_defect(none: NoSharding) -> None:
    with pytest.raises(AssertionError, match="no tables merge"):
        none.settled(HERE)
    with pytest.raises(AssertionError, match="no tables merge"):
        none.settling(SETTLE)


def test_nobody_asks_whether_there_are_shards() -> None:
    """Whoever needs to know it asks :class:`ShardCoordination` for what follows from it."""
    root = Path(dm_worker.__file__).parent
    asking = re.compile(r"\b_?sharding is (not )?None")
    assert [str(path) for path in sorted(root.rglob("*.py")) if asking.search(path.read_text(encoding="utf-8"))] == []
