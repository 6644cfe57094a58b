"""One database server for the checks: an open connection, and facts that several checks share."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import Scope, classify, connect, error_number
from pkg.mysql.grants import Grants, fetch_grants
from pkg.mysql.introspect import (
    ServerInfo,
    fetch_table_infos,
    query,
    server_info,
    variable,
)
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import TableInfo
from pkg.settings.connections import DBConfig

#: Seconds that one query may take.
QUERY_TIMEOUT = 60.0
_CHECK_ACCOUNT = "Check host, port, user and password."
#: No such database, table or privilege.
_NOT_THERE = frozenset({1044, 1049, 1142, 1146})
#: The most tables in one statement: a server opens all of them for it.
_TABLES_AT_ONCE = 50


def open_server(config: DBConfig, scope: Scope) -> Connection[Any]:
    """A connection for checks. Raises 26002 with the cause and what to do."""
    try:
        return connect(config, scope=scope, read_timeout=QUERY_TIMEOUT)
    except DMError as exc:
        raise errors.new(
            Code.TaskCheckFailedOpenDB,
            exc.message,
            # The cause is in the message already, except for its code.
            raw=f"code={exc.code}",
            workaround=f"Please check the database connection. {exc.workaround or _CHECK_ACCOUNT}",
            scope=scope,
        ) from exc


class InspectedServer:
    """One server under check. Each fact is queried once, when a check first needs it."""

    def __init__(self, config: DBConfig, scope: Scope) -> None:
        self.config = config
        self.scope: Scope = scope
        self.conn = open_server(config, scope)

    @property
    def address(self) -> str:
        return f"address of db instance - {self.config.host}:{self.config.port}"

    @functools.cached_property
    def info(self) -> ServerInfo:
        return server_info(self.conn)

    def variable(self, name: str) -> str:
        """A global variable's value; empty if the server does not have the variable."""
        return variable(self.conn, name) or ""

    def status(self, name: str) -> int:
        rows = query(self.conn, "SHOW GLOBAL STATUS LIKE %s", (name,))
        return int(rows[0][1]) if rows else 0

    @functools.cached_property
    def grants(self) -> Grants:
        return fetch_grants(self.conn, self.info.flavor)

    def table_infos(self, tables: Iterable[TableId]) -> dict[TableId, TableInfo]:
        """The structures of the existing ``tables``."""
        by_schema: dict[str, set[str]] = {}
        for schema, table in tables:
            by_schema.setdefault(schema, set()).add(table)
        return {
            (schema, table): info
            for schema, names in by_schema.items()
            for table, info in fetch_table_infos(self.conn, schema, names).items()
        }

    def tables_with_rows(self, tables: Iterable[TableId]) -> list[TableId]:
        """Those of the existing ``tables`` that have rows."""
        names = list(tables)
        found: list[TableId] = []
        for first in range(0, len(names), _TABLES_AT_ONCE):
            parts = (
                f"(SELECT {first + at} FROM {qualified(*name)} LIMIT 1)"
                for at, name in enumerate(names[first : first + _TABLES_AT_ONCE])
            )
            found += [names[int(number)] for (number,) in query(self.conn, " UNION ALL ".join(parts))]
        return found

    def has_progress(self, subtask: SubTaskConfig) -> bool:
        """Whether this target has a checkpoint of the subtask. Raises the classified error of a failed query."""
        for suffix in ("_syncer_checkpoint", "_loader_progress"):
            name = qualified(subtask.meta_schema, subtask.name + suffix)
            try:
                if query(self.conn, f"SELECT 1 FROM {name} WHERE id = %s LIMIT 1", (subtask.source_id,)):
                    return True
            except pymysql.Error as exc:
                if error_number(exc) not in _NOT_THERE:
                    raise classify(exc, scope=self.scope, table=name) from exc
        return False

    def close(self) -> None:
        self.conn.close()
