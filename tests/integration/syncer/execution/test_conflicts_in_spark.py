"""Hazard: the jobs of a batch lose rows of a conflict set, or bring them to different buckets."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.planning.batch_policy import BatchKind, BatchPolicy, Budget
from tests.integration.syncer.conflict_workload import FAMILY, SEED, Table, family_change, transactions
from tests.integration.syncer.replay import Pieces
from tests.integration.syncer.support import assert_equal, running, subtask


@pytest.mark.parametrize("kind", list(BatchKind))
def test_conflicts_end_right_in_batches_of_each_kind(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, kind: BatchKind
) -> None:
    monkeypatch.setattr(Budget, "limits", lambda *_: Pieces(slice_bytes=500))
    monkeypatch.setattr(BatchPolicy, "kind", lambda *_: kind)
    chance = random.Random(SEED)
    tables = [Table(chance, f"t{n}") for n in range(3)]
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", *[table.create for table in tables], *FAMILY)
    to = replace(target.db_config, session=(("foreign_key_checks", "1"),))
    cfg = subtask(mariadb_upstream, target, to=to)
    conn = mariadb_upstream.connect(autocommit=False)
    with running(cfg, spark) as run:
        for _ in range(3):
            transactions(conn, chance, 20, lambda: chance.choice(tables).change(conn))
            transactions(conn, chance, 20, lambda: family_change(conn, chance))
            run.wait_synced(mariadb_upstream)
    conn.close()
    assert_equal(mariadb_upstream, target, *[f"d.{table.name}" for table in tables], "d.p", "d.c", "d.other")


@pytest.mark.parametrize("kind", list(BatchKind))
def test_columns_that_only_the_target_has_survive_a_change_of_the_key(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, kind: BatchKind
) -> None:
    monkeypatch.setattr(Budget, "limits", lambda *_: Pieces(slice_bytes=500))
    monkeypatch.setattr(BatchPolicy, "kind", lambda *_: kind)
    create = "CREATE TABLE d.t (id INT PRIMARY KEY, v INT{})"
    mariadb_upstream.execute("CREATE DATABASE d", create.format(""))
    target.execute("CREATE DATABASE d", create.format(", extra INT DEFAULT 7"))
    with running(subtask(mariadb_upstream, target), spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t VALUES " + ", ".join(f"({n}, 0)" for n in range(300)))
        run.wait_synced(mariadb_upstream)
        target.execute("UPDATE d.t SET extra = id")
        mariadb_upstream.execute(
            "BEGIN",
            "UPDATE d.t SET v = 1 WHERE id % 2",
            "UPDATE d.t SET id = id + 1 ORDER BY id DESC",
            "UPDATE d.t SET id = id + 1000 WHERE id % 3 = 0",
            "DELETE FROM d.t WHERE id = 5",
            "INSERT INTO d.t VALUES (5, 9)",
            "COMMIT",
        )
        run.wait_synced(mariadb_upstream)
    moved = [(n + 1 if (n + 1) % 3 else n + 1001, n % 2, n) for n in range(300) if n != 4]
    assert list(target.execute("SELECT id, v, extra FROM d.t ORDER BY id")) == sorted([*moved, (5, 9, 7)])
