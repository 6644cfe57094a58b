"""One bucket's writer against a real server, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploy.local.mysql import SQLServer
from dm_worker.syncer.execution import compaction, row_statements
from dm_worker.syncer.execution.merge import BucketContent, groups_of
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.execution.target_connections import TargetSpec
from dm_worker.syncer.planning.batch import WriteToken
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.introspect import fetch_table_info
from pkg.settings.connections import DBConfig

TOKEN = WriteToken("source-1", 1, 1, 1)
MARKERS = "`meta`.`markers`"
BATCHES = "`meta`.`batches`"
COUNT = 2500
COLUMNS = (
    "i INT, u BIGINT UNSIGNED, n DECIMAL(30,10), f FLOAT, r DOUBLE, d DATE, t TIME(3), dt DATETIME(6), ts TIMESTAMP(2)"
    " NULL, s VARCHAR(60) CHARACTER SET utf8mb4, c CHAR(40) CHARACTER SET utf8mb4, x LONGTEXT CHARACTER SET utf8mb4"
)
#: Literals as the row decoder writes them, with all that could be taken for a delimiter.
VALUES = [
    (
        b"-2147483648,18446744073709551615,-12345678901234567890.0123456789,-1.5e-30,1.7976931348623157e+308,"
        b"'0000-00-00','-838:59:59.000','9999-12-31 23:59:59.999999','1970-01-01 00:00:01.25',"
        b"'a\\'b\\\\N),(''x','NULL','\\\\'"
    ),
    b"NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL",
    "0,0,0,-0e0,3.4e0,'2020-02-31','00:00:00.001','2020-00-00 00:00:00','2038-01-19 03:14:07','','\U0001f600\0\n\r\t',"
    "'),(1,\n)'".encode(),
    b"7,7,0.1,344.221435e0,0.1e0,'2024-02-29','838:59:59','0001-01-01 00:00:00','2020-06-01 12:00:00',"
    b"'\\\\\\\\','tail  ','%\\\\_\"`'",
]


def prepare(server: SQLServer, *tables: str) -> None:
    """A marker table whose bucket 0 may be claimed by ``TOKEN``, and the tables of schema d."""
    server.wipe()
    server.execute(
        "CREATE DATABASE meta",
        "CREATE DATABASE d",
        f"CREATE TABLE {MARKERS} (id VARCHAR(32), bucket INT, batch BIGINT, epoch BIGINT, connection BIGINT,"
        " PRIMARY KEY (id, bucket))",
        f"INSERT INTO {MARKERS} VALUES ('source-1', 0, 0, 1, 0)",
        f"CREATE TABLE {BATCHES} (id VARCHAR(32) PRIMARY KEY, batch BIGINT, epoch BIGINT)",
        f"INSERT INTO {BATCHES} VALUES ('source-1', 1, 1)",
        *tables,
    )


def next_batch(server: SQLServer) -> None:
    """Lets ``TOKEN`` write once more."""
    server.execute(f"UPDATE {MARKERS} SET batch = 0")


def marker(server: SQLServer) -> int:
    return int(server.execute(f"SELECT batch FROM {MARKERS}")[0][0])


def spec_of(server: SQLServer, form: StatementForm | None = None, *, port: int = 0, **session: str) -> TargetSpec:
    config = DBConfig(host="127.0.0.1", port=port or server.port, user="root")
    return TargetSpec(config, tuple(session.items()), MARKERS, BATCHES, form or StatementForm())


def plan_of(
    server: SQLServer, table: str, *, source: str = "", number: int = 1, incomparable: frozenset[str] = frozenset()
) -> TablePlan:
    """The plan of a target table d.``table`` whose upstream is the table d.``source`` of the same server.
    ``incomparable``: its columns whose values can't be compared."""
    conn = server.connect()
    try:
        target, upstream = fetch_table_info(conn, "d", table), fetch_table_info(conn, "d", source or table)
    finally:
        conn.close()
    assert target is not None
    assert upstream is not None
    here = upstream.renamed("up", source or table)
    return build(number, 1, b"", here, target, PlanOptions(), incomparable=incomparable)


def states_of(rows: Sequence[tuple[int, bytes, bytes]], plan: int = 1) -> compaction.KeyStates:
    """(state, key, values)"""
    return {key: (state, plan, values) for state, key, values in rows}


def content_of(
    plans: Mapping[int, TablePlan], states: compaction.KeyStates, form: StatementForm | None = None, *, changes: int = 1
) -> BucketContent:
    rules = {number: row_statements.write_rule_of(plan, form or StatementForm()) for number, plan in plans.items()}
    return BucketContent(groups_of(states, rules), changes=changes)


def check_written(server: SQLServer, rows: Sequence[tuple[int, bytes]]) -> None:
    """Asserts that d.t (id, ``COLUMNS``) holds what an INSERT of these ids and values writes, byte for byte."""
    mode = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
    server.execute(
        "CREATE TABLE IF NOT EXISTS d.want LIKE d.t",
        f"SET sql_mode = '{mode}', time_zone = '+00:00'",
        "DELETE FROM d.want",
        "INSERT INTO d.want VALUES " + ",".join(f"({n},{values.decode()})" for n, values in rows),
    )
    # As bytes, and floats by their bits: collations call more values equal than are.
    names = [column.strip().split()[0] for column in COLUMNS.split(", ")]
    same = " AND ".join(f"CAST(a.{name} AS BINARY) <=> CAST(b.{name} AS BINARY)" for name in names)
    assert server.execute(f"SELECT COUNT(*) FROM d.t a JOIN d.want b USING (id) WHERE {same}") == [(COUNT,)]
    assert server.execute("CHECKSUM TABLE d.t")[0][1] == server.execute("CHECKSUM TABLE d.want")[0][1]
