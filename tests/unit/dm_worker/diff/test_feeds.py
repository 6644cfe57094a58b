"""Hazard: rows of another task are reported as extra, and a repair deletes them; or an upstream that does not matter is
asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dm_worker.diff import feeds
from dm_worker.diff.feeds import Feeds, feeds_of_tasks, shared_tables
from pkg.config.model import SubTaskConfig
from pkg.rules.model import BlockAllowList, RouteRule
from pkg.settings.connections import DBConfig

TARGET = DBConfig("target", 4000)
OWN: Feeds = {("d", "t"): frozenset({("s1", "d", "t")}), ("d", "u"): frozenset({("s1", "d", "u")})}


def subtask(name: str, to: DBConfig = TARGET, **rules: Any) -> SubTaskConfig:
    return SubTaskConfig(name, "s1", "all", from_=DBConfig("up", 3306), to=to, **rules)


def test_a_table_is_shared_with_tasks_that_add_rows_of_other_tables() -> None:
    again: Feeds = {("d", "t"): frozenset({("s1", "d", "t")})}
    other: Feeds = {("d", "u"): frozenset({("s1", "d", "u"), ("s2", "e", "u")}), ("x", "y"): frozenset()}
    assert shared_tables(OWN, {"again": again}) == {}
    assert shared_tables(OWN, {"again": again, "other": other}) == {
        ("d", "u"): "rows of task other are in it too: s2: `e`.`u`"
    }


@pytest.mark.parametrize(
    ("one", "asked"),
    [
        (subtask("unlimited"), True),
        (subtask("same", block_allow_list=BlockAllowList(do_dbs=("d",))), True),
        (subtask("elsewhere", block_allow_list=BlockAllowList(do_dbs=("e",))), False),
        (
            subtask("routed", block_allow_list=BlockAllowList(do_dbs=("e",)), routes=(RouteRule("e", "D", "", ""),)),
            True,
        ),
        (subtask("routed away", block_allow_list=BlockAllowList(do_dbs=("e",)), routes=(RouteRule("e", "f"),)), False),
        (subtask("another target", to=replace(TARGET, port=4001)), False),
    ],
    ids=lambda one: one.name if isinstance(one, SubTaskConfig) else str(one),
)
def test_only_tasks_that_may_write_to_the_tables_are_asked(
    one: SubTaskConfig, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "present_feeds", lambda configs: {("d", "t"): frozenset()})
    assert (one.name in feeds_of_tasks(TARGET, {"d"}, [one])) == asked
