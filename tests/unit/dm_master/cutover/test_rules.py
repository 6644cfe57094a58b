"""Hazard: a cutover of a task with rules fails, because stored rules have no names."""

from __future__ import annotations

from dm_master.rules.source_rules import SourceRules
from pkg.config.model import SubTaskConfig
from pkg.config.rule_names import numbered_names
from pkg.rules.model import BinlogFilterRule, ColumnMappingRule, ExpressionFilter, RouteRule
from pkg.settings.connections import DBConfig


def test_the_rules_of_a_stored_subtask_are_explained_by_their_numbers() -> None:
    subtask = SubTaskConfig(
        "task",
        "one",
        "all",
        DBConfig("up", 3306),
        DBConfig("down", 4000),
        routes=(RouteRule("a", "x"), RouteRule("b", "y")),
        filters=(BinlogFilterRule("a", events=("truncate table",), action="Ignore"),),
        column_mappings=(ColumnMappingRule("c", "id", "partition id", arguments=("1", "", "")),),
        expression_filters=(ExpressionFilter("a", "t", insert_value_expr="id > 1"),),
    )
    rules = SourceRules(subtask, numbered_names(subtask))
    assert rules.router.route("b", "t") == ("y", "t")
    assert [rules.name_of(rule).label for rule in subtask.routes] == ["'number 1' of routes", "'number 2' of routes"]
    assert rules.name_of(subtask.expression_filters[0]).block == "expression-filter"
