"""Hazard: a run that dies between two durable steps loses or doubles rows of merged shards, or runs a DDL twice."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.planning.batch_policy import BatchLimits, Budget
from tests.integration.syncer.killed_runs import Faults, kill_again_and_again
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.shard_ddl.support import (
    merged,
    merging,
)
from tests.integration.syncer.support import location

pytestmark = pytest.mark.timeout(300)

#: What upstreams do before anything is replicated: three groups, one of tables without a key.
TABLES = [
    *(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT, w INT)" for name in ("t1", "t2", "u1", "u2")),
    *(f"CREATE TABLE d.{name} (v INT, w INT)" for name in ("k1", "k2")),
]

#: DDL of all groups interleaved, new, renamed and dropped shards in the middle of sequences, equal texts in a row.
SCRIPT = [
    "INSERT INTO d.t1 VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)",
    "INSERT INTO d.t2 VALUES (101, 1, 1), (102, 2, 2)",
    "INSERT INTO d.k1 VALUES (1, 1), (1, 1), (2, 2)",
    "ALTER TABLE d.t1 ADD COLUMN a INT",
    "BEGIN",
    "INSERT INTO d.t1 VALUES (4, 4, 4, 4)",
    "INSERT INTO d.t2 VALUES (103, 3, 3)",
    "INSERT INTO d.u1 VALUES (1, 1, 1)",
    "INSERT INTO d.k2 VALUES (1, 1)",
    "COMMIT",
    "UPDATE d.t1 SET a = 11 WHERE id = 1",
    "ALTER TABLE d.t1 ADD INDEX (v)",
    "INSERT INTO d.t1 VALUES (5, 5, 5, 5)",
    "ALTER TABLE d.u1 DROP COLUMN v",
    "ALTER TABLE d.k2 ADD a INT first",
    "INSERT INTO d.k2 VALUES (7, 1, 1), (7, 1, 1)",
    "INSERT INTO d.k1 VALUES (1, 1)",
    # One transaction: the statement, then its rows.
    "CREATE TABLE d.t3 (PRIMARY KEY (id), KEY (v)) AS SELECT id + 200 AS id, v, w, a FROM d.t1",
    "UPDATE d.t3 SET w = 7 WHERE id = 201",
    "INSERT INTO d.u1 VALUES (2, 20)",
    "INSERT INTO d.u2 VALUES (101, 1, 1)",
    "DELETE FROM d.t1 WHERE id = 2",
    "alter table d.t2  add column a int /* another spelling */",
    "INSERT INTO d.t2 VALUES (104, 4, 4, 4)",
    "UPDATE d.t1 SET w = w + 1",
    # Longer than a batch of the test may be.
    "BEGIN",
    *(f"INSERT INTO d.t1 VALUES ({1000 + i}, {i}, {i}, {i})" for i in range(8)),
    *(f"INSERT INTO d.k1 VALUES ({i}, {i})" for i in range(8)),
    *(f"INSERT INTO d.k2 VALUES ({i}, {i}, {i})" for i in range(8)),
    "COMMIT",
    "RENAME TABLE d.t1 TO d.t9",
    "INSERT INTO d.t9 VALUES (6, 6, 6, 6)",
    "UPDATE d.k2 SET w = 5 WHERE a = 7 LIMIT 1",
    "ALTER TABLE d.k1 ADD COLUMN a INT FIRST",
    "INSERT INTO d.k1 VALUES (8, 1, 1)",
    "ALTER TABLE d.u2 DROP COLUMN v",
    "INSERT INTO d.u2 VALUES (102, 2)",
    "UPDATE d.u1 SET w = 21 WHERE id = 2",
    "ALTER TABLE d.t2 ADD INDEX (v)",
    "INSERT INTO d.t2 VALUES (105, 5, 5, 5)",
    "ALTER TABLE d.t9 MODIFY v BIGINT",
    "INSERT INTO d.t9 VALUES (7, 5000000000, 7, 7)",
    "ALTER TABLE d.t9 ADD COLUMN b INT",
    "UPDATE d.t9 SET b = 1",
    "ALTER TABLE d.t9 DROP COLUMN b",
    "ALTER TABLE d.t9 ADD COLUMN b INT",
    "UPDATE d.t9 SET b = 2 WHERE id < 5",
    "DELETE FROM d.t3",
    "DROP TABLE d.t3",
    "ALTER TABLE d.t2 modify column `v` bigint",
    "INSERT INTO d.t2 VALUES (106, 6000000000, 6, 6)",
    "ALTER TABLE d.t2 ADD COLUMN b INT",
    "alter table d.t2 drop `b`",
    "UPDATE d.t2 SET a = 9 WHERE id = 106",
    "ALTER TABLE d.t2 ADD COLUMN b INT",
    "INSERT INTO d.t2 VALUES (107, 7, 7, 7, 7)",
    "INSERT INTO d.k2 VALUES (9, 9, 9)",
]

#: How often each of them is executed at the target, in the order of each group.
EXECUTED = {
    "t": [
        "ADD COLUMN `a` INT",
        "ADD INDEX(`v`)",
        "MODIFY COLUMN `v` BIGINT",
        "ADD COLUMN `b` INT",
        "DROP COLUMN `b`",
        "ADD COLUMN `b` INT",
    ],
    "u": ["DROP COLUMN `v`"],
    "k": ["ADD COLUMN `a` INT FIRST"],
}


@pytest.mark.parametrize("gtid", [False, True])
def test_runs_killed_between_any_two_durable_steps(
    mariadb_upstream: MariaDBServer,
    target: MariaDBServer,
    spark: SparkEngine,
    gtid: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mariadb_upstream.execute("CREATE DATABASE d", *TABLES)
    target.execute(
        "CREATE DATABASE m",
        *(f"CREATE TABLE m.{name} (id INT PRIMARY KEY, v INT, w INT)" for name in "tu"),
        "CREATE TABLE m.k (v INT, w INT)",
    )
    if gtid:
        monkeypatch.setattr(Budget, "limits", lambda self, parallel: BatchLimits(250, 3, 100))
    cfg = merging(mariadb_upstream, target, enable_gtid=gtid)
    mariadb_upstream.execute(*SCRIPT)
    lock_service = OneSource()
    end = location(mariadb_upstream).position
    kills = kill_again_and_again(cfg, spark, lock_service, Faults(monkeypatch, seed=5), end)
    assert kills > 5
    assert merged(target, "m.t") == merged(mariadb_upstream, "d.t9 d.t2")
    assert merged(target, "m.u") == merged(mariadb_upstream, "d.u1 d.u2")
    assert merged(target, "m.k") == merged(mariadb_upstream, "d.k1 d.k2")
    executed = {f"m.{name}": [text for (text,) in lock_service.granted if f"`m`.`{name}`" in text] for name in "tuk"}
    assert executed == {f"m.{name}": [f"ALTER TABLE `m`.`{name}` {text}" for text in EXECUTED[name]] for name in "tuk"}
    assert [row[2] for row in target.execute("SHOW INDEX FROM m.t")] == ["PRIMARY", "v"]
    assert target.execute("SELECT COUNT(*) FROM dm_meta.t_syncer_sharding_meta WHERE is_global = 0") == [(3,)]
