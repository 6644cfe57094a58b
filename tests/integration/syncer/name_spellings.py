"""Two of the upstream's tables that are one in a target that ignores case in names."""

from __future__ import annotations

from dataclasses import replace

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from pkg.errors import Code
from pkg.rules.model import RouteRule
from tests.integration.syncer.support import run_until_synced, running, subtask


def two_spellings_stop_a_task(upstream: SQLServer, target: SQLServer, spark: SparkEngine, *, met: bool) -> None:
    """``met``: the task knows the first table when the second one is created; otherwise only the servers do."""
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    cfg = replace(subtask(upstream, target), case_sensitive=True)
    first = ["INSERT INTO d.t VALUES (1, 1)", "ALTER TABLE d.t ADD n INT"] if met else []
    with running(cfg, spark) as run:
        upstream.execute(*first, "CREATE TABLE d.T (id INT PRIMARY KEY)", "INSERT INTO d.T VALUES (3)")
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncUnitNotSupportedDML
    assert "`d`.`T`" in error.message
    assert "`d`.`t`" in error.message
    assert "CREATE TABLE d.T" in error.message
    assert "case-sensitive" in error.workaround
    assert (3,) not in target.execute("SELECT id FROM d.t")
    # As the error says.
    routed = replace(cfg, routes=(RouteRule("d", "d", "T", "t_upper"),))
    run_until_synced(routed, spark, upstream)
    assert target.execute("SELECT id FROM d.t_upper") == [(3,)]
    assert target.execute("SELECT id FROM d.t") == [(1,)] * met
    # Without the route again, a statement about the one table would be about the other.
    with running(cfg, spark) as run:
        upstream.execute("INSERT INTO d.t (id) VALUES (4)", "DROP TABLE d.T")
        (error,) = run.wait_ended().errors
    assert "DROP TABLE `d`.`T`" in error.message
    run_until_synced(routed, spark, upstream)
    # A name that is free again may be spelt in another way.
    with running(cfg, spark) as run:
        upstream.execute("INSERT INTO d.t (id) VALUES (5)", "DROP TABLE d.t", "CREATE TABLE d.T (id INT PRIMARY KEY)")
        upstream.execute("INSERT INTO d.T VALUES (6)")
        run.wait_synced(upstream)
    assert target.execute("SELECT id FROM d.T") == [(6,)]
