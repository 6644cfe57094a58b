"""Hazard: an upstream table that is compared with another target than the one the task writes to."""

from __future__ import annotations

from dm_worker.comparison.merged_tables import SourceName, merged_tables
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.config.model import SubTaskConfig
from pkg.rules.model import BlockAllowList, RouteRule
from pkg.settings.connections import DBConfig


def rules(source: str) -> TaskRules:
    server = DBConfig("127.0.0.1", 3306)
    return TaskRules(
        SubTaskConfig(
            name="x",
            source_id=source,
            task_mode="all",
            from_=server,
            to=server,
            routes=(RouteRule("shop_*", "shop", "orders_*", "orders"),),
            block_allow_list=BlockAllowList(do_dbs=("shop_*", "other")),
            online_ddl=True,
        )
    )


def test_shards_of_all_sources_merge_and_tool_tables_do_not() -> None:
    first = [("shop_1", "orders_2"), ("shop_1", "orders_1"), ("shop_1", "_orders_1_gho"), ("left_out", "orders_1")]
    second = [("shop_2", "orders_1"), ("other", "orders_1")]
    assert merged_tables([rules("one"), rules("two")], [first, second]) == {
        ("other", "orders_1"): (SourceName(1, "other", "orders_1"),),
        ("shop", "orders"): (
            SourceName(0, "shop_1", "orders_1"),
            SourceName(0, "shop_1", "orders_2"),
            SourceName(1, "shop_2", "orders_1"),
        ),
    }
