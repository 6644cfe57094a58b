"""Hands a paused task back to DM: gives its checkpoint DM's form."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import Any

from pymysql.connections import Connection

from dm_worker.syncer.checkpoint.meta_store import DurableState, MetaStore
from dm_worker.syncer.checkpoint.start_location import dump_schema_files
from dm_worker.syncer.rows.schema_source import dumped_structure
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.initial_groups import stored_groups
from dm_worker.syncer.unit.hand_back_plan import ColumnNames, HandBackPlan, ensure_possible, plan_of, plan_text
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.mysql.introspect import list_all_tables, query
from pkg.mysql.names import TableId
from pkg.process.log import get_logger
from pkg.schema_tracker import fetch_server_defaults

log = get_logger("syncer.checkpoint")

#: Few connection attempts: an operator waits.
_ATTEMPTS = 2


def hand_back(cfg: SubTaskConfig, *, execute: bool) -> str:
    """Hands the task back to DM and describes the result; only describes it without ``execute``. No run may be active.

    Raises DMError, 40052 and 44019 where DM would lose or mix up data.
    """
    with closing(MetaStore(cfg, should_stop=lambda: True)) as store:
        store.prepare()
        durable = store.take_over(0)  # after this, a hanging process can't write any more
        rules = TaskRules(cfg)
        groups = stored_groups(durable.shards, rules.route, by_gtid=cfg.enable_gtid)
        location = ensure_possible(cfg, durable, groups)
        plan = _plan(cfg, rules, location, durable)
        if execute:
            store.hand_back(location, plan.structures, plan.gone)
            log.info("handed back to DM", task=cfg.name, source=cfg.source_id, what=plan_text(plan, done=True))
    return plan_text(plan, done=execute)


def _plan(cfg: SubTaskConfig, rules: TaskRules, location: Location, durable: DurableState) -> HandBackPlan:
    stops = lambda: False  # noqa: E731 - the attempts are limited
    files = dump_schema_files(cfg)
    with (
        closing(ServerLookup(cfg.from_, "upstream", stops, attempts=_ATTEMPTS)) as upstream,
        closing(ServerLookup(cfg.to, "downstream", stops, attempts=_ATTEMPTS)) as target,
    ):
        server = upstream.ask(fetch_server_defaults)
        found = upstream.ask(list_all_tables)
        names = [(schema, table) for schema, tables in found.items() for table in tables if rules.allows(schema, table)]
        targets = {rules.route(*name) for name in names}
        return plan_of(
            cfg,
            location,
            durable,
            dumped=lambda name: dumped_structure(files(*name), *name, server),
            upstream=upstream.ask(lambda conn: _columns(conn, names)),
            target=target.ask(lambda conn: _columns(conn, targets)),
            route=rules.route,
        )


def _columns(conn: Connection[Any], tables: Collection[TableId]) -> dict[TableId, ColumnNames]:
    """The columns of the existing tables of ``tables``."""
    wanted, schemas = set(tables), sorted({schema for schema, _ in tables})
    if not schemas:
        return {}
    rows = query(
        conn,
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN"
        f" ({', '.join(['%s'] * len(schemas))}) ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
        tuple(schemas),
    )
    found: dict[TableId, list[str]] = {}
    for schema, table, column in rows:
        if (name := (str(schema), str(table))) in wanted:
            found.setdefault(name, []).append(str(column).lower())
    return dict(found)
