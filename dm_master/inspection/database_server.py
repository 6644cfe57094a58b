"""What the checks look at: open connections to one upstream or the target, and facts that several checks share."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_master.inspection.grants import Grants, roles_of
from dm_master.rules.source_rules import SourceRules
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.config.rule_names import InstanceNames
from pkg.errors import Code, DMError
from pkg.mysql.connection import Scope, classify, connect, error_number
from pkg.mysql.introspect import (
    ServerInfo,
    fetch_table_infos,
    list_all_tables,
    list_other_objects,
    query,
    server_info,
    variable,
)
from pkg.mysql.names import qualified
from pkg.mysql.schema import TableInfo
from pkg.settings.connections import DBConfig

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
            Code.TaskCheckFailedOpenDB,
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

    def __init__(self, subtask: SubTaskConfig, names: InstanceNames) -> None:
        super().__init__(subtask.from_, "upstream")
        self.subtask = subtask
        self.rules = SourceRules(subtask, names)

    @functools.cached_property
    def everything(self) -> dict[str, list[str]]:
        """All schemas with all of their base tables, migrated or not."""
        return list_all_tables(self.conn)

    @functools.cached_property
    def schemas(self) -> dict[str, list[str]]:
        """The migrated schemas with all of their base tables, migrated or not."""
        return {s: tables for s, tables in self.everything.items() if self.rules.allow_list.allows(s)}

    @functools.cached_property
    def tables(self) -> list[Table]:
        """The migrated tables."""
        return [(s, t) for s, tables in self.schemas.items() for t in tables if self.rules.allow_list.allows(s, t)]

    @functools.cached_property
    def others(self) -> list[tuple[str, str, str]]:
        """Migrated objects that are no base tables, with their kind."""
        return [each for each in list_other_objects(self.conn) if self.rules.allow_list.allows(each[0], each[1])]

    @functools.cached_property
    def routed(self) -> dict[Table, Table]:
        """Migrated table → its table in the target. Raises 40080 when two routes claim one table."""
        return {table: self.rules.router.route(*table) for table in self.tables}

    @functools.cached_property
    def structures(self) -> dict[Table, TableInfo]:
        found = self.table_infos(self.tables)
        return {table: found[table] for table in self.tables if table in found}

    def starts_now(self, target: Server) -> bool:
        """Whether today's structures are those that the task begins with.

        A stream that begins in the past may bring the very DDL that something lacks: then nothing is certain.
        """
        subtask = self.subtask
        now = subtask.meta is None and subtask.task_mode in ("full", "all", "dump", "incremental")
        return now and not target.has_progress(subtask)
