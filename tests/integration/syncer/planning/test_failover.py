"""Hazard: the upstream fails over to another server while a task is inside a transaction, whose rows events are cut
otherwise there: rows are lost or applied twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.planning.batch_policy import BatchLimits, Budget
from pkg.config.model import SubTaskConfig, SyncerConfig
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

pytestmark = pytest.mark.timeout(900)

ROWS = 3000
Pair = tuple[MariaDBServer, MariaDBServer]


@pytest.fixture
def pair(new_mariadb: Callable[..., MariaDBServer]) -> Pair:
    """A server and its replica, which packs rows into events of another size."""
    first = new_mariadb(gtid=True, extra=["--log-slave-updates=1"])
    second = new_mariadb(gtid=True, extra=["--log-slave-updates=1", "--binlog-row-event-max-size=256"])
    second.execute(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={first.port}, MASTER_USER='root', "
        "MASTER_USE_GTID=slave_pos",
        "START SLAVE",
    )
    return first, second


def stopped_inside(
    first: SQLServer,
    target: MariaDBServer,
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
    *tables: str,
    gtid: bool = True,
) -> SubTaskConfig:
    """A task that was stopped in the middle of a transaction over ``tables`` of the upstream."""
    monkeypatch.setattr(Budget, "limits", lambda self, parallel: BatchLimits(20_000, 50, 4_000))
    for server in (first, target):
        server.execute("CREATE DATABASE d")
        server.execute("CREATE TABLE d.plain (id INT PRIMARY KEY, v VARCHAR(100), n INT, UNIQUE KEY (v))")
        server.execute("CREATE TABLE d.keyless (id INT, v VARCHAR(100), n INT)")
    cfg = subtask(first, target, enable_gtid=gtid, syncer=SyncerConfig(worker_count=4))
    statements = ["INSERT INTO d.plain VALUES (0, 'before', 0)", "BEGIN"]
    for table in tables:
        values = [f"({i}, '{table}{'x' * 60}{i}', {i})" for i in range(1, ROWS + 1)]
        statements += [f"INSERT INTO {table} VALUES {','.join(values[i : i + 200])}" for i in range(0, ROWS, 200)]
        statements += [f"UPDATE {table} SET n = n + 1", f"DELETE FROM {table} WHERE id % 7 = 0"]
    first.execute(*statements, "COMMIT", "INSERT INTO d.plain VALUES (-1, 'behind', 0)")
    with running(cfg, spark) as run:
        wait_until(lambda: inside(target) > 5 or run.outcome is not None, "not inside the transaction", WAIT_TIMEOUT)
        assert run.stop(graceful=False).errors == []
    assert inside(target) > 5
    return cfg


def inside(target: MariaDBServer) -> int:
    """Rows events after the transaction's start."""
    if not target.execute("SHOW DATABASES LIKE 'dm_meta'") or not target.execute(
        "SHOW TABLES IN dm_meta LIKE 't_sync%batch'"
    ):
        return 0
    found = target.execute("SELECT LEAST(start_rows, end_rows) FROM dm_meta.t_syncer_batch")
    return int(found[0][0]) if found else 0


def test_a_failover_inside_a_transaction_loses_and_doubles_nothing(
    pair: Pair, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    cfg = stopped_inside(first, target, spark, monkeypatch, "d.plain")
    elsewhere = replace(cfg, from_=second.db_config)
    with running(elsewhere, spark) as run:
        # Once more, while what was in doubt is applied again.
        wait_until(lambda: run.unit.status().totalRows > 500 or run.outcome is not None, "no progress", WAIT_TIMEOUT)
        assert run.stop(graceful=False).errors == []
    run_until_synced(elsewhere, spark, second)
    assert_equal(second, target, "d.plain")
    assert target.execute("SELECT exit_safe_binlog_gtid FROM dm_meta.t_syncer_checkpoint WHERE is_global = 1") == [
        ("",)
    ]


def test_rows_without_a_key_stop_a_failover_before_anything_is_written(
    pair: Pair, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    cfg = stopped_inside(first, target, spark, monkeypatch, "d.plain", "d.keyless")
    with running(replace(cfg, from_=second.db_config), spark) as run:
        (error,) = run.wait_ended().errors
    assert "`d`.`keyless` has no key" in error.message
    # The way out that the error names.
    assert "to the former server" in error.workaround
    run_until_synced(cfg, spark, first)
    assert_equal(first, target, "d.plain", "d.keyless")


@pytest.mark.parametrize(("upstream", "gtid"), [("mysql", True), ("mysql", False), ("mariadb", False)])
def test_the_same_server_goes_on_where_it_was_rows_without_a_key_too(
    request: pytest.FixtureRequest,
    target: MariaDBServer,
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
    upstream: str,
    gtid: bool,
) -> None:
    server: SQLServer = request.getfixturevalue(f"{upstream}_upstream")
    cfg = stopped_inside(server, target, spark, monkeypatch, "d.keyless", gtid=gtid)
    server.execute("FLUSH BINARY LOGS", "INSERT INTO d.plain VALUES (-2, 'in another file', 0)")
    run_until_synced(cfg, spark, server)
    assert_equal(server, target, "d.plain", "d.keyless")


def test_places_in_two_servers_binlogs_are_not_mixed_up_without_gtids(
    pair: Pair, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    cfg = stopped_inside(first, target, spark, monkeypatch, "d.plain", gtid=False)
    with running(replace(cfg, from_=second.db_config), spark) as run:
        (error,) = run.wait_ended().errors
    assert "without GTIDs the same transaction cannot be found" in error.message
