"""Hazard: what MySQL writes by default, or can be configured to write, since 8.0.13 is lost, refused or changed.

Each server is upstream, read directly and through the relay, and target, with the defaults of its release: TLS, an
account of its default plugin, its default collation. Its own tables are the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MYSQL_8_COLLATION, MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from dm_master.cutover.table_checksums import read_sums
from dm_worker.engine.engine import SparkEngine
from pkg.settings.connections import DBConfig
from tests.harness.full_copy import config, contents, dump, load
from tests.harness.versions import NEWEST_TRIED
from tests.integration.comparison.support import SCHEMA, TABLE, compare, fresh
from tests.integration.relay_routes import read_through
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal, running, subtask

Pair = tuple[MySQLServer, MySQLServer]
_COMPARED = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), b TEXT)",
    "INSERT INTO t VALUES (1, 'a', REPEAT('x', 9000)), (2, NULL, ''), (3, 'c', NULL)",
)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=NEWEST_TRIED)
def servers(request: pytest.FixtureRequest) -> Iterator[Pair]:
    upstream, target = (MySQLServer(version=request.param, gtid=True, extra=[MYSQL_8_COLLATION]) for _ in range(2))
    with up(upstream, target):
        for server in (upstream, target):
            server.execute("CREATE USER dm@'127.0.0.1' IDENTIFIED BY 'secret'", "GRANT ALL ON *.* TO dm@'127.0.0.1'")
        yield upstream, target


@pytest.fixture
def pair(servers: Pair) -> Pair:
    for server in servers:
        server.wipe()
    upstream = servers[0]
    for variable in ("binlog_transaction_compression", "binlog_row_metadata", "binlog_row_value_options"):
        upstream.execute(f"SET GLOBAL {variable} = DEFAULT")
    upstream.execute("FLUSH BINARY LOGS")
    return servers


def _account(server: MySQLServer) -> DBConfig:
    return replace(server.db_config, user="dm", password="secret")


#: Tables of kinds that older servers lack.
_MODERN = {
    "hidden_key": "(v INT, t VARCHAR(40))",
    "invisible": "(id INT PRIMARY KEY, v INT INVISIBLE DEFAULT 5, t VARCHAR(40), w DATETIME(6) INVISIBLE)",
    "functional": (
        "(id INT PRIMARY KEY, v INT, t VARCHAR(40), j JSON, KEY low ((LOWER(t))), UNIQUE KEY once ((v * 2)),"
        " KEY tags ((CAST(j -> '$.tags' AS UNSIGNED ARRAY))))"
    ),
    "expressed": (
        "(id INT PRIMARY KEY, v INT DEFAULT (1 + 2), t VARCHAR(40) DEFAULT (CONCAT('a', 'b')), j JSON DEFAULT"
        " (JSON_ARRAY()), g GEOMETRY SRID 4326, CONSTRAINT positive CHECK (v > -100000), KEY back (v DESC))"
    ),
    "parted": (
        "(id INT PRIMARY KEY, v INT, t VARCHAR(40), j JSON) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES LESS THAN MAXVALUE)"
    ),
    "words": "(id VARCHAR(20) PRIMARY KEY, v INT, t TEXT, FULLTEXT KEY (t)) COLLATE utf8mb4_ja_0900_as_cs",
}
_VECTORS = "(id INT PRIMARY KEY, v VECTOR(3), t VARCHAR(40))"


def _make_modern(upstream: MySQLServer) -> list[str]:
    upstream.execute(
        "SET SESSION sql_generate_invisible_primary_key = ON",
        *[f"CREATE TABLE d.{name} {body}" for name, body in _MODERN.items()],
    )
    if upstream.version == "9.7":
        upstream.execute(f"CREATE TABLE d.vectors {_VECTORS}")
    return [f"d.{name}" for name in _MODERN]


def _write_modern(upstream: MySQLServer, turn: int) -> None:
    base = turn * 100
    rows = range(base, base + 20)
    number = "CAST(v AS DECIMAL(5,2))"
    upstream.execute(
        *[f"INSERT INTO d.hidden_key (v, t) VALUES ({n}, 'row {n}'), (NULL, 'twice'), (NULL, 'twice')" for n in rows],
        "UPDATE d.hidden_key SET t = CONCAT(t, '!') WHERE t = 'twice' ORDER BY my_row_id LIMIT 3",
        f"DELETE FROM d.hidden_key WHERE v = {base + 7}",
        *[f"INSERT INTO d.invisible (id, t) VALUES ({n}, 'seen')" for n in rows],
        f"UPDATE d.invisible SET v = id * 2, w = '2024-02-29 01:02:03.4' WHERE id > {base + 9}",
        *[f"INSERT INTO d.functional VALUES ({n}, {n}, 'Name {n}', '{{\"tags\": [1, {n}]}}')" for n in rows],
        # A value moves from one row to another: their order counts by the key of an expression alone.
        f"UPDATE d.functional SET v = {base + 500} WHERE id = {base + 1}",
        f"UPDATE d.functional SET v = {base + 1} WHERE id = {base + 2}",
        f"UPDATE d.functional SET v = {base + 2} WHERE id = {base + 1}",
        f"DELETE FROM d.functional WHERE id = {base + 3}",
        f"INSERT INTO d.functional VALUES ({base + 90}, {base + 3}, NULL, NULL)",
        *[f"INSERT INTO d.expressed (id, g) VALUES ({n}, ST_GeomFromText('POINT({n % 80} 1)', 4326))" for n in rows],
        f"UPDATE d.expressed SET j = JSON_ARRAY({number}, id) WHERE id > {base + 9}",
        *[f"INSERT INTO d.parted VALUES ({n}, {n}, REPEAT('x', 30), '[{n}]')" for n in rows],
        f"UPDATE d.parted SET id = id + 40 WHERE id BETWEEN {base + 15} AND {base + 19}",
        f"UPDATE d.parted SET j = JSON_ARRAY_APPEND(j, '$', CAST(NOW() AS JSON), '$', {number}) WHERE id > {base}",
        *[f"INSERT INTO d.words VALUES ('か{n}', {n}, 'some words'), ('ガ{n}', {n}, 'others')" for n in rows],
        f"DELETE FROM d.words WHERE id = 'ガ{base}'",
    )
    if upstream.version == "9.7":
        upstream.execute(
            *[f"INSERT INTO d.vectors VALUES ({n}, TO_VECTOR('[{n}.5, -1e-7, 3]'), 'v')" for n in rows],
            f"UPDATE d.vectors SET v = NULL WHERE id > {base + 15}",
        )


def _with_settings(upstream: MySQLServer, turn: int) -> None:
    """What the server's binlog can be configured to hold."""
    document = "JSON_OBJECT('a', REPEAT('x', 300), 'n', 1, 'deep', JSON_ARRAY(1, 2, JSON_OBJECT('k', 'v')))"
    upstream.execute(
        "SET GLOBAL binlog_row_metadata = FULL",
        "SET SESSION binlog_transaction_compression = ON, binlog_row_value_options = PARTIAL_JSON",
        f"CREATE TABLE d.parts{turn} (id INT PRIMARY KEY, j JSON, v INT, KEY (v))",
        f"INSERT INTO d.parts{turn} VALUES (1, {document}, 1), (2, {document}, 2), (3, NULL, 3)",
        f"UPDATE d.parts{turn} SET j = JSON_SET(j, '$.n', CAST('2.50' AS DECIMAL(5,2)), '$.new', v), v = v + 10",
        f"UPDATE d.parts{turn} SET id = id + 10, j = JSON_REMOVE(j, '$.deep[2].k') WHERE id < 3",
        "BEGIN",
        f"INSERT INTO d.keyless VALUES ({turn}, REPEAT('y', 30), {turn})",
        "SAVEPOINT one",
        "DELETE FROM d.keyless",
        "ROLLBACK TO one",
        f"UPDATE d.parted SET j = JSON_REPLACE(j, '$[0]', 'now a string') WHERE id % 2 = {turn % 2}",
        "COMMIT",
        f"XA START 'x{turn}'",
        f"INSERT INTO d.parted VALUES ({turn + 9000}, 1, 'prepared', '{{}}')",
        f"XA END 'x{turn}'",
        f"XA PREPARE 'x{turn}'",
        f"XA COMMIT 'x{turn}'",
        "SET GLOBAL binlog_row_metadata = MINIMAL",
    )


def _change_tables(upstream: MySQLServer, turn: int) -> list[str]:
    """Statements that older servers lack; the tables that they make."""
    made = f"d.made{turn}"
    alter = f"ALTER TABLE {made}"
    upstream.execute(
        # One transaction since 8.0.21: CREATE TABLE … START TRANSACTION, and the rows.
        f"CREATE TABLE {made} (PRIMARY KEY (id), CHECK (id < 1000000)) SELECT id, v, t FROM d.parted",
        f"{alter} ADD COLUMN early INT NOT NULL DEFAULT 7 AFTER id, ALGORITHM=INSTANT",
        f"INSERT INTO {made} (id, v) VALUES (50001, 1)",
        f"{alter} DROP COLUMN t, ALGORITHM=INSTANT",
        f"{alter} RENAME COLUMN v TO value, ADD INDEX i ((value + 1)) INVISIBLE",
        f"{alter} ALTER COLUMN early SET INVISIBLE",
        f"INSERT INTO {made} (id, value) VALUES (50002, 2)",
        f"{alter} ALTER INDEX i VISIBLE, ALTER COLUMN early SET VISIBLE",
        f"{alter} ALTER COLUMN early SET DEFAULT (3 * 3)",
        f"INSERT INTO {made} (id, value) VALUES (50003, 3)",
        f"{alter} ADD COLUMN w VARCHAR(30) DEFAULT (REVERSE('cba'))",
        f"{alter} ADD CONSTRAINT c{turn} CHECK (w <> '') NOT ENFORCED",
        f"UPDATE {made} SET value = value + 1",
        "ALTER TABLE d.parted REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (1000), PARTITION p2 VALUES"
        " LESS THAN MAXVALUE)" if turn == 1 else "ALTER TABLE d.parted TRUNCATE PARTITION p0",
        "CREATE OR REPLACE VIEW d.seen AS SELECT * FROM d.plain",
        f"CREATE ROLE IF NOT EXISTS reader{turn}",
        f"GRANT SELECT ON d.* TO reader{turn}",
    )  # fmt: skip
    return [made]


@pytest.mark.parametrize("route", ["direct", "relay"])
def test_a_copy_and_its_replication_are_equal(pair: Pair, spark: SparkEngine, tmp_path: Path, route: str) -> None:
    upstream, target = pair
    make_tables(upstream)
    tables = [*(f"d.{name}" for name in TABLES), *_make_modern(upstream)]
    scramble(upstream, 71, 20)
    _write_modern(upstream, 1)
    cfg = replace(config(upstream, target, tmp_path), from_=_account(upstream), to=_account(target), online_ddl=False)
    cfg = replace(cfg, enable_gtid=route == "relay")
    with read_through(route, cfg, upstream, tmp_path / "relay") as relay:
        dump(cfg, spark)
        _write_modern(upstream, 2)
        load(cfg, spark)
        with running(cfg, spark, relay=relay) as run:
            scramble(upstream, 72, 20)
            _with_settings(upstream, 1)
            tables += ["d.parts1", *_change_tables(upstream, 1)]
            run.wait_synced(upstream, 240)
            run.stop(graceful=False)
        _write_modern(upstream, 3)
        with running(cfg, spark, relay=relay) as run:
            _with_settings(upstream, 2)
            tables += ["d.parts2", *_change_tables(upstream, 2)]
            run.wait_synced(upstream, 240)
    assert_equal(upstream, target, *tables)
    for table in ("d.hidden_key", "d.invisible", "d.functional", "d.parts1", "d.parts2"):
        assert contents(target, table) == contents(upstream, table), table
    if upstream.version == "9.7":
        # The driver does not read vectors.
        vectors = "SELECT id, HEX(v), t FROM d.vectors ORDER BY id"
        assert target.execute(vectors) == upstream.execute(vectors) != []
    copied = "SELECT id, JSON_TYPE(JSON_EXTRACT(j, '$[0]')) FROM d.expressed ORDER BY id"
    assert target.execute(copied) == upstream.execute(copied)
    typed = "SELECT JSON_TYPE(JSON_EXTRACT(j, '$.n')) FROM d.parts1 ORDER BY id"
    assert target.execute(typed) == upstream.execute(typed) == [(None,), ("DECIMAL",), ("DECIMAL",)]


def _write_tagged(upstream: MySQLServer, turn: int) -> None:
    """Transactions with tags and without, of this server and of another, single, compressed, and DDL."""
    rows = [turn * 100 + n for n in range(12)]
    other = "ffffffff-8080-7f01-00fe-c0ffee12ab99"
    upstream.execute(
        f"SET gtid_next = 'AUTOMATIC:one', @@SESSION.binlog_transaction_compression = {turn % 2}",
        *[f"INSERT INTO d.tagged VALUES ({n}, 'one')" for n in rows[:4]],
        "SET gtid_next = 'AUTOMATIC:a_tag_of_thirty_two_characters_'",
        *[f"INSERT INTO d.tagged VALUES ({n}, 'two'), ({-n}, 'two')" for n in rows[4:8]],
        f"CREATE TABLE d.tagged{turn} (id INT PRIMARY KEY) SELECT id FROM d.tagged",
        f"SET gtid_next = '{other}:far:{turn * 1000}'",
        "UPDATE d.tagged SET v = CONCAT(v, '!') WHERE id % 3 = 1",
        f"SET gtid_next = '{other}:{turn}'",
        f"DELETE FROM d.tagged WHERE id = {rows[5]}",
        "SET gtid_next = 'AUTOMATIC'",
        *[f"INSERT INTO d.tagged VALUES ({n}, 'none')" for n in rows[8:]],
        "FLUSH BINARY LOGS",
    )


@pytest.mark.parametrize("servers", [name for name in NEWEST_TRIED if name != "8.0-newest"], indirect=True)
@pytest.mark.parametrize("route", ["direct", "relay"])
def test_transactions_with_tagged_gtids(pair: Pair, spark: SparkEngine, tmp_path: Path, route: str) -> None:
    """A stream begins and continues after a set with tags, and the checkpoint's set is the upstream's own."""
    upstream, target = pair
    create = "CREATE TABLE d.tagged (id INT PRIMARY KEY, v VARCHAR(20))"
    for server in pair:
        server.execute("CREATE DATABASE d")
    upstream.execute("SET gtid_next = 'AUTOMATIC:early'", "CREATE TABLE d.early (id INT)")
    cfg = subtask(upstream, target, enable_gtid=True)
    upstream.execute("SET gtid_next = 'AUTOMATIC:early'", create)
    with read_through(route, cfg, upstream, tmp_path / "relay") as relay:
        for turn in (1, 2, 3):
            with running(cfg, spark, relay=relay) as run:
                _write_tagged(upstream, turn)
                run.wait_synced(upstream)
                run.stop(graceful=False)
            _write_tagged(upstream, turn + 10)
        with running(cfg, spark, relay=relay) as run:
            run.wait_synced(upstream)
    assert_equal(upstream, target, "d.tagged", *(f"d.tagged{turn}" for turn in (1, 2, 3, 11, 12, 13)))
    ((stored,),) = target.execute("SELECT binlog_gtid FROM dm_meta.t_syncer_checkpoint WHERE is_global")
    ((executed,),) = upstream.execute("SELECT @@gtid_executed")
    assert stored == executed.replace("\n", "")
    assert ":one:1-" in stored
    assert ":far:1000:2000" in stored


#: Into a MariaDB, with a collation that it has.
_OLDER = "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
_CHECKS = (
    "SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_TYPE = 'CHECK'"
    " AND TABLE_SCHEMA = 'd'"
)


def test_checks_of_a_mysql_keep_their_names(pair: Pair, target: SQLServer, spark: SparkEngine) -> None:
    upstream = pair[0]
    for server in (upstream, target):
        server.execute(_OLDER)
    with running(subtask(upstream, target), spark) as run:
        upstream.execute(
            "USE d",
            "CREATE TABLE t (id INT PRIMARY KEY, a INT CHECK (a > 0), b INT, CHECK (b > 0))",
            "ALTER TABLE t ADD c INT CHECK (c > 0), ADD CHECK (c < 9)",
            "ALTER TABLE t DROP CONSTRAINT t_chk_2, MODIFY a BIGINT",
            "ALTER TABLE t DROP CHECK t_chk_4",
            "INSERT INTO t VALUES (1, 1, -1, 11)",
        )
        run.wait_synced(upstream)
    assert set(target.execute(_CHECKS)) == set(upstream.execute(_CHECKS)) == {("t_chk_1",), ("t_chk_3",)}
    assert_equal(upstream, target, "d.t")


def test_a_check_that_the_target_names_differently_stops_the_task(
    pair: Pair, target: SQLServer, spark: SparkEngine
) -> None:
    upstream = pair[0]
    upstream.execute(_OLDER, "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, CHECK (a > 0))")
    target.execute(_OLDER, "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, CHECK (a > 0))")
    with running(subtask(upstream, target), spark) as run:
        upstream.execute("ALTER TABLE d.t DROP CONSTRAINT t_chk_1")
        outcome = run.wait_ended()
    assert [error.code for error in outcome.errors] == [36068]
    assert "t_chk_1" in str(outcome.errors[0])


def test_checks_that_a_mariadb_has_named_are_copied(
    pair: Pair, mariadb_upstream: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    """It calls the first one of each table CONSTRAINT_1, and MySQL takes a name once in a schema."""
    target = pair[1]
    mariadb_upstream.execute(
        _OLDER,
        "CREATE TABLE d.t (id INT PRIMARY KEY, CHECK (id > 0))",
        "CREATE TABLE d.u (id INT PRIMARY KEY, CHECK (id > 1))",
        "INSERT INTO d.t VALUES (1)",
        "INSERT INTO d.u VALUES (2)",
    )
    cfg = config(mariadb_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    assert set(target.execute(_CHECKS)) == {("t_chk_1",), ("u_chk_1",)}
    assert_equal(mariadb_upstream, target, "d.t", "d.u")


def test_texts_in_the_expressions_of_a_mysql_arrive(
    pair: Pair, target: SQLServer, spark: SparkEngine, tmp_path: Path
) -> None:
    upstream = pair[0]
    upstream.execute(
        _OLDER,
        "CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(9), v VARCHAR(20) DEFAULT (concat('ä', '\\\\''')), "
        "g VARCHAR(40) AS (concat(a, 'ä€\\\\''😀')) STORED, CONSTRAINT c CHECK (a <> 'ä''')) CHARACTER SET utf8mb4"
        " COLLATE utf8mb4_general_ci",
        "INSERT INTO d.t (id, a) VALUES (1, 'x')",
    )
    cfg = config(upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    for server in (upstream, target):
        server.execute("INSERT INTO d.t (id, a) VALUES (2, 'xC3xA4')")
    assert_equal(upstream, target, "d.t")


@pytest.mark.parametrize("direction", ["to itself", "to MariaDB", "from MariaDB"])
def test_rows_are_compared_with_a_function_that_both_servers_have(
    pair: Pair, mariadb_upstream: MariaDBServer, direction: str
) -> None:
    """MySQL 9.7 has neither MD5 nor SHA1."""
    upstream: SQLServer = mariadb_upstream if direction == "from MariaDB" else pair[0]
    there: SQLServer = mariadb_upstream if direction == "to MariaDB" else pair[1]
    for server in (upstream, there):
        fresh(server, *_COMPARED)
    found = compare(upstream, there)
    assert (found.outcome.how, found.kinds) == ("checksums", [])
    there.execute(f"UPDATE {SCHEMA}.{TABLE} SET b = 'X' WHERE id = 1", f"DELETE FROM {SCHEMA}.{TABLE} WHERE id = 3")
    assert compare(upstream, there).kinds == ["changed", "missing"]


def test_a_certificate_shows_a_change(pair: Pair) -> None:
    fresh(pair[1], *_COMPARED)
    (before,) = read_sums(pair[1].db_config, [(SCHEMA, TABLE)])
    assert (before.rows, before.undigested) == (3, 0)
    pair[1].execute(f"UPDATE {SCHEMA}.{TABLE} SET b = 'y' WHERE id = 2")
    (after,) = read_sums(pair[1].db_config, [(SCHEMA, TABLE)])
    assert after.digest != before.digest
