"""Hazard: a way back replicates other rows than the target's, or is offered where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dm_master.cutover.reversal import Routed, ensure_reversible, reverse_tasks
from dm_master.cutover.way_back import source_of
from pkg.binlog.position import Location, Position
from pkg.config.model import Meta, SourceConfig, SubTaskConfig
from pkg.config.task import load_task
from pkg.errors import DMError
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.model import BinlogFilterRule, ColumnMappingRule, ExpressionFilter, ExtractRule, RouteRule
from pkg.rules.table_router import TableRouter
from pkg.settings.connections import DBConfig

_START = Location(Position("target-bin.000007", 900), "0-2-5")
_ROUTED: Routed = {("app", "a"): ("moved", "a"), ("app", "b"): ("app", "b")}
_SUBTASK = SubTaskConfig(
    "task",
    "one",
    "all",
    DBConfig("up", 3306, "writer", "secret'\"#"),
    DBConfig("down", 4000),
    routes=(RouteRule("app", "moved", "a"),),
)


def test_the_reverse_task_has_each_table_with_its_old_name() -> None:
    (made,) = reverse_tasks("task", {"one": _ROUTED}, {"one": _SUBTASK}, "back", _START)
    task = load_task(made.text)
    (instance,) = task.instances
    assert (task.name, task.task_mode, task.meta_schema) == ("task_reverse", "incremental", "dm_meta")
    assert (task.target.host, task.target.port, task.target.user, task.target.password) == (
        "up",
        3306,
        "writer",
        "secret'\"#",
    )
    assert (instance.source_id, instance.meta) == ("back", Meta("target-bin.000007", 900, "0-2-5"))
    router = TableRouter(instance.routes, case_sensitive=False)
    assert {router.route(*there): there for there in _ROUTED.values()} == _ROUTED
    reversing = replace(_SUBTASK, block_allow_list=instance.block_allow_list)
    takes = BlockAllowListFilter.of(reversing).allows
    assert all(takes(*there) for there in _ROUTED.values())
    for other in (("dm_meta", "task_syncer_checkpoint"), ("moved", "c"), ("app", "a")):
        assert not takes(*other)


def test_each_upstream_has_its_own_reverse_task() -> None:
    routed: dict[str, Routed] = {"one": {("app", "a"): ("x", "a")}, "two": {("app", "a"): ("y", "a")}}
    subtasks = {name: replace(_SUBTASK, source_id=name, routes=()) for name in routed}
    ensure_reversible("task", routed, subtasks)
    found = [(one.name, one.upstream) for one in reverse_tasks("task", routed, subtasks, "back", _START)]
    assert found == [("task_reverse_one", "one"), ("task_reverse_two", "two")]


@pytest.mark.parametrize(
    ("changes", "routed", "reason"),
    [
        ({}, {("app", "a"): ("m", "t"), ("app", "b"): ("m", "t")}, "several tables merge into `m`.`t`"),
        ({}, {}, "source one has no tables"),
        ({}, {("app", "a*"): ("m", "t")}, "'a*' is a pattern"),
        ({"column_mappings": (ColumnMappingRule("app", "id", "partition id"),)}, _ROUTED, "a column mapping"),
        ({"filters": (BinlogFilterRule("app", "Ignore"),)}, _ROUTED, "binlog event filters"),
        ({"expression_filters": (ExpressionFilter("app", "a"),)}, _ROUTED, "expression filters"),
        (
            {"routes": (RouteRule("app", "m", "a", "t", extract_table=ExtractRule("c", "(.*)")),)},
            _ROUTED,
            "routes that fill columns",
        ),
    ],
)
def test_what_cannot_be_reversed_is_refused_with_the_reason(
    changes: dict[str, Any], routed: Routed, reason: str
) -> None:
    with pytest.raises(DMError) as refused:
        ensure_reversible("task", {"one": routed}, {"one": replace(_SUBTASK, **changes)})
    assert reason in refused.value.message


def test_two_sources_that_merge_have_no_way_back() -> None:
    routed: dict[str, Routed] = {"one": {("app", "a"): ("m", "t")}, "two": {("app", "a"): ("m", "t")}}
    subtasks = {name: replace(_SUBTASK, source_id=name) for name in routed}
    with pytest.raises(DMError, match="several tables merge"):
        ensure_reversible("task", routed, subtasks)


def test_the_source_of_the_target_is_found_by_its_address() -> None:
    sources = {name: SourceConfig(name, DBConfig(host, 4000)) for name, host in (("a", "up"), ("b", "down"))}
    assert source_of(DBConfig("down", 4000), sources) == "b"
    with pytest.raises(DMError, match="no source has the target's address down:4001"):
        source_of(DBConfig("down", 4001), sources)
