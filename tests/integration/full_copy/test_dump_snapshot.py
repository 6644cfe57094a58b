# ruff: noqa: E501 - statements and rows read best on one line
"""Hazard: with parallel sessions and concurrent writers, a dump mixes moments, or its position is not exact."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.dumper import DumpUnit
from dm_worker.dumper.metadata import dump_dir, read_dump_metadata
from dm_worker.engine.engine import SparkEngine
from dm_worker.meta.load_progress import begin_load, remove_progress
from pkg.rules.model import BlockAllowList, TableName
from pkg.settings.connections import DBConfig
from tests.harness.full_copy import config, contents, dump, load, snapshot_location

_ACCOUNTS = 200


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


#: Seconds between a client's transactions: hundreds a second go on, and leave the processors to the dump.
_PAUSE = 0.002


class Writers:
    """Clients that move money between tables; every transaction also counts itself, in one row or one a client.

    Clients of one row make no pauses, so that they queue for it.
    """

    def __init__(self, server: SQLServer, count: int = 3, *, one_row: bool = False) -> None:
        self._server = server
        self._one_row = one_row
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(seed,)) for seed in range(count)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, seed: int) -> None:
        rng = random.Random(seed)
        conn = self._server.connect(autocommit=False)
        with conn.cursor() as cursor:
            while not self._stop.is_set():
                source, target = (f"bank.accounts{rng.randrange(4)}" for _ in range(2))
                amount = rng.randrange(100)
                try:
                    cursor.execute("UPDATE bank.counter SET n = n + 1 WHERE id = %s", (0 if self._one_row else seed,))
                    cursor.execute(
                        f"UPDATE {source} SET money = money - %s WHERE id = %s", (amount, rng.randrange(_ACCOUNTS))
                    )
                    cursor.execute(
                        f"UPDATE {target} SET money = money + %s WHERE id = %s", (amount, rng.randrange(_ACCOUNTS))
                    )
                    conn.commit()
                except pymysql.OperationalError:
                    conn.rollback()  # a deadlock between writers
                if not self._one_row:
                    time.sleep(_PAUSE)
        conn.close()


def _open_bank(server: SQLServer) -> tuple[str, int]:
    """The tables; where the binlog stands once they are there."""
    server.execute(
        "CREATE DATABASE bank",
        "CREATE TABLE bank.counter (id INT PRIMARY KEY, n INT)",
        "INSERT INTO bank.counter VALUES (0,0),(1,0),(2,0)",
    )
    for i in range(4):
        rows = ",".join(f"({n},1000)" for n in range(_ACCOUNTS))
        server.execute(
            f"CREATE TABLE bank.accounts{i} (id INT PRIMARY KEY, money INT)",
            f"INSERT INTO bank.accounts{i} VALUES {rows}",
        )
    status = server.binlog_status()
    return str(status[0]), int(status[1])


def _commits_between(server: SQLServer, name: str, start: int, stop: int) -> int:
    events = server.execute(f"SHOW BINLOG EVENTS IN '{name}' FROM {start}")
    return sum(1 for event in events if event[2] == "Xid" and event[4] <= stop)


@pytest.mark.parametrize("consistency", ["flush", "lock"])
def test_all_sessions_see_the_moment_of_the_recorded_position(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, consistency: str
) -> None:
    for attempt in range(2):
        upstream.wipe()
        target.wipe()
        name, start = _open_bank(upstream)
        cfg = config(
            upstream, target, tmp_path / str(attempt), threads=4, rows=50, extra_args=f"--consistency {consistency}"
        )
        with Writers(upstream):
            dump(cfg, spark)
        location = snapshot_location(cfg)
        assert location.position.name == name
        load(cfg, spark)
        money = sum(int(target.execute(f"SELECT SUM(money) FROM bank.accounts{i}")[0][0]) for i in range(4))
        assert money == 4 * _ACCOUNTS * 1000
        commits = _commits_between(upstream, name, start, location.position.pos)
        assert target.execute("SELECT SUM(n) FROM bank.counter")[0][0] == commits
        assert location.gtid_set


def test_writers_that_queue_for_one_row_do_not_stop_a_dump(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    # FLUSH TABLES WITH READ LOCK waits for the writers behind, who wait for the one ahead, who waits for the lock.
    name, start = _open_bank(upstream)
    cfg = config(upstream, target, tmp_path)
    with Writers(upstream, one_row=True):
        dump(cfg, spark)
    load(cfg, spark)
    commits = _commits_between(upstream, name, start, snapshot_location(cfg).position.pos)
    assert target.execute("SELECT SUM(n) FROM bank.counter")[0][0] == commits


def test_without_a_lock_the_smear_is_bounded_by_two_positions(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    name, start = _open_bank(mariadb_upstream)
    cfg = config(mariadb_upstream, target, tmp_path, extra_args="--no-locks")
    with Writers(mariadb_upstream):
        dump(cfg, spark)
    metadata = read_dump_metadata(dump_dir(cfg))
    assert metadata.location is not None
    assert metadata.exit_location is not None
    load(cfg, spark)
    counted = target.execute("SELECT SUM(n) FROM bank.counter")[0][0]
    low = _commits_between(mariadb_upstream, name, start, metadata.location.position.pos)
    high = _commits_between(mariadb_upstream, name, start, metadata.exit_location.position.pos)
    assert low <= counted <= high


_KEYED = {
    "uneven": ("id BIGINT PRIMARY KEY, v INT", "INSERT IGNORE INTO k.t VALUES (POW({n}, 4), {n})", 4000),
    "negative": ("id INT PRIMARY KEY, v INT", "INSERT INTO k.t VALUES ({n} * 7 - 9000, {n})", 4000),
    "composite": ("a INT, b VARCHAR(9), v INT, PRIMARY KEY (a, b)", "INSERT INTO k.t VALUES ({n} MOD 3, CONCAT('k', {n}), {n})", 4000),
    "text": ("a VARCHAR(30) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT", "INSERT INTO k.t VALUES (CONCAT(CHAR(65 + {n} MOD 50), '\\'', {n}), {n})", 4000),
    "bytes": ("a VARBINARY(30) PRIMARY KEY, v INT", "INSERT INTO k.t VALUES (UNHEX(MD5({n})), {n})", 4000),
    "time": ("a DATETIME(3) NOT NULL, v INT NOT NULL, UNIQUE KEY (a, v)", "INSERT INTO k.t VALUES ('2020-01-01' + INTERVAL {n} HOUR, {n})", 4000),
    "moment": ("a TIMESTAMP NOT NULL, v INT NOT NULL, UNIQUE KEY (a, v)", "INSERT INTO k.t VALUES ('2021-10-01' + INTERVAL {n} HOUR, {n})", 4000),
    "nullable": ("a INT, v INT, UNIQUE KEY (a)", "INSERT INTO k.t VALUES (IF({n} MOD 2, {n}, NULL), {n})", 4000),
    "prefix": ("a VARCHAR(50), v INT, PRIMARY KEY (a(4))", "INSERT INTO k.t VALUES (CONCAT({n}, 'x'), {n})", 4000),
    "member": ("a ENUM('z','y','b') , v INT, PRIMARY KEY (a, v)", "INSERT INTO k.t VALUES (1 + {n} MOD 3, {n})", 4000),
    "none": ("a INT, v INT", "INSERT INTO k.t VALUES ({n} MOD 5, 1)", 4000),
}  # fmt: skip
_SPLITTABLE = set(_KEYED) - {"nullable", "prefix", "member", "none"}


@pytest.mark.parametrize("shape", list(_KEYED))
def test_chunks_cover_every_row_once_whatever_the_key(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, shape: str
) -> None:
    columns, insert, count = _KEYED[shape]
    values = insert.split("VALUES ")[1]
    head = insert.split(" VALUES ")[0]
    upstream.execute(
        "CREATE DATABASE k",
        f"CREATE TABLE k.t ({columns})",
        *(
            f"{head} VALUES " + ",".join(values.format(n=n) for n in range(start, start + 1000))
            for start in range(0, count, 1000)
        ),
        "ANALYZE TABLE k.t",
    )
    cfg = config(upstream, target, tmp_path, rows=300)
    unit = dump(cfg, spark)
    files = sorted(path.name for path in dump_dir(cfg).glob("k.t.0*.sql"))
    assert (len(files) >= 5) is (shape in _SPLITTABLE), files
    assert unit.status().finishedRows == upstream.execute("SELECT COUNT(*) FROM k.t")[0][0]
    load(cfg, spark)
    assert contents(target, "k.t") == contents(upstream, "k.t")


@pytest.fixture
def plain_user(upstream: SQLServer) -> Iterator[DBConfig]:
    """A user that may read and replicate, but not lock the whole server."""
    upstream.execute(
        "CREATE USER 'plain'@'127.0.0.1' IDENTIFIED BY 'secret-word'",
        "GRANT SELECT, LOCK TABLES, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO 'plain'@'127.0.0.1'",
    )
    yield DBConfig("127.0.0.1", upstream.port, "plain", "secret-word")
    upstream.execute("DROP USER 'plain'@'127.0.0.1'")


def test_a_user_who_may_not_lock_the_server_locks_the_tables(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, plain_user: DBConfig
) -> None:
    _open_bank(upstream)
    dump(config(upstream, target, tmp_path, from_=plain_user), spark)
    refused = DumpUnit(
        config(upstream, target, tmp_path / "2", from_=plain_user, extra_args="--consistency flush"), spark
    ).run()
    assert [error.code for error in refused.errors] == [32004]
    assert "RELOAD" in str(refused.errors[0])
    assert "secret-word" not in str(refused.errors[0])


def test_a_copy_that_nothing_follows_needs_no_place_in_the_binlog(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, plain_user: DBConfig
) -> None:
    _open_bank(upstream)
    upstream.execute("REVOKE REPLICATION CLIENT ON *.* FROM 'plain'@'127.0.0.1'")
    for number, extra_args in enumerate(("", "--consistency none")):
        cfg = config(upstream, target, tmp_path / f"f{number}", mode="full", from_=plain_user, extra_args=extra_args)
        dump(cfg, spark)
        assert read_dump_metadata(dump_dir(cfg)).location is None
        cfg = config(upstream, target, tmp_path / f"d{number}", mode="dump", from_=plain_user, extra_args=extra_args)
        refused = DumpUnit(cfg, spark).run()
        assert "SHOW MASTER STATUS" in str(refused.errors[0])


def test_a_user_who_may_not_read_the_binlog_cannot_prove_that_no_ddl_mixed_the_tables(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, plain_user: DBConfig,
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    _open_bank(upstream)
    upstream.execute("REVOKE REPLICATION SLAVE ON *.* FROM 'plain'@'127.0.0.1'")
    plan = DumpUnit._plan

    def planned(unit: DumpUnit, *args: Any) -> Any:
        result = plan(unit, *args)
        upstream.execute("INSERT INTO bank.counter VALUES (9, 9)", "DELETE FROM bank.counter WHERE id = 9")
        return result

    monkeypatch.setattr(DumpUnit, "_plan", planned)
    refused = DumpUnit(config(upstream, target, tmp_path, from_=plain_user), spark).run()
    assert [error.code for error in refused.errors] == [36053]
    assert "REPLICATION SLAVE" in refused.errors[0].workaround
    dump(config(upstream, target, tmp_path / "full", mode="full", from_=plain_user), spark)
    assert "make sure that no DDL ran" in caplog.text


def test_the_upstream_is_unlocked_after_a_dump_that_fails(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    upstream.execute("CREATE DATABASE x", "CREATE TABLE x.t (id INT)", "INSERT INTO x.t VALUES (1)")
    outcome = DumpUnit(config(upstream, target, tmp_path, extra_args="--where 'no_such_column = 1'"), spark).run()
    assert len(outcome.errors) == 1
    assert "no_such_column" in str(outcome.errors[0])
    upstream.execute("INSERT INTO x.t VALUES (2)")


def test_a_dump_only_takes_what_filter_and_condition_let_through(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        mariadb_upstream.execute(
            f"CREATE DATABASE IF NOT EXISTS {name}", f"CREATE TABLE {name}.t (id INT)", f"CREATE TABLE {name}.u (id INT)",
            f"INSERT INTO {name}.t VALUES (1),(2),(3)", f"CREATE VIEW {name}.v AS SELECT * FROM {name}.t",
        )  # fmt: skip
    cfg = config(mariadb_upstream, target, tmp_path, extra_args="-f '*.t,!b.*' --where 'id > 1'")
    dump(cfg, spark)
    names = sorted(path.name for path in dump_dir(cfg).glob("*.sql"))
    assert names == [
        "a-schema-create.sql", "a.t-schema.sql", "a.t.000000000.sql", "c-schema-create.sql", "c.t-schema.sql", "c.t.000000000.sql",
    ]  # fmt: skip
    load(cfg, spark)
    assert [row[0] for row in target.execute("SELECT id FROM a.t")] == [2, 3]


def test_a_stopped_dump_starts_again_and_completes(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (id INT PRIMARY KEY AUTO_INCREMENT, c CHAR(200))")
    mariadb_upstream.execute("INSERT INTO s.t (c) SELECT REPEAT(seq, 20) FROM s.seq_1_to_60000")
    slow = config(mariadb_upstream, target, tmp_path, extra_args="--where 'SLEEP(0.001) = 0'")
    unit = DumpUnit(slow, spark)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(unit.run()))
    thread.start()
    while unit.status().finishedRows == 0:
        assert thread.is_alive(), outcomes
        time.sleep(0.02)
    unit.stop(graceful=True)
    thread.join(120)
    assert outcomes[0].canceled
    assert not outcomes[0].errors
    assert not unit.is_finished()
    cfg = config(mariadb_upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    assert contents(target, "s.t") == contents(mariadb_upstream, "s.t")


_READS = (
    "SELECT ID FROM information_schema.PROCESSLIST"
    " WHERE INFO LIKE '%`first`%GET_LOCK%' AND STATE = 'User lock' AND ID <> CONNECTION_ID()"
)
_CHANGES = {
    "an instant change, which the server reads through": "ALTER TABLE s.z ADD COLUMN v INT NOT NULL DEFAULT 7",
    "a change that rewrites the rows": "ALTER TABLE s.z MODIFY w INT",
    "a table that vanishes": "DROP TABLE s.z",
}


@pytest.mark.parametrize("change", list(_CHANGES))
def test_a_table_that_changes_after_the_snapshot_is_dumped_in_its_new_form(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, change: str
) -> None:
    # The first table's rows keep the only session waiting while the other one, not read yet, changes.
    rows = ",".join(f"({n},'{'x' * 100}')" for n in range(2000))
    upstream.execute(
        "CREATE DATABASE s", "CREATE TABLE s.first (id INT, t CHAR(100))", "CREATE TABLE s.z (id INT, w VARCHAR(9))",
        f"INSERT INTO s.first VALUES {rows}", "INSERT INTO s.z VALUES (1,1),(2,2)", "ANALYZE TABLE s.first, s.z",
    )  # fmt: skip
    where = '--where \'GET_LOCK("gate", 600) AND RELEASE_LOCK("gate")\''
    cfg = config(upstream, target, tmp_path, threads=1, extra_args=where)
    unit = DumpUnit(cfg, spark)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(unit.run()))
    with closing(upstream.connect()) as gate:
        with gate.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('gate', 60)")
        thread.start()
        while not upstream.execute(_READS):
            assert thread.is_alive(), outcomes
            time.sleep(0.02)
        upstream.execute(_CHANGES[change])
        assert upstream.execute(_READS), "the dump was faster than the change"
        changed = upstream.binlog_status()[1]
    thread.join()
    assert outcomes[0].finished, [str(error) for error in outcomes[0].errors]
    assert snapshot_location(cfg).position.pos >= changed
    load(cfg, spark)
    for (table,) in upstream.execute("SHOW TABLES FROM s"):
        assert contents(target, f"s.{table}") == contents(upstream, f"s.{table}")
    assert target.execute("SHOW TABLES FROM s") == upstream.execute("SHOW TABLES FROM s")


def test_an_upstream_without_binlog_is_refused_before_its_rows_are_read(
    new_mariadb: Callable[..., MariaDBServer], target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    upstream = new_mariadb(binlog=False)
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (id INT)", "INSERT INTO s.t VALUES (1)")
    unit = DumpUnit(config(upstream, target, tmp_path), spark)
    assert [error.code for error in unit.run().errors] == [11125]
    assert unit.status().totalTables == 0
    full = config(upstream, target, tmp_path, mode="full")
    dump(full, spark)
    load(full, spark)
    assert contents(target, "s.t") == [(1,)]


def test_two_sources_of_a_task_never_share_a_folder(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (id INT)", "INSERT INTO s.t VALUES (1)")
    first = config(mariadb_upstream, target, tmp_path)
    second = config(mariadb_upstream, target, tmp_path, source_id="source-2")
    dump(first, spark)
    conn = target.connect()
    begin_load(conn, first, "a dump", {}, None, None)
    files = sorted(path.name for path in dump_dir(first).iterdir())
    outcome = DumpUnit(second, spark).run()
    assert [error.code for error in outcome.errors] == [32001]
    assert "source-1" in str(outcome.errors[0])
    assert sorted(path.name for path in dump_dir(first).iterdir()) == files
    # A load that is done, or was never begun, waits for nothing in the folder of a worker that is gone.
    remove_progress(first)
    dump(second, spark)
    load(second, spark)
    assert contents(target, "s.t") == [(1,)]


def test_history_tables_and_sequences_are_not_left_out_silently(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE a",
        "CREATE TABLE a.t (id INT PRIMARY KEY)",
        "CREATE TABLE a.h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE SEQUENCE a.s",
        "CREATE VIEW a.v AS SELECT * FROM a.t",
    )
    cfg = config(mariadb_upstream, target, tmp_path)
    (error,) = DumpUnit(cfg, spark).run().errors
    assert "system-versioned table `a`.`h`, sequence `a`.`s`" in error.message
    assert "ignore-tables" in error.workaround
    rules = BlockAllowList(ignore_tables=(TableName("a", "h"), TableName("a", "s")))
    dump(replace(cfg, block_allow_list=rules), spark)


def test_a_table_that_the_upstream_cannot_open_is_named(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    # New partitions have the unique keys in another order than old ones: MariaDB's own defect.
    mariadb_upstream.execute(
        "CREATE DATABASE a", "CREATE TABLE a.other (id INT PRIMARY KEY)",
        "CREATE TABLE a.t (id INT PRIMARY KEY, c INT NOT NULL, n INT, UNIQUE (n, id)) PARTITION BY RANGE (id)"
        " (PARTITION p VALUES LESS THAN (4), PARTITION q VALUES LESS THAN MAXVALUE)",
        "ALTER TABLE a.t ADD UNIQUE (c, id)",
        "ALTER TABLE a.t REORGANIZE PARTITION q INTO (PARTITION q VALUES LESS THAN (9), PARTITION r VALUES LESS THAN MAXVALUE)",
    )  # fmt: skip
    (error,) = DumpUnit(config(mariadb_upstream, target, tmp_path), spark).run().errors
    assert "on `a`.`t`" in error.message
    assert "CHECK TABLE" in error.workaround
