"""The tracker's structures against those of real servers, after every statement."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysql.connections import Connection

from pkg.ddl import parse
from pkg.mysql.introspect import fetch_table_info, list_tables
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import SchemaTracker, fetch_server_defaults, parse_create_table
from tests.harness.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.integration.ddl.statements import COMMON, MARIADB

SCHEMA = "ddl_oracle"


def comparable(table: TableInfo) -> dict[str, Any]:
    """What must be equal; DEFAULT texts and engine are shown differently by each server."""
    return {
        "columns": [
            (c.name, c.type_name, c.column_type, c.nullable, c.unsigned, c.charset, c.collation, c.generated)
            for c in table.columns
        ],
        "flags": [(c.auto_increment, c.invisible) for c in table.columns],
        "unique": [(k.name, k.parts) for k in table.indexes if k.unique],
        "indexes": [(k.name, k.columns) for k in table.indexes],
        "charset": (table.charset, table.collation),
        "foreign keys": table.foreign_keys,
    }


class Twin:
    """One schema on a server, and a tracker that is told the same statements."""

    def __init__(self, server: SQLServer) -> None:
        self.conn: Connection[Any] = server.connect()
        self.flavor = server.flavor
        self.run_raw(f"DROP DATABASE IF EXISTS {SCHEMA}", f"CREATE DATABASE {SCHEMA}", f"USE {SCHEMA}")
        self.run_raw("SET foreign_key_checks = 0")
        self.tracker = SchemaTracker(fetch_server_defaults(self.conn))
        self.tracker.apply(parse(f"CREATE DATABASE {SCHEMA}"))

    def run_raw(self, *statements: str) -> None:
        with self.conn.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def run(self, sql: str) -> None:
        """Executes and applies; a statement that the server refuses is not in a binlog, so the tracker never sees it."""
        try:
            self.run_raw(sql)
        except pymysql.Error:
            return
        self.tracker.apply(parse(sql, default_schema=SCHEMA, flavor=self.flavor))

    def check(self, after: str) -> None:
        names = list_tables(self.conn, SCHEMA)
        assert sorted(table.name for table in self.tracker.tables()) == names, after
        for name in names:
            expected = fetch_table_info(self.conn, SCHEMA, name)
            actual = self.tracker.table(SCHEMA, name)
            assert expected is not None
            assert actual is not None
            want, have = comparable(expected), comparable(actual)
            # Which foreign key a DROP FOREIGN KEY means is not tracked: pairs may stay.
            assert set(want.pop("foreign keys")) <= set(have.pop("foreign keys")), after
            assert have == want, after

    def check_show_create(self) -> None:
        """What SHOW CREATE TABLE prints is parsed to the same structure."""
        for name in list_tables(self.conn, SCHEMA):
            with self.conn.cursor() as cursor:
                cursor.execute(f"SHOW CREATE TABLE `{name.replace('`', '``')}`")
                text = cursor.fetchall()[0][1]
            expected = fetch_table_info(self.conn, SCHEMA, name)
            assert expected is not None
            assert comparable(parse_create_table(text, SCHEMA, self.tracker.server)) == comparable(expected), text


def follow(server: SQLServer, script: list[str]) -> int:
    twin = Twin(server)
    accepted = 0
    for sql in script:
        try:
            twin.run_raw(sql)
        except pymysql.Error as exc:
            # Each family refuses a few of the other's statements; the count below keeps this honest.
            print(f"refused by {server.flavor}: {exc}: {sql[:100]}")
            continue
        accepted += 1
        twin.tracker.apply(parse(sql, default_schema=SCHEMA, flavor=server.flavor))
        twin.check(sql)
        twin.check_show_create()
    return accepted


@pytest.mark.parametrize("number", range(len(COMMON)))
def test_mariadb_common(mariadb_upstream: MariaDBServer, number: int) -> None:
    assert follow(mariadb_upstream, COMMON[number]) >= len(COMMON[number]) - 4


@pytest.mark.parametrize("number", range(len(MARIADB)))
def test_mariadb_only(mariadb_upstream: MariaDBServer, number: int) -> None:
    assert follow(mariadb_upstream, MARIADB[number]) >= len(MARIADB[number]) - 2


@pytest.mark.parametrize("number", range(len(COMMON)))
def test_mysql_common(mysql_upstream: MySQLServer, number: int) -> None:
    assert follow(mysql_upstream, COMMON[number]) >= len(COMMON[number]) - 6
