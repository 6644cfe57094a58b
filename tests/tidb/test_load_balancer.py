"""Hazard: a TiDB server behind a load balancer goes away during a copy or a batch, and rows are lost or doubled."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from deploy.local.tidb import TiDBServer
from dm_master.task_setup.task_split import TARGET_DEFAULTS
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from pkg.config.model import LoaderConfig, MydumperConfig, SubTaskConfig
from tests.harness.full_copy import dump
from tests.harness.proxy import CountingProxy
from tests.integration.syncer.support import assert_equal, running, subtask

KEYED, KEYLESS = 20_000, 2_000


@pytest.fixture
def balancer(tidb: TiDBServer) -> Iterator[CountingProxy]:
    # The load must last while faults come.
    proxy = CountingProxy(tidb.port, delay=0.02)
    yield proxy
    proxy.close()


def _cut(tidb: TiDBServer, balancer: CountingProxy) -> None:
    balancer.cut()


def _drain(tidb: TiDBServer, balancer: CountingProxy) -> None:
    """The server is taken out; for a while there is no other one."""
    balancer.refusing = True
    balancer.cut()
    time.sleep(0.3)
    balancer.refusing = False


def _kill(tidb: TiDBServer, balancer: CountingProxy) -> None:
    tidb.kill()
    tidb.start()


FAULTS: list[Callable[[TiDBServer, CountingProxy], None]] = [_cut, _drain, _kill, _cut, _drain]


def _fill(upstream: MariaDBServer) -> None:
    upstream.execute(
        "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "USE d",
        "CREATE TABLE d.keyed (id INT PRIMARY KEY AUTO_INCREMENT, v INT, note VARCHAR(90), UNIQUE KEY (v))",
        "CREATE TABLE d.keyless (v INT, note VARCHAR(90))",
        f"INSERT INTO d.keyed (v, note) SELECT seq, REPEAT(seq, 9) FROM seq_1_to_{KEYED}",
        f"INSERT INTO d.keyless SELECT seq MOD 50, seq MOD 7 FROM seq_1_to_{KEYLESS}",
    )


def _write(upstream: MariaDBServer, rng: random.Random) -> None:
    first = rng.randrange(1, KEYED)
    upstream.execute(
        "USE d",
        "BEGIN",
        f"UPDATE keyed SET note = {rng.random()} WHERE id BETWEEN {first} AND {first + 200}",
        f"DELETE FROM keyed WHERE id = {first}",
        f"INSERT INTO keyed (v, note) VALUES ({KEYED + rng.randrange(1 << 30)}, 'new')",
        f"UPDATE keyless SET note = {rng.randrange(9)} WHERE v = {rng.randrange(50)} LIMIT 3",
        f"INSERT INTO keyless VALUES ({rng.randrange(50)}, 'new'), (1, NULL)",
        "COMMIT",
    )


def test_servers_that_go_away_cost_nothing_but_time(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, balancer: CountingProxy, spark: SparkEngine, tmp_path: Path
) -> None:
    _fill(mariadb_upstream)
    cfg = subtask(mariadb_upstream, tidb, task_mode="all", meta=None, enable_gtid=True)
    cfg = replace(
        cfg,
        to=replace(cfg.to, port=balancer.port, session=tuple(TARGET_DEFAULTS.items())),
        mydumper=MydumperConfig(threads=2, rows=1000),
        loader=LoaderConfig(pool_size=3, dir=str(tmp_path / "dump")),
    )
    dump(cfg, spark)
    assert _load(cfg, tidb, balancer, spark) >= 3
    assert_equal(mariadb_upstream, tidb, "d.keyed", "d.keyless")
    rng = random.Random(5)
    with running(cfg, spark) as run:
        for fault in FAULTS:
            for _ in range(5):
                _write(mariadb_upstream, rng)
            fault(tidb, balancer)
            _write(mariadb_upstream, rng)
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, tidb, "d.keyed", "d.keyless")
    tidb.execute("ADMIN CHECK TABLE d.keyed")


def _load(cfg: SubTaskConfig, tidb: TiDBServer, balancer: CountingProxy, spark: SparkEngine) -> int:
    """Loads the dump; returns how many faults were met while it ran."""
    unit = LoadUnit(cfg, spark)
    unit.transaction_bytes = 4 << 10
    outcomes = []
    loading = threading.Thread(target=lambda: outcomes.append(unit.run()), daemon=True)
    loading.start()
    met = 0
    for fault in FAULTS:
        _await_more(unit, loading)
        met += loading.is_alive()
        fault(tidb, balancer)
    loading.join(WAIT_TIMEOUT)
    assert outcomes, "the load does not end"
    assert outcomes[0].finished, [str(error) for error in outcomes[0].errors]
    return met


def _await_more(unit: LoadUnit, loading: threading.Thread) -> None:
    reached = unit.status().finishedBytes
    wait_until(lambda: not loading.is_alive() or unit.status().finishedBytes > reached, "more is loaded")
