"""Reads what the checks of a cutover need from servers. A fact that the user has no privilege to read is
``Unreadable``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pymysql
from pymysql.connections import Connection

from dm_master.cutover.account_reading import read_accounts
from dm_master.cutover.facts import (
    Account,
    CutoverTarget,
    CutoverUpstream,
    Partitioning,
    ServerFacts,
    TableFacts,
    WriterFacts,
)
from dm_master.cutover.object_reading import hidden_kinds, read_objects
from dm_master.cutover.verdict import Unreadable
from dm_master.inspection.inspected_server import InspectedServer
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.binlog.position import Location
from pkg.binlog.streams.server_position import master_status
from pkg.ddl.shown_table import shown_table
from pkg.mysql.connection import error_number
from pkg.mysql.foreign_key_introspect import keys_in
from pkg.mysql.introspect import query, show_create_if_there
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.schema import TableInfo

_Fact = TypeVar("_Fact")
#: The user may not read this: access denied for a table, a privilege or a statement; no such table or statement (TiDB).
_CLOSED = frozenset({1044, 1064, 1142, 1143, 1146, 1227, 1370, 1235, 8108})
_PARTITIONS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, PARTITION_NAME, SUBPARTITION_NAME, PARTITION_DESCRIPTION, PARTITION_METHOD,"
    " PARTITION_EXPRESSION, SUBPARTITION_METHOD, SUBPARTITION_EXPRESSION FROM information_schema.PARTITIONS"
    " WHERE PARTITION_NAME IS NOT NULL"
    " ORDER BY TABLE_SCHEMA, TABLE_NAME, PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION"
)


def server_facts(
    label: str, server: InspectedServer, tables: Mapping[TableId, TableInfo], schemas: set[str]
) -> ServerFacts:
    """The facts of one server. ``tables``: the migrated tables of this server; ``schemas``: their schemas."""
    return ServerFacts(
        label=label,
        info=server.info,
        variables=_variables(server.conn),
        tables=_table_facts(server.conn, tables),
        objects=read_objects(server.conn, schemas),
        users=_readable(lambda: read_accounts(server.conn, server.info.flavor), "SELECT on mysql.*"),
        hidden=hidden_kinds(server, tables),
        account=Account.of(*str(query(server.conn, "SELECT CURRENT_USER()")[0][0]).rsplit("@", 1)),
    )


def upstream_facts(upstream: InspectedUpstream, before: Location | None, seconds: float) -> CutoverUpstream:
    """``before``: the end of the binlog ``seconds`` ago."""
    conn, rules = upstream.conn, upstream.rules
    after = binlog_end(upstream)
    mapped = {
        (table, column.name)
        for table, info in upstream.structures.items()
        for column in info.columns
        if any(rule.target_column.lower() == column.name.lower() for rule in rules.mapper.rules_for(*table))
    }
    return CutoverUpstream(
        server=server_facts(
            upstream.subtask.source_id, upstream, upstream.structures, {schema for schema, _ in upstream.tables}
        ),
        writers=WriterFacts(
            before=before,
            after=after,
            seconds=seconds,
            transactions=_transactions(upstream),
            prepared=_readable(lambda: tuple(_xid(*row) for row in query(conn, "XA RECOVER")), "XA_RECOVER_ADMIN"),
        ),
        routed=upstream.routed,
        mapped=frozenset(mapped),
        may_write=all(
            upstream.grants.allows(privilege, *table)
            for table in upstream.tables
            for privilege in ("INSERT", "UPDATE", "DELETE")
        ),
    )


def target_facts(target: InspectedServer, tables: Iterable[TableId]) -> CutoverTarget:
    found = target.table_infos(tables)
    server = server_facts("target", target, found, {schema for schema, _ in found})
    highest = {
        table: _highest(target.conn, table, column.name)
        for table, info in found.items()
        for column in info.columns
        if column.auto_increment
    }
    may_read = all(target.grants.allows(right) for right in ("REPLICATION SLAVE", "REPLICATION CLIENT"))
    return CutoverTarget(server=server, highest=highest, may_read_binlog=may_read)


def binlog_end(upstream: InspectedServer) -> Location | None:
    return master_status(upstream.conn, upstream.info.flavor)


def _readable(read: Callable[[], _Fact], privilege: str) -> _Fact | Unreadable:
    try:
        return read()
    except pymysql.Error as exc:
        if error_number(exc) not in _CLOSED:
            raise
        return Unreadable(str(exc.args[-1]), f"needs {privilege}")


def _variables(conn: Connection[Any]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in query(conn, "SHOW GLOBAL VARIABLES")}


def _transactions(upstream: InspectedUpstream) -> tuple[str, ...] | Unreadable:
    if not upstream.grants.allows("PROCESS"):
        return Unreadable("the user lacks PROCESS: only its own transactions are shown", "needs PROCESS")
    rows = query(
        upstream.conn,
        "SELECT trx_mysql_thread_id, trx_started, trx_rows_modified FROM information_schema.INNODB_TRX"
        " WHERE trx_rows_modified > 0 AND trx_mysql_thread_id <> CONNECTION_ID() AND trx_mysql_thread_id <> 0",
    )
    return tuple(f"connection {thread} since {since}, {count} rows" for thread, since, count in rows)


def _xid(format_id: int, gtrid_length: int, bqual_length: int, data: bytes | str) -> str:
    """The name of a prepared transaction as XA COMMIT takes it."""
    name = data if isinstance(data, bytes) else data.encode()
    gtrid, bqual = name[:gtrid_length], name[gtrid_length : gtrid_length + bqual_length]
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}"


def _table_facts(conn: Connection[Any], tables: Mapping[TableId, TableInfo]) -> TableFacts:
    # information_schema hides keys and constraints from accounts with only SELECT.
    creations = {table: show_create_if_there(conn, *table) for table in tables}
    return TableFacts(
        structures=tables,
        counters=_counters(conn, tables),
        foreign_keys=tuple(key for table, text in creations.items() for key in keys_in(table, text)),
        shown={table: shown_table(text) for table, text in creations.items() if text},
        partitions=_partitions(conn, set(tables)),
    )


def _counters(conn: Connection[Any], tables: Mapping[TableId, TableInfo]) -> dict[TableId, int]:
    counting = {table for table, info in tables.items() if any(column.auto_increment for column in info.columns)}
    # MySQL 8 answers from statistics that may be a day old, unless this is 0. Other servers do not have it.
    if query(conn, "SHOW VARIABLES LIKE 'information_schema_stats_expiry'"):
        query(conn, "SET SESSION information_schema_stats_expiry = 0")
    rows = query(
        conn,
        "SELECT TABLE_SCHEMA, TABLE_NAME, AUTO_INCREMENT FROM information_schema.TABLES"
        " WHERE AUTO_INCREMENT IS NOT NULL",
    )
    return {(str(s), str(t)): int(number) for s, t, number in rows if (str(s), str(t)) in counting}


def _partitions(conn: Connection[Any], tables: set[TableId]) -> dict[TableId, Partitioning]:
    rows: dict[TableId, list[tuple[Any, ...]]] = {}
    for schema, name, *row in query(conn, _PARTITIONS):
        if (str(schema), str(name)) in tables:
            rows.setdefault((str(schema), str(name)), []).append(tuple(row))
    return {table: _partitioning(found) for table, found in rows.items()}


def _partitioning(rows: Sequence[tuple[Any, ...]]) -> Partitioning:
    below = Counter(str(row[0]) for row in rows if row[1] is not None)
    parts = dict.fromkeys((str(name), str(values or "")) for name, _, values, *_ in rows)
    method, expression, sub_method, sub_expression = (str(word or "") for word in rows[0][3:])
    return Partitioning(
        method, expression, (sub_method, sub_expression), tuple((*part, below[part[0]]) for part in parts)
    )


def _highest(conn: Connection[Any], table: TableId, column: str) -> int:
    (row,) = query(conn, f"SELECT COALESCE(MAX({quote(column)}), 0) FROM {qualified(*table)}")
    return int(row[0])
