"""Random ALTER TABLE statements, and names without a schema: the tracker against real servers."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from pkg.ddl import parse
from pkg.mysql.introspect import fetch_table_info, list_tables
from pkg.schema_tracker import SchemaTracker, fetch_server_defaults
from tests.integration.ddl.structures import comparable

SCHEMA = "ddl_oracle"


class Twin:
    """One schema on a server, and a tracker that receives the same statements."""

    def __init__(self, server: SQLServer) -> None:
        self.conn: Connection[Any] = server.connect()
        self.run_raw(f"DROP DATABASE IF EXISTS {SCHEMA}", f"CREATE DATABASE {SCHEMA}", f"USE {SCHEMA}")
        self.run_raw("SET foreign_key_checks = 0")
        self.tracker = SchemaTracker(fetch_server_defaults(self.conn))
        self.tracker.apply(parse(f"CREATE DATABASE {SCHEMA}"))

    def run_raw(self, *statements: str) -> None:
        with self.conn.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def apply(self, sql: str) -> None:
        server = self.tracker.server
        self.tracker.apply(parse(sql, default_schema=SCHEMA, flavor=server.flavor, version=server.version))

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
            # Nor when the server gives up an index of its own that a foreign key needed.
            assert set(want.pop("indexes")) <= set(have.pop("indexes")), after
            assert have == want, after


@pytest.mark.parametrize("sql", ["ALTER TABLE other_db.t RENAME u", "RENAME TABLE other_db.t TO u"])
@pytest.mark.parametrize("family", ["mariadb_upstream", "mysql_upstream"])
def test_new_name_without_schema_is_in_the_sessions_schema(
    request: pytest.FixtureRequest, family: str, sql: str
) -> None:
    twin = Twin(request.getfixturevalue(family))
    for statement in (
        "DROP DATABASE IF EXISTS other_db",
        "CREATE DATABASE other_db",
        "CREATE TABLE other_db.t (a INT)",
        sql,
    ):
        twin.run_raw(statement)
        twin.apply(statement)
    twin.check(sql)
    assert list_tables(twin.conn, "other_db") == []


@pytest.mark.parametrize("family", ["mariadb_upstream", "mysql_upstream"])
def test_parent_without_schema_is_in_the_tables_schema(request: pytest.FixtureRequest, family: str) -> None:
    twin = Twin(request.getfixturevalue(family))
    for statement in (
        "DROP DATABASE IF EXISTS other_db",
        "CREATE DATABASE other_db",
        "CREATE TABLE other_db.parent (id INT PRIMARY KEY)",
        "CREATE TABLE other_db.child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES parent (id))",
    ):
        twin.run_raw(statement)
        twin.apply(statement)
    expected = fetch_table_info(twin.conn, "other_db", "child")
    actual = twin.tracker.table("other_db", "child")
    assert expected is not None
    assert actual is not None
    assert actual.foreign_keys == expected.foreign_keys == (("other_db", "parent"),)


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
TYPES = st.sampled_from(
    ["INT", "INT UNSIGNED NOT NULL", "BIGINT", "VARCHAR(20)", "VARCHAR(20) NOT NULL", "VARCHAR(5) CHARACTER SET latin1",
     "TEXT", "DATETIME(3)", "DECIMAL(8,2)", "ENUM('x','y')", "TINYTEXT COLLATE utf8mb4_bin", "VARBINARY(9) NOT NULL",
     "TIMESTAMP", "CHAR(3) CHARACTER SET utf8mb4", "ENUM('x') CHARACTER SET binary", "GEOMETRYCOLLECTION",
     "BLOB NOT NULL", "INT AS (7) VIRTUAL"]
)  # fmt: skip
PLACES = st.one_of(st.just(""), st.just(" FIRST"), NAMES.map(lambda name: f" AFTER {name}"))
PARTS = st.one_of(
    st.builds("ADD COLUMN {} {}{}".format, NAMES, TYPES, PLACES),
    st.builds("ADD COLUMN IF NOT EXISTS {} {}{}".format, NAMES, TYPES, PLACES),
    st.builds("ADD ({} {}, {} {} UNIQUE)".format, NAMES, TYPES, NAMES, TYPES),
    st.builds("DROP COLUMN {}".format, NAMES),
    st.builds("MODIFY {} {}{}".format, NAMES, TYPES, PLACES),
    st.builds("CHANGE {} {} {}{}".format, NAMES, NAMES, TYPES, PLACES),
    st.builds("RENAME COLUMN {} TO {}".format, NAMES, NAMES),
    st.builds("ADD UNIQUE ({})".format, NAMES),
    st.builds("ADD UNIQUE KEY ({}(3), {})".format, NAMES, NAMES),
    st.builds("ADD KEY {} ({})".format, NAMES, NAMES),
    st.builds("ADD UNIQUE KEY ({} DESC, {}(8))".format, NAMES, NAMES),
    st.builds("DROP KEY {}".format, NAMES),
    st.builds("RENAME KEY {} TO {}".format, NAMES, NAMES),
    st.builds("ADD PRIMARY KEY ({})".format, NAMES),
    st.just("DROP PRIMARY KEY"),
    st.builds("ALTER {} SET DEFAULT NULL".format, NAMES),
    st.sampled_from(["CONVERT TO CHARACTER SET latin1", "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]),
    st.sampled_from(["CONVERT TO CHARACTER SET DEFAULT", "CONVERT TO CHARACTER SET utf8mb4"]),
    st.sampled_from(["DEFAULT CHARSET utf8", "COLLATE utf8mb4_unicode_ci", "ENGINE=InnoDB", "COMMENT 'x'"]),
)
ALTERS = st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: "ALTER TABLE t " + ", ".join(parts))


@pytest.mark.parametrize("family", ["mariadb_upstream", "mysql_upstream"])
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=st.lists(ALTERS, min_size=2, max_size=10))
def test_random_alters(request: pytest.FixtureRequest, family: str, script: list[str]) -> None:
    """Whatever the server accepts, the tracker follows."""
    twin = Twin(request.getfixturevalue(family))
    try:
        create = "CREATE TABLE t (a INT NOT NULL, b VARCHAR(30) NOT NULL, c TEXT, PRIMARY KEY (a), UNIQUE KEY (b, a))"
        twin.run_raw(create)
        twin.apply(create)
        for sql in script:
            try:
                twin.run_raw(sql)
            except pymysql.Error:
                continue  # Refused upstream: never in a binlog.
            twin.apply(sql)
            twin.check(sql)
    finally:
        twin.conn.close()
