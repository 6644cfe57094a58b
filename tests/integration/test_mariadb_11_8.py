"""Rows vanish silently: MariaDB 11.8 does not write into the events of a transaction where these end.

It is upstream, read directly and through the relay, and target; its own tables are the oracle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, up, wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.planning.batch_policy import BatchKind, BatchLimits, BatchPolicy, Budget
from pkg.config.model import SyncerConfig
from pkg.errors import DMError
from pkg.mysql.connection import connect
from pkg.settings.connections import DBConfig
from tests.harness.full_copy import config, dump, load
from tests.harness.running_relay import binlog_end
from tests.integration.relay_routes import read_through
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal, running, subtask

Pair = tuple[MariaDBServer, MariaDBServer]
ALL = [f"d.{name}" for name in TABLES]
#: The least that the server takes: a larger transaction's cache becomes a binlog file of its own.
OWN_FILE = 10 << 20

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    upstream = MariaDBServer(
        version="11.8",
        gtid=True,
        extra=[f"--binlog-large-commit-threshold={OWN_FILE}", "--log-bin-compress-min-len=10"],
    )
    target = MariaDBServer(version="11.8", binlog=False)
    with up(upstream, target):
        yield upstream, target


@pytest.fixture
def pair(servers: Pair) -> Pair:
    for server in servers:
        server.wipe()
    servers[0].execute("FLUSH BINARY LOGS")
    return servers


def odd_work(upstream: MariaDBServer, number: int) -> None:
    """What leaves statements, two caches and transaction statements in the binlog."""
    base = number * 1000
    upstream.execute(
        f"CREATE TABLE d.made{number} (PRIMARY KEY (id)) SELECT id, v FROM d.plain",
        f"CREATE TABLE d.engine{number} (id INT PRIMARY KEY, v INT) ENGINE=MyISAM",
        f"INSERT INTO d.engine{number} VALUES (1, 1), (2, 2)",
        "BEGIN",
        f"INSERT INTO d.plain VALUES ({base + 100}, 'before', 1)",
        "SAVEPOINT a",
        f"INSERT INTO d.plain VALUES ({base + 101}, 'undone', 1)",
        f"INSERT INTO d.engine{number} VALUES (3, 3)",
        f"UPDATE d.plain SET v = 'undone' WHERE id = {base + 100}",
        "ROLLBACK TO a",
        f"INSERT INTO d.plain VALUES ({base + 102}, 'after', 1)",
        "COMMIT",
        "BEGIN",
        f"INSERT INTO d.plain VALUES ({base + 103}, 'gone', 1)",
        f"UPDATE d.engine{number} SET v = v + 1",
        "ROLLBACK",
        "CREATE TEMPORARY TABLE d.temporary SELECT * FROM d.plain",
        f"REPLACE INTO d.text_key SELECT CONCAT('t', id + {base}), v, n FROM d.temporary",
        "DROP TEMPORARY TABLE d.temporary",
        f"XA START 'x{number}'",
        f"INSERT INTO d.plain VALUES ({base + 104}, 'prepared', 1)",
        f"XA END 'x{number}'",
        f"XA PREPARE 'x{number}'",
    )
    upstream.execute(f"INSERT INTO d.plain VALUES ({base + 105}, 'between', 1)", f"XA COMMIT 'x{number}'")
    upstream.execute(
        "SET GLOBAL log_bin_compress = ON",
        f"INSERT INTO d.keyless VALUES ({base + 1}, REPEAT('compressed', 10), 1)",
        f"CREATE TABLE d.compressed{number} (PRIMARY KEY (id)) SELECT id, v FROM d.plain",
        "SET GLOBAL log_bin_compress = OFF",
        f"ALTER TABLE d.made{number} ADD COLUMN w DATETIME(3) DEFAULT '2020-01-02 03:04:05.678', ADD INDEX (v)",
    )


@pytest.mark.parametrize("gtid", [False, True])
@pytest.mark.parametrize("route", ["direct", "relay"])
def test_a_copy_and_its_replication_are_equal_through_kills_and_restarts(
    pair: Pair, spark: SparkEngine, tmp_path: Path, route: str, gtid: bool
) -> None:
    upstream, target = pair
    make_tables(upstream)
    scramble(upstream, 51)
    cfg = replace(config(upstream, target, tmp_path), enable_gtid=gtid, online_ddl=False)
    with read_through(route, cfg, upstream, tmp_path / "relay") as relay:
        scramble(upstream, 52, 10)
        dump(cfg, spark)
        scramble(upstream, 53)
        odd_work(upstream, 1)
        load(cfg, spark)
        with running(cfg, spark, relay=relay) as run:
            run.wait_synced(upstream)
            assert_equal(upstream, target, *ALL, "d.made1", "d.engine1", "d.compressed1")
            assert run.unit.status().binlogType == ("local" if relay else "remote")
            scramble(upstream, 54)
            odd_work(upstream, 2)
            upstream.kill()
            upstream.start()
            scramble(upstream, 55)
            run.wait_synced(upstream)
            scramble(upstream, 56)
            run.stop(graceful=False)
        odd_work(upstream, 3)
        with running(cfg, spark, relay=relay) as run:
            scramble(upstream, 57)
            run.wait_synced(upstream)
    made = [f"d.{name}{number}" for name in ("made", "engine", "compressed") for number in (1, 2, 3)]
    assert_equal(upstream, target, *ALL, *made)


@pytest.mark.parametrize("route", ["direct", "relay"])
def test_a_large_transaction_is_cut_inside_and_stopped_there(
    pair: Pair, spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    """Of a table without a key too: a row that is read again and counted wrongly is doubled or missing."""
    monkeypatch.setattr(Budget, "limits", lambda self, parallel: BatchLimits(20_000, 50, 4_000))
    chance = random.Random(11)
    monkeypatch.setattr(BatchPolicy, "kind", lambda *_: chance.choice(list(BatchKind)))
    upstream, target = pair
    make_tables(upstream, target)
    cfg = subtask(upstream, target, syncer=SyncerConfig(worker_count=5))
    values = [f"({i}, '{'x' * 90}', {i})" for i in range(1, 1501)]
    for table in ("plain", "keyless"):
        statements = [f"INSERT INTO d.{table} VALUES {','.join(values[i : i + 30])}" for i in range(0, 1500, 30)]
        upstream.execute("BEGIN", *statements, f"UPDATE d.{table} SET n = n + 1 WHERE id % 3 = 0", "COMMIT")
    with read_through(route, cfg, upstream, tmp_path / "relay") as relay:
        for _ in range(2):
            before = batch(target)
            with running(cfg, spark, relay=relay) as run:
                wait_until(partial(begun, target, before + 3), "a batch inside the transaction", WAIT_TIMEOUT)
                run.stop(graceful=False)
        with running(cfg, spark, relay=relay) as run:
            run.wait_synced(upstream)
    assert_equal(upstream, target, "d.plain", "d.keyless")


def batch(target: MariaDBServer) -> int:
    """The number of the newest batch; 0 before the first."""
    known = target.execute("SELECT 1 FROM information_schema.TABLES WHERE TABLE_NAME = 't_syncer_batch'")
    return int(target.execute("SELECT COALESCE(MAX(batch), 0) FROM dm_meta.t_syncer_batch")[0][0]) if known else 0


def begun(target: MariaDBServer, number: int) -> bool:
    return batch(target) >= number


@pytest.mark.parametrize("gtid", [False, True])
@pytest.mark.parametrize("route", ["direct", "relay"])
def test_a_transaction_that_is_a_binlog_file_of_its_own(
    pair: Pair, spark: SparkEngine, tmp_path: Path, route: str, gtid: bool
) -> None:
    """Its events were written after the head of a file that was none yet, and are never moved."""
    upstream, target = pair
    make_tables(upstream, target)
    cfg = subtask(upstream, target, enable_gtid=gtid)
    with read_through(route, cfg, upstream, tmp_path / "relay") as relay, running(cfg, spark, relay=relay) as run:
        scramble(upstream, 61, 10)
        before = binlog_end(upstream).name
        upstream.execute(
            "CREATE TABLE d.large (id INT PRIMARY KEY, v LONGTEXT)",
            f"INSERT INTO d.large SELECT seq, REPEAT(CHAR(65 + seq), {OWN_FILE // 8}) FROM d.seq_1_to_12",
            "CREATE TABLE d.copied (PRIMARY KEY (id)) SELECT * FROM d.large",
        )
        assert binlog_end(upstream).name > before
        scramble(upstream, 62, 10)
        run.wait_synced(upstream)
    assert_equal(upstream, target, *ALL, "d.large", "d.copied")


_MODERN = {
    "vectors": "(id INT PRIMARY KEY, v VECTOR(3) NOT NULL, t VARCHAR(40), VECTOR INDEX (v) DISTANCE=cosine)",
    "addresses": "(id UUID PRIMARY KEY DEFAULT UUID_v7(), a INET4, b INET6, j JSON, t TIMESTAMP DEFAULT '2090-01-01')",
    "words": "(w VARCHAR(40) PRIMARY KEY, n INT, INDEX (n DESC) IGNORED)",
    "hidden": "(id INT AUTO_INCREMENT PRIMARY KEY, h INT INVISIBLE DEFAULT 3, c TEXT COMPRESSED)",
    # The server leaves what it computes, and its hashes of unique values, out of updates and deletes.
    "computed": (
        "(v INT AS (n + 1) VIRTUAL, id INT PRIMARY KEY, n INT, s INT AS (n * 2) STORED UNIQUE, t TEXT UNIQUE,"
        " w VARCHAR(20))"
    ),
    "computed_keyless": "(n INT, v VARCHAR(30) AS (CONCAT(w, n)) VIRTUAL, w VARCHAR(20))",
}


def _write_modern(upstream: MariaDBServer, turn: int) -> None:
    rows = range(turn * 100, turn * 100 + 15)
    upstream.execute(
        *[f"INSERT INTO d.vectors (id, v, t) VALUES ({n}, VEC_FromText('[{n}.5, -1e-7, 3]'), 'v{n}')" for n in rows],
        f"UPDATE d.vectors SET v = VEC_FromText('[1,2,3]') WHERE id = {turn * 100 + 1}",
        f"DELETE FROM d.vectors WHERE id = {turn * 100 + 2}",
        *[f"INSERT INTO d.addresses (a, b, j) VALUES ('10.0.{turn}.{n % 90}', '::{n}', '[{n}.50]')" for n in rows],
        "UPDATE d.addresses SET j = JSON_SET(j, '$[0]', 1) LIMIT 2",
        *[f"INSERT INTO d.words (w, n) VALUES ('wörd{n}', {n}), ('WORD {n} ', {n}), ('😀{n}', {n})" for n in rows],
        f"UPDATE d.words SET n = 0 WHERE w = 'word{turn * 100 + 3}'",
        *[f"INSERT INTO d.hidden (c) VALUES (REPEAT('compressed {n}', 30))" for n in rows],
        f"UPDATE d.hidden SET h = {turn} WHERE id % 3 = 1",
        *[f"INSERT INTO d.computed (id, n, t, w) VALUES ({n}, {n}, 'text {n}', NULL)" for n in rows],
        f"UPDATE d.computed SET w = 'changed', n = -n WHERE id > {turn * 100 + 9}",
        f"DELETE FROM d.computed WHERE v = {turn * 100 + 4}",
        # A value moves from one row to another.
        f"UPDATE d.computed SET t = NULL, n = -1000 WHERE id = {turn * 100 + 5}",
        f"UPDATE d.computed SET t = 'text {turn * 100 + 5}', n = {turn * 100 + 5} WHERE id = {turn * 100 + 6}",
        f"UPDATE d.computed SET n = {turn * 100 + 6} WHERE id = {turn * 100 + 5}",
        *[f"INSERT INTO d.computed_keyless (n, w) VALUES ({n}, 'a'), ({n}, 'a')" for n in rows],
        f"UPDATE d.computed_keyless SET w = 'b' WHERE n = {turn * 100 + 3} LIMIT 1",
        f"DELETE FROM d.computed_keyless WHERE v = 'a{turn * 100 + 4}' LIMIT 1",
    )


def account(server: MariaDBServer, plugin: str) -> DBConfig:
    """A new account of ``plugin``, which may do everything."""
    server.execute(
        f"INSTALL PLUGIN IF NOT EXISTS {plugin} SONAME 'auth_{plugin}'",
        f"CREATE OR REPLACE USER {plugin}@'%' IDENTIFIED VIA {plugin} USING PASSWORD('a Pässwörd €')",
        f"GRANT ALL ON *.* TO {plugin}@'%'",
    )
    return replace(server.db_config, user=plugin, password="a Pässwörd €")


@pytest.mark.parametrize("plugin", ["parsec", "ed25519"])
def test_an_account_of_a_newer_plugin_must_prove_its_password(pair: Pair, plugin: str) -> None:
    cfg = account(pair[0], plugin)
    conn = connect(cfg, scope="upstream", charset="utf8mb4")
    with conn, conn.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        assert cursor.fetchone() == (f"{plugin}@%",)
    with pytest.raises(DMError, match=r"Error 1045 .*Access denied") as refused:
        connect(replace(cfg, password="another"), scope="upstream")
    assert not refused.value.retryable


def test_what_older_servers_lack(pair: Pair, spark: SparkEngine, tmp_path: Path) -> None:
    upstream, target = pair
    upstream.execute("CREATE DATABASE d", *[f"CREATE TABLE d.{name} {body}" for name, body in _MODERN.items()])
    assert upstream.execute("SELECT @@collation_server") == [("utf8mb4_uca1400_ai_ci",)]
    _write_modern(upstream, 1)
    # The plugins' own accounts: neither is the driver's own business.
    cfg = replace(
        config(upstream, target, tmp_path),
        online_ddl=False, from_=account(upstream, "parsec"), to=account(target, "ed25519"),
    )  # fmt: skip
    dump(cfg, spark)
    _write_modern(upstream, 2)
    load(cfg, spark)
    with running(cfg, spark) as run:
        upstream.execute(
            "SET GLOBAL binlog_row_image = FULL_NODUP, GLOBAL binlog_row_metadata = FULL",
            "ALTER TABLE d.vectors ADD COLUMN w VECTOR(2) DEFAULT NULL, ALGORITHM=INSTANT",
            "CREATE OR REPLACE TABLE d.made (id UUID PRIMARY KEY, v VECTOR(3)) SELECT id FROM d.addresses",
            "ALTER TABLE d.words ALTER INDEX n NOT IGNORED, ADD COLUMN u UUID DEFAULT NULL",
        )
        _write_modern(upstream, 3)
        run.wait_synced(upstream)
        upstream.execute("SET GLOBAL binlog_row_metadata = NO_LOG, GLOBAL binlog_row_image = FULL")
    for table, shown in (
        ("vectors", "id, HEX(v), t, w"), ("addresses", "*"), ("words", "*"), ("hidden", "id, h, c"), ("made", "id"),
        ("computed", "*"), ("computed_keyless", "*"),
    ):  # fmt: skip
        rows = f"SELECT {shown} FROM d.{table} ORDER BY 1"
        assert sorted(target.execute(rows), key=repr) == sorted(upstream.execute(rows), key=repr), table
