"""Hazard: a task that is to end at a location goes beyond it, or never ends: when its worker dies before, or when the
location is a GTID set or a time."""

from __future__ import annotations

from contextlib import closing

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import wait_until
from tests.integration.syncer.support import location

TASK = """\
name: ending
task-mode: incremental
target-database: {{host: 127.0.0.1, port: {target}, user: root, password: ''}}
mysql-instances: [{{source-id: s1, block-allow-list: mine, meta: {{binlog-name: {file}, binlog-pos: {pos}}}}}]
block-allow-list: {{mine: {{do-dbs: [ending]}}}}
"""
_META = ", meta: {{binlog-name: {file}, binlog-pos: {pos}}}"
TABLE = (
    "CREATE DATABASE ending",
    "CREATE TABLE ending.t (id INT PRIMARY KEY, v INT)",
    "INSERT INTO ending.t VALUES (1, 0)",
)


def worker_of(cluster: Cluster, source: str) -> str:
    """The worker that has a source; '' for none."""
    (listed,) = cluster.dmctl("list-member", "--worker")["members"]
    return next((str(one["name"]) for one in listed["worker"]["workers"] if one["source"] == source), "")


def test_the_next_worker_ends_the_task_exactly_where_it_is_to_end(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    for server in (mariadb_upstream, target):
        server.execute(*TABLE)
    begin = location(mariadb_upstream).position
    mariadb_upstream.execute(*(f"UPDATE ending.t SET v = {n}" for n in range(1, 40)))
    end = location(mariadb_upstream).position
    mariadb_upstream.execute("UPDATE ending.t SET v = 1000", "INSERT INTO ending.t VALUES (2, 2)")
    free_cluster.add_source(mariadb_upstream, "s1")
    text = TASK.format(target=target.port, file=begin.name, pos=begin.pos)
    with closing(target.connect(autocommit=False)) as writer, writer.cursor() as cursor:
        # The first worker can't write before it is killed.
        cursor.execute("SELECT v FROM ending.t WHERE id = 1 FOR UPDATE")
        place = f"{end.name}:{end.pos}"
        free_cluster.ok("start-task", free_cluster.write_task(text, "ending.yaml"), "--until-position", place)
        free_cluster.wait_stage("ending", "Running", unit="Sync")
        victim = next(one for one in free_cluster.workers if one.member == worker_of(free_cluster, "s1"))
        victim.kill()
        wait_until(lambda: worker_of(free_cluster, "s1") not in ("", victim.member), "failover", 120, step=0.5)
        assert target.execute("SELECT id, v FROM ending.t") == [(1, 0)]
    victim.start(wait=False)
    free_cluster.wait_stage("ending", "Finished")
    assert target.execute("SELECT id, v FROM ending.t") == [(1, 39)]
    assert free_cluster.subtask("ending", "s1")["sync"]["syncerBinlog"] == str(end)
    victim.wait_ready()


def _next_second(server: SQLServer) -> str:
    """The present second of the server in UTC, which has begun just now."""
    moments = iter(lambda: str(server.execute("SELECT UTC_TIMESTAMP()")[0][0]), "")
    before = next(moments)
    wait_until(lambda: next(moments) > before, "the next second has begun", step=0.02)
    return next(moments)


@pytest.mark.parametrize("kind", ["mariadb_upstream", "mysql_upstream"])
@pytest.mark.parametrize("way", ["gtid", "time"])
def test_a_task_begins_and_ends_exactly_at_a_time_or_a_gtid_set(
    free_cluster: Cluster, target: SQLServer, request: pytest.FixtureRequest, kind: str, way: str
) -> None:
    upstream: SQLServer = request.getfixturevalue(kind)
    for server in (upstream, target):
        server.execute(*TABLE[:2])
    upstream.execute("INSERT INTO ending.t VALUES (1, 1)")
    began = _next_second(upstream)
    upstream.execute("INSERT INTO ending.t VALUES (2, 2)")
    upstream.execute("INSERT INTO ending.t VALUES (3, 3)")
    ended, gtid_set = _next_second(upstream), location(upstream).gtid_set
    upstream.execute("INSERT INTO ending.t VALUES (4, 4)")
    free_cluster.add_source(upstream, "s1", gtid=True)
    path = free_cluster.write_task(TASK.replace(_META, "").format(target=target.port), "ending.yaml")
    until = ("--until-gtid", gtid_set) if way == "gtid" else ("--until-time", f"{ended}Z")
    free_cluster.ok("start-task", path, "--start-time", f"{began}Z", *until)
    free_cluster.wait_stage("ending", "Finished")
    assert target.execute("SELECT id FROM ending.t ORDER BY id") == [(2,), (3,)]
