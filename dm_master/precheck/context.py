"""What the checks look at: open connections to one upstream or the target, and facts that several checks share."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_master.precheck.grants import Grants, roles_of
from pkg import errors
from pkg.block_allow_list import BlockAllowListFilter
from pkg.column_mapping import ColumnMapper, TableMapping
from pkg.config.model import DBConfig, SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.connection import Scope, classify, connect, error_number
from pkg.mysql.introspect import (
    ServerInfo,
    fetch_table_infos,
    list_other_objects,
    list_schemas,
    list_tables,
    query,
    server_info,
    variable,
)
from pkg.mysql.names import qualified
from pkg.mysql.schema import TableInfo
from pkg.table_router import TableRouter

#: No single question to a server may take longer than this, in seconds.
READ_TIMEOUT = 60.0
#: No such database, table or privilege.
_NOT_THERE = frozenset({1044, 1049, 1142, 1146})
Table = tuple[str, str]


def open_server(config: DBConfig, scope: Scope) -> Connection[Any]:
    """A connection for checks. Raises 26002 that tells why and what to do."""
    try:
        return connect(config, scope=scope, read_timeout=READ_TIMEOUT)
    except DMError as exc:
        raise errors.new(
            "TaskCheckFailedOpenDB",
            exc.message,
            # The cause is in the message; what is left of it is its code.
            raw=f"code={exc.code}",
            workaround=exc.workaround or "Check host, port, user and password.",
            scope=scope,
        ) from exc


class Server:
    """One server under check. The facts are asked for once, when a check first needs them."""

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
        """A global variable's value; empty when the server has none of that name."""
        return variable(self.conn, name) or ""

    def status(self, name: str) -> int:
        rows = query(self.conn, "SHOW GLOBAL STATUS LIKE %s", (name,))
        return int(rows[0][1]) if rows else 0

    @functools.cached_property
    def grants(self) -> Grants:
        lines = [str(row[0]) for row in query(self.conn, "SHOW GRANTS")]
        roles = roles_of(lines)
        if roles and self.info.flavor == "mysql":
            lines = [
                str(row[0]) for row in query(self.conn, f"SHOW GRANTS FOR CURRENT_USER() USING {', '.join(roles)}")
            ]
        elif self.info.flavor == "mariadb":
            for role in roles:
                lines += self._role_grants(role)
        return Grants(lines)

    def _role_grants(self, role: str) -> list[str]:
        try:
            return [str(row[0]) for row in query(self.conn, f"SHOW GRANTS FOR {role}")]
        except pymysql.err.OperationalError:
            return []  # a role that the user may not look into gives nothing that could be counted on

    def table_infos(self, tables: Iterable[Table]) -> dict[Table, TableInfo]:
        """The structures of those of ``tables`` that exist."""
        by_schema: dict[str, set[str]] = {}
        for schema, table in tables:
            by_schema.setdefault(schema, set()).add(table)
        return {
            (schema, table): info
            for schema, names in by_schema.items()
            for table, info in fetch_table_infos(self.conn, schema, names).items()
        }

    def has_progress(self, subtask: SubTaskConfig) -> bool:
        """Whether this target says that the subtask ran before. Raises the classified error of a failed query."""
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


class Upstream(Server):
    """The upstream of one subtask, with the tables that the subtask migrates."""

    def __init__(self, subtask: SubTaskConfig) -> None:
        super().__init__(subtask.from_, "upstream")
        self.subtask = subtask

    @functools.cached_property
    def _allowed(self) -> BlockAllowListFilter:
        subtask = self.subtask
        return BlockAllowListFilter(subtask.block_allow_list, subtask.case_sensitive, subtask.meta_schema)

    @functools.cached_property
    def schemas(self) -> dict[str, list[str]]:
        """The migrated schemas with all of their base tables, migrated or not."""
        return {s: list_tables(self.conn, s) for s in list_schemas(self.conn) if self._allowed.allows(s)}

    @functools.cached_property
    def tables(self) -> list[Table]:
        """The migrated tables."""
        return [(s, t) for s, tables in self.schemas.items() for t in tables if self._allowed.allows(s, t)]

    @functools.cached_property
    def others(self) -> list[tuple[str, str, str]]:
        """Migrated objects that are no base tables, with their kind."""
        return [each for each in list_other_objects(self.conn) if self._allowed.allows(each[0], each[1])]

    @functools.cached_property
    def routed(self) -> dict[Table, Table]:
        """Migrated table → its table in the target. Raises 40080 when two routes claim one table."""
        router = TableRouter(self.subtask.routes, self.subtask.case_sensitive)
        return {table: router.route(*table) for table in self.tables}

    @functools.cached_property
    def extracted(self) -> dict[Table, tuple[str, ...]]:
        """Migrated table → the columns that its route fills. Raises 20045 for a name without the text to extract."""
        router = TableRouter(self.subtask.routes, self.subtask.case_sensitive)
        found = {table: router.extracted(*table, self.subtask.source_id) for table in self.tables}
        return {table: tuple(column for column, _ in pairs) for table, pairs in found.items() if pairs}

    @functools.cached_property
    def mappings(self) -> dict[Table, TableMapping]:
        """Migrated table → its column mapping. Raises 26004 for a rule that does not suit its table."""
        mapper = ColumnMapper(self.subtask.column_mappings, self.subtask.case_sensitive)
        found = {table: mapper.compile(*table, info.columns) for table, info in self.structures.items()}
        return {table: mapping for table, mapping in found.items() if mapping is not None}

    @functools.cached_property
    def structures(self) -> dict[Table, TableInfo]:
        found = self.table_infos(self.tables)
        return {table: found[table] for table in self.tables if table in found}
