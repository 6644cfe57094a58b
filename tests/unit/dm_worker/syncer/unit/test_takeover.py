"""Hazard: a run takes something over from DM, or leaves it, and says nothing of it."""

from __future__ import annotations

import json

import pytest

from dm_worker.syncer.checkpoint.checkpoint_table import ForeignStructure, StoredStructures
from dm_worker.syncer.checkpoint.meta_store import DurableState
from dm_worker.syncer.online_ddl.ghost_records import GhostDDL, GhostRecord
from dm_worker.syncer.unit.takeover import takeover_of, takeover_text
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from pkg.schema_tracker import ServerDefaults
from pkg.task_meta.unsettled_ddl import UnsettledGroup
from tests.harness.dm_state.tables import models

_HERE = Location(Position("bin.000003", 700))
_GOOD = json.loads(models()["moved"][1])


def _durable(unsettled: UnsettledGroup | None = None, taken_over: Location | None = None) -> DurableState:
    structures = StoredStructures(
        foreign=[ForeignStructure(("d", "good"), _GOOD), ForeignStructure(("d", "odd"), {"cols": []})],
        ahead=[("d", "ahead")],
    )
    ghosts = {("d", "_t_gho"): GhostRecord("d", "t")}
    groups = [] if unsettled is None else [unsettled]
    return DurableState(3, None, _HERE, None, structures, None, groups, taken_over, ghosts)


def test_the_text_names_all_that_is_taken_over_and_all_that_is_not() -> None:
    group = UnsettledGroup("`d`.`m`", ("ALTER …",), 0, _HERE.position)
    facts = takeover_of(_durable(group), ServerDefaults(), foreign=True)
    assert facts is not None
    assert [info.name for info in facts.structures] == ["good"]
    until = Location(Position("bin.000004", 9))
    text = takeover_text(facts, until)
    for part in (
        str(_HERE),
        "structures of 1 tables",
        "1 running online changes",
        "`d`.`m`",
        "`d`.`ahead`",
        "`d`.`odd`",
        str(until),
    ):
        assert part in text
    assert takeover_text(facts, None).endswith("not in safe mode")


def test_a_ghost_table_is_its_real_table_with_what_changed_it() -> None:
    """DM records no structure of it; after the swap its rows are the real table's."""
    change = GhostDDL("ALTER TABLE `d`.`_good_gho` ADD COLUMN `late` INT FIRST")
    durable = _durable()
    durable.ghosts = {
        ("d", "_good_gho"): GhostRecord("d", "good", (change,)),
        ("d", "_odd_gho"): GhostRecord("d", "odd", (change,)),
    }
    facts = takeover_of(durable, ServerDefaults(), foreign=True)
    assert facts is not None
    (ghost,) = [info for info in facts.structures if info.name == "_good_gho"]
    assert [column.name for column in ghost.columns] == ["late", "id", "a", "b", "c"]
    assert facts.ghosts == {("d", "_good_gho"): ("d", "good")}
    # A run after the first has learned the real table, and has stored it in the form of this program.
    durable.structures = StoredStructures(tables=[info for info in facts.structures if info.name == "good"])
    durable.taken_over = _HERE
    later = takeover_of(durable, ServerDefaults(), foreign=False)
    assert later is not None
    assert later.structures == [ghost]


def test_a_later_run_says_where_it_was_taken_over() -> None:
    assert takeover_of(_durable(), ServerDefaults(), foreign=False) is None
    facts = takeover_of(_durable(taken_over=_HERE), ServerDefaults(), foreign=False)
    assert facts is not None
    assert facts.location == _HERE
    assert not facts.online_changes


def test_shard_ddl_that_can_not_start_over_stops_the_takeover() -> None:
    with pytest.raises(DMError, match="nothing was changed"):
        takeover_of(_durable(UnsettledGroup("`d`.`m`", ("ALTER …",), 1, None)), ServerDefaults(), foreign=True)
