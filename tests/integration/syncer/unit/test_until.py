"""Hazard: a task that was to end at a location ends before or behind it, or continues after a restart."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig, Until
from tests.integration.syncer.support import location, running, subtask
from tests.integration.syncer.unit.test_hold import Writers, contents, make_tables, target_snapshot, upstream_snapshot


def finishes(cfg: SubTaskConfig, spark: SparkEngine) -> str:
    """Runs to the end; returns what the status says of it."""
    with running(cfg, spark) as run:
        outcome = run.wait_ended()
        assert outcome.finished, outcome
        assert not outcome.errors
        return run.unit.status().ended


@pytest.fixture(params=["mariadb-position", "mariadb-gtid", "mysql-position", "mysql-gtid"])
def upstream(request: pytest.FixtureRequest) -> tuple[SQLServer, bool]:
    kind, way = request.param.split("-")
    return request.getfixturevalue(f"{kind}_upstream"), way == "gtid"


@pytest.mark.timeout(600)
def test_a_task_ends_exactly_where_it_is_to_and_again_after_a_restart(
    upstream: tuple[SQLServer, bool], target: MariaDBServer, spark: SparkEngine
) -> None:
    server, gtid = upstream
    make_tables(server, target)
    cfg = subtask(server, target, enable_gtid=gtid)
    with Writers(server, 8) as writers:
        wait_until(lambda: writers.transactions > 200, "there are transactions before the end")
        with upstream_snapshot(server) as (source, place):
            after = writers.transactions
            wait_until(lambda: writers.transactions > after + 200, "there are transactions behind it")
            name, pos = place.position.name, place.position.pos
            until = Until(binlog_gtid=place.gtid_set) if gtid else Until(name, pos)
            cfg = replace(cfg, until=until)
            for _ in range(2):
                assert str(place.position) in finishes(cfg, spark)
                with target_snapshot(target) as conn:
                    assert contents(conn) == contents(source)
    # Without the end the task continues.
    with running(replace(cfg, until=None), spark) as run:
        run.wait_synced(server)
    with target_snapshot(target) as there, target_snapshot(server) as here:
        assert contents(there) == contents(here)


def test_a_task_ends_at_the_first_end_after_a_position_inside_a_transaction(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute("INSERT INTO d.log VALUES (1, 1)")
    before = location(mariadb_upstream).position
    mariadb_upstream.execute("INSERT INTO d.log VALUES (2, 2)")
    end = location(mariadb_upstream).position
    mariadb_upstream.execute("INSERT INTO d.log VALUES (3, 3)")
    assert str(end) in finishes(replace(cfg, until=Until(before.name, before.pos + 7)), spark)
    assert sorted(target.execute("SELECT * FROM d.log")) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_task_ends_before_the_first_event_that_is_not_older(
    kind: str, request: pytest.FixtureRequest, target: MariaDBServer, spark: SparkEngine
) -> None:
    server: SQLServer = request.getfixturevalue(f"{kind}_upstream")
    make_tables(server, target)
    cfg = subtask(server, target)
    server.execute("INSERT INTO d.log VALUES (1, 1)")
    now = int(server.execute("SELECT UNIX_TIMESTAMP()")[0][0])
    wait_until(lambda: int(server.execute("SELECT UNIX_TIMESTAMP()")[0][0]) > now + 1, "the next second has begun")
    server.execute("INSERT INTO d.log VALUES (2, 2)")
    for _ in range(2):
        finishes(replace(cfg, until=Until(time=now + 1)), spark)
        assert sorted(target.execute("SELECT * FROM d.log")) == [(1, 1)]


def test_a_task_ends_by_time_although_no_event_follows(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    make_tables(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target)
    mariadb_upstream.execute("INSERT INTO d.log VALUES (1, 1)")
    now = int(mariadb_upstream.execute("SELECT UNIX_TIMESTAMP()")[0][0])
    began = time.monotonic()
    with running(replace(cfg, until=Until(time=now + 6)), spark) as run:
        outcome = run.wait_ended(WAIT_TIMEOUT)
    assert outcome.finished
    assert time.monotonic() - began > 3
    assert sorted(target.execute("SELECT * FROM d.log")) == [(1, 1)]
