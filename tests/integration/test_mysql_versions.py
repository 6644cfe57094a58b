"""Hazards: a version of MySQL writes, wants or refuses what the others do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MYSQL_8_COLLATION, MariaDBServer, MySQLServer
from deploy.local.process import up
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from pkg.settings.connections import DBConfig
from tests.harness.full_copy import config, contents, dump, load
from tests.harness.running_relay import RunningRelay, binlog_end, same_files
from tests.harness.targets import TARGET
from tests.harness.versions import MYSQL_TRIED
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal, running, subtask

Pair = tuple[MySQLServer, MySQLServer]
_PASSWORD = "se'cr\\et"


@pytest.fixture(scope="module", params=MYSQL_TRIED)
def servers(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """An upstream and a target of one version, each with its version's own defaults, and an account with a password.

    No TLS: the password of MySQL 8's default plugin then goes through its RSA exchange.
    """
    version: str = request.param
    old = version in ("5.6", "5.7")
    # Servers from 8.4 on lack --skip-ssl, and 8.0.12 leaves an empty tls-version out.
    extra = [
        *(["--tls-version="] if version in ("8.4", "9.7") else ["--skip-ssl"]),
        *([] if old else [MYSQL_8_COLLATION]),
    ]
    upstream, target = (MySQLServer(version=version, gtid=True, extra=extra) for _ in range(2))
    with up(upstream, target):
        for server in (upstream, target):
            server.execute(f"CREATE USER dm@'127.0.0.1' IDENTIFIED BY '{_PASSWORD.translate(_ESCAPED)}'")
            server.execute("GRANT ALL ON *.* TO dm@'127.0.0.1'")
        yield upstream, target


_ESCAPED = str.maketrans({"'": "''", "\\": "\\\\"})


@pytest.fixture
def pair(servers: Pair) -> Pair:
    for server in servers:
        server.wipe()
    return servers


def _account(server: MySQLServer) -> DBConfig:
    return replace(server.db_config, user="dm", password=_PASSWORD)


_TEXT_KEYS = """CREATE TABLE d.words (k VARCHAR(20), p VARCHAR(40), n INT, PRIMARY KEY (k), UNIQUE KEY prefix (p(3)))"""


@pytest.mark.timeout(600)
def test_a_copy_and_its_replication_are_equal(pair: Pair, spark: SparkEngine, tmp_path: Path) -> None:
    upstream, target = pair
    make_tables(upstream)
    upstream.execute(_TEXT_KEYS)
    scramble(upstream, 21)
    cfg = config(upstream, target, tmp_path)
    cfg = replace(cfg, from_=_account(upstream), to=_account(target), enable_gtid=True, online_ddl=False)
    dump(cfg, spark)
    scramble(upstream, 22)
    load(cfg, spark)
    with running(cfg, spark) as run:
        run.wait_synced(upstream, 240)
        assert_equal(upstream, target, *[f"d.{name}" for name in TABLES])
        scramble(upstream, 23)
        upstream.execute(
            "ALTER TABLE d.plain ADD COLUMN extra DATETIME(3) DEFAULT '2020-01-02 03:04:05.678', ADD INDEX (v)",
            "CREATE TABLE d.later LIKE d.text_key",
            "INSERT INTO d.later SELECT * FROM d.text_key",
            "CREATE DATABASE e",
            "CREATE TABLE e.t (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v TEXT)",
            "INSERT INTO e.t (v) SELECT v FROM d.plain",
            "TRUNCATE d.keyless",
            "RENAME TABLE e.t TO d.moved",
            "DROP DATABASE e",
        )
        scramble(upstream, 24)
        run.wait_synced(upstream, 240)
    assert_equal(upstream, target, *[f"d.{name}" for name in (*TABLES, "later", "moved")])


@pytest.mark.timeout(600)
def test_a_year_is_no_hindrance_for_numbers_after_it(pair: Pair, spark: SparkEngine) -> None:
    """Servers differ in whether they log a sign for it, and whose sign is whose depends on that."""
    upstream, target = pair
    for server in pair:
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.some (a INT, y YEAR, b INT UNSIGNED, c INT, z YEAR, d BIGINT UNSIGNED)",
            f"CREATE TABLE d.many (y YEAR, {', '.join(f'c{n} INT UNSIGNED' for n in range(8))})",
        )
    with running(subtask(upstream, target), spark) as run:
        upstream.execute(
            "INSERT INTO d.some VALUES (-1, 2020, 4294967295, -2, 1901, 18446744073709551615)",
            f"INSERT INTO d.many VALUES (2155, {', '.join(str(2**32 - n) for n in range(1, 9))})",
        )
        run.wait_synced(upstream, 120)
    assert_equal(upstream, target, "d.some", "d.many")


@pytest.mark.timeout(600)
def test_keys_are_equal_where_the_server_says_so(pair: Pair, spark: SparkEngine) -> None:
    upstream, target = pair
    for server in pair:
        server.execute("CREATE DATABASE d", _TEXT_KEYS)
    with running(subtask(upstream, target), spark) as run:
        for turn in range(6):
            words = ["a", "A ", "á", "b", "ß", "ss", "Ⅷ", "viii", "z\t", "z", "日", "😀", "😁", "ｱ", "ア"]
            for i, word in enumerate(words):
                upstream.execute(
                    f"REPLACE INTO d.words VALUES ('{word}', '{word}{turn % 3}{i}', {turn * 100 + i})",
                    f"UPDATE IGNORE d.words SET k = '{word.upper()}' WHERE k = '{words[(i + turn) % len(words)]}'",
                )
            upstream.execute(f"DELETE FROM d.words WHERE k = '{words[turn]}'")
        run.wait_synced(upstream, 120)
    assert len(upstream.execute("SELECT * FROM d.words")) > 4
    assert_equal(upstream, target, "d.words")


def test_the_relay_s_files_are_the_server_s(pair: Pair, tmp_path: Path) -> None:
    upstream, _ = pair
    make_tables(upstream)
    upstream.execute("FLUSH BINARY LOGS")
    first = binlog_end(upstream).name
    scramble(upstream, 31)
    with RunningRelay(upstream, tmp_path, from_=_account(upstream), enable_gtid=True) as relay_log:
        relay_log.caught_up()
        upstream.execute("FLUSH BINARY LOGS")
        scramble(upstream, 32)
        upstream.restart()
        scramble(upstream, 33)
        relay_log.caught_up()
        assert len(same_files(upstream, relay_log.subdir(), first=first)) == 3


_DOCUMENTS = [
    "null", "true", "0", "-1", "32767", "-32769", "65536", "4294967296", "18446744073709551615", "0.1", "-1e300",
    "1e-7", '""', '"a\\"b\\\\c\\u0000\\n/ é😀"', "[]", "{}", '[1, "a", null, [true, {"k": []}]]',
    '{"b": 1, "a": 2, "": 3, "é": {"x": [1.5, -7]}}',
]  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("servers", [version for version in MYSQL_TRIED if version != "5.6"], indirect=True)
def test_json_and_what_is_generated_from_it(pair: Pair, spark: SparkEngine, tmp_path: Path) -> None:
    upstream, target = pair
    large = json.dumps([{"n": n, "text": "x" * 300} for n in range(400)])
    made = (
        "CREATE TABLE d.{} (id INT PRIMARY KEY AUTO_INCREMENT, j JSON, v INT, k VARCHAR(30) AS"
        " (j ->> '$.key') VIRTUAL, s DOUBLE AS (v * 2) STORED, UNIQUE KEY (k), KEY (s))"
    )
    upstream.execute("CREATE DATABASE d", made.format("copied"), made.format("replicated"))
    conn = upstream.connect()
    fill = [
        *[f"('{document.translate(_ESCAPED)}', {i})" for i, document in enumerate([*_DOCUMENTS, large])],
        # Of binary strings the text is kept, and of all SQL types from servers that do not tell them.
        "(CAST(TIMESTAMP'2024-02-29 12:13:14.000001' AS JSON), 1)", "(CAST(DATE'2024-02-29' AS JSON), 2)",
        "(CAST(TIME'-12:13:14.5' AS JSON), 3)", "(CAST(12.5 AS JSON), 4)",
        "(CAST(X'00ff' AS JSON), 5)", "(NULL, 7)",
        "(JSON_OBJECT('key', 'one'), 8)", "(JSON_OBJECT('key', 'two'), 9)",
    ]  # fmt: skip
    with conn.cursor() as cursor:
        for row in fill:
            cursor.execute(f"INSERT INTO d.copied (j, v) VALUES {row}")
    cfg = replace(config(upstream, target, tmp_path), online_ddl=False)
    dump(cfg, spark)
    load(cfg, spark)
    assert contents(target, "d.copied") == contents(upstream, "d.copied")
    with running(cfg, spark) as run:
        with conn.cursor() as cursor:
            for row in fill:
                cursor.execute(f"INSERT INTO d.replicated (j, v) VALUES {row}")
        conn.close()
        upstream.execute(
            "UPDATE d.replicated SET j = JSON_SET(j, '$.key', 'three') WHERE v = 8 AND k = 'one'",
            "UPDATE d.copied SET j = JSON_ARRAY(j, v) WHERE v BETWEEN 3 AND 6",
            "DELETE FROM d.copied WHERE k = 'two'",
        )
        run.wait_synced(upstream, 120)
    for table in ("d.copied", "d.replicated"):
        assert contents(target, table) == contents(upstream, table), table
        told = "v <> 5 OR id < 10" if upstream.version != "5.7" else "v NOT BETWEEN 1 AND 5 OR id < 10"
        plain = f"SELECT id, JSON_TYPE(j), k, s FROM {table} WHERE {told} ORDER BY id"
        assert target.execute(plain) == upstream.execute(plain)


#: Kind of target → a collation of MySQL's that it lacks, and one for the same keys.
_COLLATIONS = {
    "mariadb": ("utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"),
    "tidb": ("utf8mb4_ro_0900_ai_ci", "utf8mb4_0900_ai_ci"),
}


@pytest.mark.parametrize("servers", ["8.0"], indirect=True)
def test_a_target_without_the_collation_takes_what_is_made_by_hand(
    pair: Pair, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    upstream, _ = pair
    lacked, instead = _COLLATIONS[TARGET]
    upstream.execute(
        f"CREATE DATABASE d COLLATE {lacked}",
        "CREATE TABLE d.t (k VARCHAR(20) PRIMARY KEY, v INT)",
        "INSERT INTO d.t VALUES ('a', 1)",
    )
    cfg = replace(config(upstream, target, tmp_path), online_ddl=False)
    dump(cfg, spark)
    for what, by_hand in (
        ("schema d ", "CREATE DATABASE d"),
        ("table `d`.`t` ", f"CREATE TABLE d.t (k VARCHAR(20) PRIMARY KEY, v INT) COLLATE {instead}"),
    ):
        [error] = LoadUnit(cfg, spark).run().errors
        assert "Error 1273 " in error.message
        assert f"'{lacked}'" in error.message
        assert f"Create the {what}on the target by hand" in error.workaround
        target.execute(by_hand)
    load(cfg, spark)
    with running(cfg, spark) as run:
        upstream.execute("INSERT INTO d.t VALUES ('a ', 2), ('b', 3)", "UPDATE d.t SET k = 'Á' WHERE k = 'a'")
        run.wait_synced(upstream)
    assert_equal(upstream, target, "d.t")
