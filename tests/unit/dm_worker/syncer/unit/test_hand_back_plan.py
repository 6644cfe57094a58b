"""Hazard: a task goes back to DM in a state that DM does not see, and rows are lost or land in other columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dm_worker.syncer.checkpoint.checkpoint_table import ForeignStructure, StoredStructures
from dm_worker.syncer.checkpoint.meta_store import DurableState
from dm_worker.syncer.checkpoint.protocol import DDL, IDLE, OPEN, BatchProgress
from dm_worker.syncer.online_ddl.ghost_records import GhostRecord
from dm_worker.syncer.shard_ddl.initial_groups import new_groups
from dm_worker.syncer.unit.hand_back_plan import ensure_possible, plan_of, plan_text
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import ServerDefaults, parse_create_table
from pkg.settings.connections import DBConfig

_TO = DBConfig("127.0.0.1", 4000, "root")
_CFG = SubTaskConfig("t", "s", "all", _TO, _TO)
_HERE = Location(Position("bin.000003", 700))
_BEFORE = Location(Position("bin.000003", 100))
_DONE = BatchProgress(7, 2, IDLE, _BEFORE, _HERE)


def _durable(progress: BatchProgress | None = _DONE, checkpoint: Location | None = _HERE) -> DurableState:
    return DurableState(3, progress, checkpoint)


def _table(name: str, columns: str = "id INT PRIMARY KEY, a INT, b INT") -> TableInfo:
    return parse_create_table(f"CREATE TABLE {name} ({columns})", "d", ServerDefaults())


@pytest.mark.parametrize(
    ("durable", "why", "way"),
    [
        (_durable(None, None), "no checkpoint", "resume-task t"),
        (_durable(replace(_DONE, state=OPEN, start=_HERE)), "applied in part", "resume-task t"),
        (_durable(replace(_DONE, state=DDL, start=_HERE)), "applied in part", "resume-task t"),
        (_durable(replace(_DONE, end=_BEFORE)), "not written by this program", "stop-task t"),
        (_durable(replace(_DONE, end=replace(_HERE, rows_events=3))), "part of the transaction", "resume-task t"),
        (_durable(replace(_DONE, prepared={b"x": _BEFORE})), "1 XA transactions are prepared", "XA COMMIT"),
    ],
)
def test_a_state_that_dm_does_not_see_is_refused_with_the_way_out(durable: DurableState, why: str, way: str) -> None:
    with pytest.raises(DMError) as caught:
        ensure_possible(_CFG, durable, None)
    assert caught.value.kind.code == 40052
    assert why in caught.value.message
    assert way in caught.value.workaround


def test_what_is_applied_completely_can_go_back() -> None:
    assert ensure_possible(_CFG, _durable(), None) == _HERE
    assert ensure_possible(_CFG, _durable(), new_groups([("d", "t")], lambda *_: ("d", "m"))) == _HERE


def test_handing_back_again_is_no_mistake() -> None:
    """Where one source failed, all are handed back again. Looking has made a batch row of no batch."""
    nowhere = Location(Position("", 0))
    for progress in (None, BatchProgress(0, 9, IDLE, nowhere, nowhere)):
        assert ensure_possible(_CFG, _durable(progress), None) == _HERE
        durable = _with_structures()
        durable.progress = progress
        with pytest.raises(DMError, match="not written by this program"):
            ensure_possible(_CFG, durable, None)


def test_merged_tables_with_ddl_that_is_not_resolved_are_named() -> None:
    groups = new_groups([("d", "t")], lambda *_: ("d", "m"))
    groups.inside = True
    with pytest.raises(DMError, match="DDL of merged tables"):
        ensure_possible(_CFG, _durable(), groups)


def _plan(durable: DurableState, **changes: Any) -> Any:
    upstream: dict[TableId, list[str]] = {("d", name): ["id", "a", "b"] for name in ("known", "copied", "plain", "dm")}
    facts: dict[str, Any] = {
        "dumped": lambda name: _table("copied") if name[1] == "copied" else None,
        "upstream": upstream,
        "target": {("d", "plain"): ["id", "a", "b"]},
        "route": lambda *name: name,
    }
    return plan_of(_CFG, _HERE, durable, **(facts | changes))


def _with_structures() -> DurableState:
    durable = _durable()
    durable.structures = StoredStructures(
        tables=[_table("known", "id INT PRIMARY KEY, b INT, a INT"), _table("_known_gho")],
        given_up=[("d", "gone")],
        foreign=[ForeignStructure(("d", "dm"), {"cols": []})],
    )
    durable.ghosts = {("d", "_known_gho"): GhostRecord("d", "known"), ("d", "x"): GhostRecord("d", "y", moved=True)}
    return durable


def test_each_table_gets_the_structure_of_its_next_rows() -> None:
    plan = _plan(_with_structures())
    assert sorted(plan.structures) == [("d", "copied"), ("d", "known")]
    shown = json.loads(plan.structures["d", "known"])
    assert [column["name"]["O"] for column in shown["cols"]] == ["id", "b", "a"]
    # DM does not follow ghost tables, and reads "given up" as a table without columns.
    assert plan.gone == [("d", "_known_gho"), ("d", "gone")]
    assert (plan.kept, plan.from_target, plan.online_changes) == (1, 1, 1)
    assert "`d`.`copied`, `d`.`known`" in plan_text(plan, done=True)
    assert plan_text(plan, done=False).startswith(f"DM would continue at {_HERE}")


def test_a_table_whose_columns_dm_would_confuse_is_refused() -> None:
    """DM takes a structure that is not recorded from the target; a shard may have another order."""
    with pytest.raises(DMError) as caught:
        _plan(_with_structures(), target={("d", "plain"): ["id", "b", "a"]})
    assert "`d`.`plain`" in caught.value.message
    assert "binlog-schema update t d plain -s s --from-source" in caught.value.workaround


def test_a_dump_does_not_count_for_a_name_that_was_given_up() -> None:
    durable = _with_structures()
    durable.structures.given_up.append(("d", ""))
    with pytest.raises(DMError, match=r"`d`.`copied`"):
        _plan(durable, target={("d", "copied"): ["id", "b", "a"]})


def test_a_type_that_dm_lacks_is_named() -> None:
    durable = _with_structures()
    durable.structures.tables.append(_table("places", "id INT PRIMARY KEY, p POINT"))
    with pytest.raises(DMError, match=r"`d`.`places`: column p has type point"):
        _plan(durable)
