"""Hazard: what every migration into TiDB does differs there: full copy, replication, DDL, merged shards, and a server
that dies in a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.planning.batch_policy import BatchKind, BatchPolicy
from pkg.config.model import SyncerConfig
from tests.harness.full_copy import contents
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.shard_ddl.support import merged, merging, shards, structure, wait_settled
from tests.integration.syncer.support import assert_equal, running, subtask
from tests.tidb.support import migrating

# Whoever needs TiDB first may wait for its build.
pytestmark = [pytest.mark.core, pytest.mark.timeout(300, func_only=True)]

_TYPES = """CREATE TABLE d.types (id INT PRIMARY KEY, i BIGINT UNSIGNED, n DECIMAL(65,30), f FLOAT, r DOUBLE, b BIT(40),
 d DATE, t TIME(6), dt DATETIME(6), ts TIMESTAMP(6) NULL, y YEAR, c CHAR(20), v VARCHAR(200) COLLATE utf8mb4_general_ci,
 x LONGTEXT, vb VARBINARY(300), l LONGBLOB, e ENUM('a','it''s','ä,b'), s SET('x','y','z'), j JSON)"""
_ROW = (
    "({}, 18446744073709551615, -12345678901234567890123456789012345.123456789012345678901234567890, 344.221435,"
    " 1.7976931348623157e308, b'1111111111111111111111111111111111111111', '9999-12-31', '-838:59:59',"
    " '9999-12-31 23:59:59.999999', '2021-10-31 00:30:00.5', 2155, 'é\\\\''', '\U0001f600\\0\\n%_`', REPEAT('ß', 500),"
    " x'00ff27225c', x'fffe00', 'it''s', 'x,z', '{{\"k\": [1, \"q\\\\\\\\\"]}}')"
)


def test_copy_and_replication_give_equal_tables(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    make_tables(mariadb_upstream)
    mariadb_upstream.execute(_TYPES, f"INSERT INTO d.types VALUES {_ROW.format(1)}, {_ROW.format(2)}")
    scramble(mariadb_upstream, 11)
    with migrating(mariadb_upstream, tidb, spark, tmp_path) as run:
        scramble(mariadb_upstream, 12)
        mariadb_upstream.execute(
            f"INSERT INTO d.types VALUES {_ROW.format(3)}",
            "UPDATE d.types SET b = b'101', s = 'y', e = NULL WHERE id = 2",
            "ALTER TABLE d.plain ADD COLUMN extra DATETIME(3), ADD INDEX (v)",
        )
        scramble(mariadb_upstream, 13)
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, tidb, *[f"d.{name}" for name in TABLES])
    assert contents(tidb, "d.types") == contents(mariadb_upstream, "d.types")


def test_merged_shards_get_a_column_once_all_have_it(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    shards(mariadb_upstream, tidb)
    lock_service = OneSource()
    with running(merging(mariadb_upstream, tidb), spark, lock_service=lock_service) as run:
        mariadb_upstream.execute(
            "INSERT INTO d.t1 VALUES (1, 1)",
            "INSERT INTO d.t2 VALUES (101, 1)",
            "ALTER TABLE d.t1 ADD COLUMN a INT, ADD INDEX (v)",
            "INSERT INTO d.t1 VALUES (2, 2, 2)",
        )
        run.wait_synced(mariadb_upstream)
        assert merged(tidb, "m.t") == [(1, 1), (101, 1)]
        mariadb_upstream.execute(
            "ALTER TABLE d.t2 ADD COLUMN a INT, ADD INDEX (v)", "INSERT INTO d.t2 VALUES (102, 2, 2)"
        )
        wait_settled(run, lock_service, mariadb_upstream)
    assert merged(tidb, "m.t") == merged(mariadb_upstream, "d.t1 d.t2")
    assert structure(tidb) == (3, ["PRIMARY", "v"])


def test_a_server_killed_in_a_batch_loses_and_doubles_nothing(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that another session has locked keeps one bucket of the batch open, while the other is in."""
    # A batch of a few rows has one bucket.
    monkeypatch.setattr(BatchPolicy, "kind", lambda *_: BatchKind.SMALL)
    make_tables(mariadb_upstream, tidb)
    for server in (mariadb_upstream, tidb):
        server.execute("INSERT INTO d.plain VALUES (1, 'old', 0)")
    blocker = tidb.connect(autocommit=False)
    with running(subtask(mariadb_upstream, tidb, syncer=SyncerConfig(worker_count=4)), spark) as run:
        with blocker.cursor() as cursor:
            cursor.execute("SELECT * FROM d.plain WHERE id = 1 FOR UPDATE")
        rows = "(1, 'a', 1), (1, 'a', 1), (2, 'b', 2)"
        mariadb_upstream.execute(
            "BEGIN", "UPDATE d.plain SET v = 'new' WHERE id = 1", f"INSERT INTO d.keyless VALUES {rows}", "COMMIT"
        )
        wait_until(lambda: len(tidb.execute("SELECT * FROM d.keyless")) == 3, "one bucket is in")
        assert tidb.execute("SELECT state, v FROM dm_meta.t_syncer_batch, d.plain") == [("open", "old")]
        tidb.kill()
        tidb.start()
        scramble(mariadb_upstream, 14, 10)
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, tidb, *[f"d.{name}" for name in TABLES])
