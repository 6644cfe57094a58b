"""Hazard: the jobs of a large batch lose tied rows, or place them otherwise than the rows that they are tied to."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dm_worker.spark import SparkEngine
from dm_worker.syncer.batch_policy import BatchPolicy, Budget
from tests.harness.mysql import SQLServer
from tests.integration.syncer.replay import Pieces
from tests.integration.syncer.support import assert_equal, running, subtask
from tests.integration.syncer.test_conflicts import FAMILY, SEED, Table, family_change, transactions


@pytest.mark.parametrize("small", [True, False], ids=["one task", "two jobs"])
def test_conflicts_end_right_in_small_and_large_batches(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    monkeypatch.setattr(Budget, "limits", lambda *_: Pieces(slice_bytes=500))
    monkeypatch.setattr(BatchPolicy, "is_small", lambda *_: small)
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
