"""Hazard: what a statement's session or server decided is silently lost on the way to the target."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.syncer.checkpoint.ddl_table import DDLRecord
from dm_worker.syncer.checkpoint.protocol import DDL, BatchProgress
from dm_worker.syncer.ddl.executor import DDLExecutor, DDLStep, StatementContext
from dm_worker.syncer.ddl.session import DDLSession
from dm_worker.syncer.ddl.trial import Trial
from dm_worker.syncer.ddl.variables import UpstreamSession, defaults_of, in_plain_words
from pkg import ddl
from pkg.binlog import constants as c
from pkg.binlog.events import QueryEvent, parse_query
from pkg.binlog.position import Location, Position
from pkg.ddl.sql_modes import sql_mode_text
from pkg.errors import Code, DMError
from pkg.mysql.introspect import fetch_table_info, server_info
from pkg.schema_tracker import fetch_server_defaults
from tests.integration.binlog_replay import events_between, here

NOWHERE = Location(Position("", 0))


class Store:
    """Nothing ran before."""

    def read_ddl(self, place: Position, index: int) -> DDLRecord | None:
        return None

    def write(self, intent: BatchProgress, *, ddl: DDLRecord, through: object = None) -> None:
        """Nothing is read back."""


def route(schema: str, table: str) -> tuple[str, str]:
    return f"{schema}_copy", table


@dataclass(frozen=True, slots=True)
class Pair:
    """An upstream and a target, which may be one server: schema ``u`` goes to ``u_copy``."""

    upstream: SQLServer
    target: SQLServer

    def prepare(self, *statements: str) -> None:
        """On both sides; ``{}`` is the schema."""
        for server, schema in ((self.upstream, "u"), (self.target, "u_copy")):
            server.execute(f"CREATE DATABASE {schema}", *(one.format(schema) for one in statements))

    def logged(self, variables: str, statement: str) -> tuple[QueryEvent, int]:
        """The event of a statement that runs in a session with these variables, and its time."""
        self.upstream.execute("FLUSH BINARY LOGS")
        start = here(self.upstream)
        conn = self.upstream.connect()
        try:
            with conn.cursor() as cursor:
                cursor.execute("USE u")
                if variables:
                    cursor.execute(f"SET {variables}")
                cursor.execute(statement)
        finally:
            conn.close()
        for event in events_between(self.upstream, start, here(self.upstream).position):
            if event.type == c.QUERY_EVENT and not event.artificial:
                query = parse_query(event)
                if query.sql == statement:
                    return query, event.timestamp
        raise AssertionError(f"not in the binlog: {statement}")

    def carry(self, query: QueryEvent, timestamp: int, *, foreign_keys: bool = False, keyed: bool = True) -> None:
        """Executes it at the target. Raises DMError. ``keyed``: the order of rows is that of the upstream's key."""
        conn = self.upstream.connect()
        try:
            server = fetch_server_defaults(conn)
            upstream = UpstreamSession(self.upstream.flavor, server.version, server.explicit_timestamp)
            query = in_plain_words(query, upstream)
            parsed = ddl.parse(
                query.sql,
                sql_mode=sql_mode_text(query.sql_mode),
                default_schema="u",
                flavor=self.upstream.flavor,
                version=server.version,
                session=defaults_of(query, server.collations),
            )
            source = fetch_table_info(conn, *parsed.tables[0]) if keyed else None
        finally:
            conn.close()
        with closing(DDLSession(self.target.db_config, foreign_keys)) as session:
            executor = DDLExecutor(
                store=Store(),  # type: ignore[arg-type]
                session=session,
                trial=cast(Trial, None),
                target_flavor=self.target.flavor,
                upstream=upstream,
                should_stop=lambda: False,
            )
            text = ddl.rewrite(parsed, route, target_flavor=self.target.flavor)
            step = DDLStep(parsed, text, tuple(route(*name) for name in parsed.tables), route, source)
            progress = BatchProgress(1, 1, DDL, NOWHERE, NOWHERE)
            executor.once(Position("b", 4), 0, step, StatementContext(query, timestamp), progress)

    def run(self, variables: str, statement: str, **how: Any) -> None:
        self.carry(*self.logged(variables, statement), **how)

    def rows(self, sql: str) -> list[list[tuple[Any, ...]]]:
        """The same of both sides."""
        return [self.upstream.execute(sql.format("u")), self.target.execute(sql.format("u_copy"))]

    def assert_equal(self, sql: str) -> list[tuple[Any, ...]]:
        one, other = self.rows(sql)
        assert one == other
        return one


PAIRS = [("mariadb", "mariadb"), ("mariadb", "mysql"), ("mysql", "mariadb"), ("mysql", "mysql")]
MARIADB, MYSQL = PAIRS[0], PAIRS[3]


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Pair:
    servers: list[SQLServer] = [request.getfixturevalue(f"{flavor}_upstream") for flavor in request.param]
    return Pair(*servers)


def pairs(*chosen: tuple[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pair", chosen, indirect=True, ids="-to-".join)


def is_80(server: SQLServer) -> bool:
    conn = server.connect()
    try:
        return server_info(conn).version >= (8, 0, 0)
    finally:
        conn.close()


@pairs(*PAIRS)
def test_rows_get_the_statements_time_to_the_microsecond(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)", "INSERT INTO {}.t VALUES (1)")
    pair.run("timestamp = 1700000000.123456", "ALTER TABLE t ADD c DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)")
    assert str(pair.assert_equal("SELECT c FROM {}.t")[0][0]).endswith(".123456")


@pairs(*PAIRS)
def test_new_ids_are_the_sessions(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY)")
    for server, schema in ((pair.upstream, "u"), (pair.target, "u_copy")):
        # In another order on each side.
        order = "('b'), ('a'), ('C')" if schema == "u" else "('C'), ('b'), ('a')"
        server.execute(f"INSERT INTO {schema}.t VALUES {order}")
    pair.run(
        "auto_increment_increment = 10, auto_increment_offset = 3", "ALTER TABLE t ADD n INT AUTO_INCREMENT UNIQUE"
    )
    names, ids = zip(*pair.assert_equal("SELECT id, n FROM {}.t ORDER BY n"), strict=True)
    assert names == ("a", "b", "C")
    assert (ids[0] % 10, ids[1] - ids[0], ids[2] - ids[1]) == (3, 10, 10)


@pairs(*PAIRS)
def test_new_ids_of_rows_without_order_are_refused(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (v INT)", "CREATE TABLE {}.e (v INT)", "CREATE TABLE {}.z (id INT, v INT)")
    for server, schema in ((pair.upstream, "u"), (pair.target, "u_copy")):
        server.execute(f"INSERT INTO {schema}.t VALUES (1), (2)", f"INSERT INTO {schema}.z VALUES (1, 1), (2, 2)")
    logged = pair.logged("", "ALTER TABLE t ADD id INT AUTO_INCREMENT PRIMARY KEY FIRST")
    with pytest.raises(DMError, match=r"\(AUTO_INCREMENT\).*t ADD id") as refused:
        pair.carry(*logged)
    assert refused.value.kind is Code.SyncerUnsupportedStmt
    assert refused.value.workaround
    assert len(pair.target.execute("SHOW COLUMNS FROM u_copy.t")) == 1
    # Without rows, and where each has its number, nothing depends on the order.
    pair.run("", "ALTER TABLE e ADD id INT AUTO_INCREMENT PRIMARY KEY FIRST", keyed=False)
    pair.run("", "ALTER TABLE z MODIFY id INT NOT NULL AUTO_INCREMENT PRIMARY KEY", keyed=False)
    pair.assert_equal("SELECT * FROM {}.z")


VARYING = ["uuid()", "RAND()", "(1 + rand(3))", "sysdate()", "connection_id()", "(concat(user(), '@'))", "current_user"]


@pairs(MARIADB)
@pytest.mark.parametrize("default", VARYING)
def test_values_that_can_not_be_made_again_are_refused(pair: Pair, default: str) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)", "CREATE TABLE {}.e (id INT PRIMARY KEY)")
    for server, schema in ((pair.upstream, "u"), (pair.target, "u_copy")):
        server.execute(f"INSERT INTO {schema}.t VALUES (1), (2)")
    logged = pair.logged("", f"ALTER TABLE t ADD c VARCHAR(99) DEFAULT {default}")
    with pytest.raises(DMError, match="can't be reproduced") as refused:
        pair.carry(*logged)
    assert refused.value.kind is Code.SyncerUnsupportedStmt
    assert len(pair.target.execute("SHOW COLUMNS FROM u_copy.t")) == 1
    pair.run("", f"ALTER TABLE e ADD c VARCHAR(99) DEFAULT {default}")
    pair.run("", f"ALTER TABLE t ADD d VARCHAR(99), ALTER d SET DEFAULT {default}")


@pairs(MARIADB)
def test_values_that_a_name_or_string_only_mentions_are_none(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY, uuid INT)", "INSERT INTO {}.t VALUES (1, 7)")
    pair.run("timestamp = 1.5", "ALTER TABLE t ADD c VARCHAR(99) DEFAULT (concat(uuid, 'rand()', now(3)))")
    pair.assert_equal("SELECT c FROM {}.t")


@pairs(*PAIRS)
@pytest.mark.parametrize("other", [False, True])
def test_fractions_that_do_not_fit_are_rounded_or_cut_as_upstream(pair: Pair, other: bool) -> None:
    mode = {"mariadb": "TIME_ROUND_FRACTIONAL", "mysql": "TIME_TRUNCATE_FRACTIONAL"}[pair.upstream.flavor]
    # MySQL has the mode from 8.0 on.
    other = other and (pair.upstream.flavor == "mariadb" or is_80(pair.upstream))
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY, c DATETIME(6))")
    for server, schema in ((pair.upstream, "u"), (pair.target, "u_copy")):
        server.execute(f"INSERT INTO {schema}.t VALUES (1, '2001-01-01 00:00:00.7')")
    logged = pair.logged(f"sql_mode = '{mode if other else ''}'", "ALTER TABLE t MODIFY c DATETIME")
    rounded = (pair.upstream.flavor == "mariadb") == other
    if rounded or pair.target.flavor == "mariadb" or is_80(pair.target):
        pair.carry(*logged)
        assert str(pair.assert_equal("SELECT c FROM {}.t")[0][0])[-1] == ("1" if rounded else "0")
    else:
        with pytest.raises(DMError, match="fractions of seconds"):
            pair.carry(*logged)


@pairs(MARIADB, ("mariadb", "mysql"))
def test_empty_strings_that_are_null(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)", "INSERT INTO {}.t VALUES (1)")
    logged = pair.logged("sql_mode = 'EMPTY_STRING_IS_NULL'", "ALTER TABLE t ADD c VARCHAR(9) DEFAULT ''")
    if pair.target.flavor == "mysql":
        with pytest.raises(DMError, match="EMPTY_STRING_IS_NULL"):
            pair.carry(*logged)
        pair.run("sql_mode = 'EMPTY_STRING_IS_NULL'", "ALTER TABLE t ADD d VARCHAR(9) DEFAULT 'x'")
    else:
        pair.carry(*logged)
        assert pair.assert_equal("SELECT c FROM {}.t") == [(None,)]


@pairs(MARIADB)
def test_constraints_that_were_not_checked(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)", "INSERT INTO {}.t VALUES (1)")
    pair.run("check_constraint_checks = 0", "ALTER TABLE t ADD CONSTRAINT c CHECK (id > 5)")
    assert "CHECK" in pair.assert_equal("SHOW CREATE TABLE {}.t")[0][1]


@pairs(("mariadb", "mariadb"), ("mariadb", "mysql"))
@pytest.mark.parametrize("explicit", [0, 1])
def test_what_timestamp_means_is_shown_by_flags_too(pair: Pair, explicit: int) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)")
    pair.run(f"explicit_defaults_for_timestamp = {explicit}", "ALTER TABLE t ADD c TIMESTAMP")
    nullable = pair.rows(
        "SELECT IS_NULLABLE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{}' AND COLUMN_NAME = 'c'"
    )
    assert nullable == [[("YES" if explicit else "NO",)]] * 2


@pairs(MARIADB)
def test_names_of_months_are_the_sessions(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)", "INSERT INTO {}.t VALUES (1)")
    pair.run("lc_time_names = 'de_DE'", "ALTER TABLE t ADD c VARCHAR(9) DEFAULT (monthname('2020-05-01'))")
    assert pair.assert_equal("SELECT c FROM {}.t") == [("Mai",)]
    pair.run("", "ALTER TABLE t ADD d VARCHAR(9) DEFAULT (monthname('2020-05-01'))")
    assert pair.assert_equal("SELECT d FROM {}.t") == [("May",)]


@pairs(MARIADB, MYSQL)
def test_texts_compare_as_in_the_session(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)", "INSERT INTO {}.t VALUES (1)")
    form = "DEFAULT (collation('x'))" if pair.upstream.flavor == "mariadb" else "AS (collation('x')) STORED"
    pair.run("collation_connection = latin1_bin", f"ALTER TABLE t ADD c VARCHAR(40) {form}, ALGORITHM=COPY")
    # MySQL 8 keeps no more than the charset with the literal.
    assert pair.assert_equal("SELECT c FROM {}.t")[0][0].startswith("latin1_")
    pair.run("collation_connection = utf8mb4_general_ci", f"ALTER TABLE t ADD d VARCHAR(40) {form}, ALGORITHM=COPY")
    assert pair.assert_equal("SELECT d FROM {}.t")[0][0].startswith("utf8mb4_")
    pair.assert_equal("SHOW CREATE TABLE {}.t")


@pairs(MARIADB, ("mariadb", "mysql"))
def test_if_exists_that_the_session_said(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)")
    statement = "RENAME TABLE nothing TO something"
    if pair.target.flavor == "mariadb":
        pair.run("sql_if_exists = 1", statement)
    else:
        with pytest.raises(DMError, match="nothing") as refused:
            pair.run("sql_if_exists = 1", statement)
        assert refused.value.workaround
    assert pair.rows("SHOW TABLES FROM {}") == [[("t",)]] * 2


@pairs(*PAIRS)
def test_foreign_keys_that_were_not_checked(pair: Pair) -> None:
    pair.prepare()
    statement = "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id))"
    pair.run("foreign_key_checks = 0", statement, foreign_keys=True)
    assert pair.rows("SHOW TABLES FROM {}") == [[("c",)]] * 2


@pairs(MARIADB)
def test_unknown_options_that_the_session_ignored(pair: Pair) -> None:
    pair.prepare()
    pair.run("sql_mode = 'IGNORE_BAD_TABLE_OPTIONS'", "CREATE TABLE t (id INT PRIMARY KEY) FOO='bar'")
    pair.assert_equal("SHOW CREATE TABLE {}.t")


NO_BEARING = [
    "sql_auto_is_null = 1",
    "autocommit = 0",
    "unique_checks = 0",
    "character_set_database = latin1",
    "sql_mode = 'NO_DIR_IN_CREATE'",
]
NO_BEARING_IN_MARIADB = [
    "system_versioning_insert_history = 1",
    "sql_mode = 'SIMULTANEOUS_ASSIGNMENT,NO_KEY_OPTIONS,NO_TABLE_OPTIONS,NO_FIELD_OPTIONS'",
    "sql_mode = 'MYSQL323,MYSQL40,NO_AUTO_CREATE_USER'",
    "sql_mode = 'TRADITIONAL'",
    "sql_mode = 'POSTGRESQL'",
    "sql_mode = 'MSSQL'",
    "sql_mode = 'DB2'",
]


@pairs(*PAIRS)
def test_what_has_no_bearing_stops_nothing(pair: Pair) -> None:
    pair.prepare("CREATE TABLE {}.t (id INT PRIMARY KEY)")
    variables = NO_BEARING + (NO_BEARING_IN_MARIADB if pair.upstream.flavor == "mariadb" else [])
    for number, variable in enumerate(variables):
        pair.run(variable, f"ALTER TABLE t ADD c{number} INT DEFAULT 7")
    columns = (
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{}' AND COLUMN_DEFAULT = '7'"
        " ORDER BY ORDINAL_POSITION"
    )
    assert len(pair.assert_equal(columns)) == len(variables)
