"""Hazard: a task by GTID can't begin at an upstream that has not executed any transaction yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import assert_equal, location, running, subtask


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    server.execute("RESET MASTER")
    return server


def test_a_task_begins_at_the_empty_gtid_set(upstream: SQLServer, target: MariaDBServer, spark: SparkEngine) -> None:
    assert location(upstream).gtid_set == ""
    cfg = subtask(upstream, target, enable_gtid=True)
    upstream.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (2)")
    with running(cfg, spark) as run:
        run.wait_synced(upstream)
        assert run.stop().canceled
    upstream.execute("INSERT INTO d.t VALUES (3)")
    # Again from the checkpoint, which has a set by now.
    with running(cfg, spark) as run:
        run.wait_synced(upstream)
    assert_equal(upstream, target, "d.t")


def test_a_position_whose_gtid_set_is_not_known_is_refused(
    upstream: SQLServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    upstream.execute("CREATE DATABASE d")
    cfg = subtask(upstream, target, enable_gtid=True)
    assert cfg.meta is not None
    # MariaDB knows the set of each position that is in its binlog.
    position = 10**9 if upstream.flavor == "mariadb" else cfg.meta.binlog_pos
    with running(replace(cfg, meta=replace(cfg.meta, binlog_pos=position, binlog_gtid="")), spark) as run:
        assert [error.code for error in run.wait_ended().errors] == [36052]
