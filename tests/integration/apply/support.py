"""One bucket's writer against a real server, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dm_worker.syncer import compact, statements
from dm_worker.syncer.apply import TargetSpec
from dm_worker.syncer.batch import TablePlan, Ticket
from dm_worker.syncer.combine import Content, groups_of
from dm_worker.syncer.statements import Form
from dm_worker.syncer.table_plan import PlanOptions, build
from pkg.config.model import DBConfig
from pkg.mysql.introspect import fetch_table_info
from tests.harness.mysql import SQLServer

TICKET = Ticket("source-1", 1, 1, 1)
MARKERS = "`meta`.`markers`"


def prepare(server: SQLServer, *tables: str) -> None:
    """A marker table whose bucket 0 may be claimed by ``TICKET``, and the tables of schema d."""
    server.wipe()
    server.execute(
        "CREATE DATABASE meta",
        "CREATE DATABASE d",
        f"CREATE TABLE {MARKERS} (id VARCHAR(32), bucket INT, batch BIGINT, epoch BIGINT, PRIMARY KEY (id, bucket))",
        f"INSERT INTO {MARKERS} VALUES ('source-1', 0, 0, 1)",
        *tables,
    )


def next_batch(server: SQLServer) -> None:
    """Lets ``TICKET`` write once more."""
    server.execute(f"UPDATE {MARKERS} SET batch = 0")


def marker(server: SQLServer) -> int:
    return int(server.execute(f"SELECT batch FROM {MARKERS}")[0][0])


def spec_of(server: SQLServer, form: Form | None = None, *, port: int = 0, **session: str) -> TargetSpec:
    config = DBConfig(host="127.0.0.1", port=port or server.port, user="root")
    return TargetSpec(config, tuple(session.items()), MARKERS, form or Form())


def plan_of(server: SQLServer, table: str, *, source: str = "", number: int = 1) -> TablePlan:
    """The plan of a target table d.``table`` whose upstream is the table d.``source`` of the same server."""
    conn = server.connect()
    try:
        target, upstream = fetch_table_info(conn, "d", table), fetch_table_info(conn, "d", source or table)
    finally:
        conn.close()
    assert target is not None
    assert upstream is not None
    return build(number, 1, b"", upstream.renamed("up", source or table), target, PlanOptions())


def states_of(rows: Sequence[tuple[int, bytes, bytes]], plan: int = 1) -> compact.States:
    """(state, key, values)"""
    return {key: (state, plan, values) for state, key, values in rows}


def content_of(
    plans: Mapping[int, TablePlan], states: compact.States, form: Form | None = None, *, changes: int = 1
) -> Content:
    rules = {number: statements.rule_of(plan, form or Form()) for number, plan in plans.items()}
    return Content(groups_of(states, rules), changes=changes)
