"""The upstream tables that give rows to the target's tables, as they are now.

A merged table can get a further upstream table while it is compared: its rows would be extra, and a repair would delete
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pymysql

from dm_worker.comparison.merged_tables import merged_tables
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.table_reads.session import open_session
from pkg.config.model import SubTaskConfig
from pkg.mysql import driver
from pkg.mysql.connection import classify
from pkg.mysql.introspect import list_all_tables
from pkg.mysql.names import TableId, qualified
from pkg.settings.connections import DBConfig

#: An upstream table: source id, schema, name.
Feed = tuple[str, str, str]
Feeds = Mapping[TableId, frozenset[Feed]]


def may_merge(configs: Iterable[SubTaskConfig]) -> bool:
    """Whether a further upstream table may give rows to a target table that has one already."""
    return any(cfg.routes for cfg in configs)


def present_feeds(configs: Sequence[SubTaskConfig]) -> Feeds:
    """Each target table's upstream tables in all of these sources. Raises DMError."""
    merged = merged_tables([TaskRules(cfg) for cfg in configs], [_names(cfg) for cfg in configs])
    return {
        target: frozenset((configs[one.connection].source_id, one.schema, one.table) for one in sources)
        for target, sources in merged.items()
    }


def shown_feed(feed: Feed) -> str:
    source, schema, table = feed
    return f"{source}: {qualified(schema, table)}"


def feeds_of_tasks(
    target: DBConfig, schemas: Collection[str], subtasks: Iterable[SubTaskConfig]
) -> Mapping[str, Feeds]:
    """By task, the feeds of those of ``subtasks`` that may write to these schemas of the target. Raises DMError."""
    tasks: dict[str, list[SubTaskConfig]] = {}
    for cfg in subtasks:
        if (cfg.to.host, cfg.to.port) == (target.host, target.port) and _may_write(cfg, schemas):
            tasks.setdefault(cfg.name, []).append(cfg)
    return {name: present_feeds(configs) for name, configs in sorted(tasks.items())}


def _may_write(cfg: SubTaskConfig, schemas: Collection[str]) -> bool:
    """By the rules alone: an upstream that need not be asked may be gone."""
    routed = {route.target_schema.lower() for route in cfg.routes}
    rules = TaskRules(cfg)
    return any(schema.lower() in routed or rules.allows(schema) for schema in schemas)


def shared_tables(own: Feeds, others: Mapping[str, Feeds]) -> Mapping[TableId, str]:
    """The tables with rows that only another task can explain, and why they are not compared. Pure.

    A task that follows or repeats another one has the same upstream tables: it adds no rows.
    """
    found: dict[TableId, str] = {}
    for target, feeds in own.items():
        for task, theirs in others.items():
            more = sorted(theirs.get(target, frozenset()) - feeds)
            if more:
                found.setdefault(target, f"rows of task {task} are in it too: {', '.join(map(shown_feed, more))}")
    return found


def _names(cfg: SubTaskConfig) -> list[TableId]:
    conn = open_session(cfg.from_)
    try:
        found = list_all_tables(conn)
        return [(schema, name) for schema, names in found.items() if schema != cfg.meta_schema for name in names]
    except pymysql.Error as exc:
        raise classify(exc, scope="upstream").at(cfg.source_id) from exc
    finally:
        driver.drop(conn)
