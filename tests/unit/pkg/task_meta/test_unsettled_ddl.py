"""Hazard: shard DDL that DM executed in part starts over, so that it runs twice or its rows are held back forever."""

from __future__ import annotations

import json

import pytest

from pkg.binlog.position import Position
from pkg.errors import Code, DMError
from pkg.task_meta.unsettled_ddl import UnsettledGroup, is_foreign, obstacle, unsettled_groups

_ITEMS = [
    {
        "ddls": ["ALTER TABLE `d`.`t` ADD COLUMN `n` INT"],
        "source": "`d`.`t1`",
        "first-position": {"Name": "mysql-bin|000001.000003", "Pos": 700},
        "first-gtid-set": "",
    }
]
_HERE = Position("mysql-bin.000003", 700)


def test_dms_rows_and_ours_are_distinguished() -> None:
    assert is_foreign(json.dumps(_ITEMS))
    assert is_foreign("[]")
    assert not is_foreign(json.dumps([["d", "t"], "{}"]))
    assert not is_foreign(json.dumps({"format": "shard-groups/1"}))


def test_a_group_is_read_from_its_global_row() -> None:
    rows = [("`d`.`t`", 0, True, json.dumps(_ITEMS)), ("`d`.`t`", 0, False, json.dumps(_ITEMS))]
    (group,) = unsettled_groups(rows)
    assert group == UnsettledGroup("`d`.`t`", ("ALTER TABLE `d`.`t` ADD COLUMN `n` INT",), 0, _HERE)
    assert unsettled_groups([("`d`.`t`", 0, True, "[]")]) == []


@pytest.mark.parametrize("data", ['[{"ddls": ["x"]}]', "[1]"])
def test_a_damaged_row_is_named(data: str) -> None:
    with pytest.raises(DMError, match=r"`d`.`t`") as caught:
        unsettled_groups([("`d`.`t`", 0, True, data)])
    assert caught.value.kind is Code.SyncUnitInvalidShardMeta


@pytest.mark.parametrize(
    ("behind", "checkpoint", "begins_anew"), [(0, 700, True), (0, 4, True), (1, 4, False), (0, 701, False)]
)
def test_what_was_executed_in_part_can_not_start_over(behind: int, checkpoint: int, begins_anew: bool) -> None:
    group = UnsettledGroup("`d`.`t`", ("ALTER …",), behind, _HERE)
    error = obstacle(group, Position("mysql-bin.000003", checkpoint))
    assert (error is None) is begins_anew
    assert error is None or "shard-ddl-lock" in error.workaround
