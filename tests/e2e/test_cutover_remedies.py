"""Hazard: a check that says no names no way to yes, or the named one does not lead there."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import wait_until
from tests.harness.cutovers import checked, read_only, start

_SHARDED = """
name: task
task-mode: all
shard-mode: pessimistic
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{instances}]
block-allow-list: {{app: {{do-dbs: [app]}}}}
"""
_UPDATE = "UPDATE app.orders SET price = 8 WHERE id = 1"


class _Checks:
    """The checks of a task, and the commands of their remedies."""

    def __init__(self, cluster: Cluster, upstream: SQLServer, target: SQLServer) -> None:
        self._cluster = cluster
        self._upstream = upstream
        self._target = target

    def one(self, name: str) -> dict[str, Any]:
        return checked(self._cluster)[name]

    def says(self, name: str, verdict: str, evidence: str) -> str:
        """The remedy of a check that is not passed, for this reason."""
        found = self.one(name)
        assert found["verdict"] == verdict, found
        assert re.search(evidence, "\n".join(found["evidence"])), found
        return str(found["remedy"])

    def becomes_yes(self, name: str) -> None:
        wait_until(lambda: self.one(name)["verdict"] == "yes", f"{name} says yes", 120)

    def run(self, remedy: str) -> None:
        """Runs what a remedy names: SQL of a server, or dmctl."""
        for part in re.split("; | — ", remedy):
            place, _, statement = part.partition(": ")
            if place == "on one":
                self._upstream.execute(statement)
            elif place == "on the target":
                self._target.execute(statement)
            elif command := re.search(r"dmctl ((?:diff|validation) start task(?: --repair)?|resume-task task)", part):
                self._cluster.ok(*command[1].split())


@contextlib.contextmanager
def _held_up(target: SQLServer) -> Iterator[None]:
    """Nothing of the task's table can be written in the target."""
    with closing(target.connect(autocommit=False)) as holder, holder.cursor() as cursor:
        cursor.execute("SELECT * FROM app.orders FOR UPDATE")
        yield
        holder.rollback()


def _open_transactions(upstream: SQLServer, checks: _Checks) -> None:
    with closing(upstream.connect(autocommit=False)) as conn, conn.cursor() as cursor:
        cursor.execute(_UPDATE)
        remedy = checks.says("transactions", "no", r"open: connection \d+")
        assert "KILL" in remedy
        (evidence,) = checks.one("transactions")["evidence"]
        upstream.execute(f"KILL {evidence.split('connection ')[1].split()[0]}")
        checks.becomes_yes("transactions")
    for end in ("ROLLBACK", "COMMIT"):
        with closing(upstream.connect()) as conn, conn.cursor() as cursor:
            for statement in ("XA START 'it''s','b'", _UPDATE, "XA END 'it''s','b'", "XA PREPARE 'it''s','b'"):
                cursor.execute(statement)
        assert f"XA {end}" in checks.says("transactions", "no", "prepared by XA: X'")
        (evidence,) = checks.one("transactions")["evidence"]
        upstream.execute(f"XA {end} {evidence.partition('XA: ')[2]}")
        checks.becomes_yes("transactions")


@pytest.mark.timeout(600)
def test_the_remedy_of_each_check_leads_to_yes(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    upstream = mariadb_upstream
    start(free_cluster, {"one": upstream}, target)
    checks = _Checks(free_cluster, upstream, target)

    free_cluster.ok("pause-task", "task")
    checks.run(checks.says("replication", "no", "one: is Paused"))
    checks.becomes_yes("replication")

    _open_transactions(upstream, checks)

    with _held_up(target):
        upstream.execute("UPDATE app.orders SET price = 3 WHERE id = 1")
        assert "query-status" in checks.says("applied", "no", "one: applied to")
    checks.becomes_yes("applied")

    target.execute("RENAME TABLE app.orders TO app.away")
    checks.says("tables", "no", "its target table `app`.`orders` does not exist")
    target.execute("RENAME TABLE app.away TO app.orders")
    checks.becomes_yes("tables")

    checks.run(checks.says("validator", "unknown", "one: no validator runs"))
    upstream.execute("UPDATE app.orders SET price = 4 WHERE id = 1")
    checks.becomes_yes("validator")

    remedy = checks.says("read-only", "no", "one: read_only is OFF")
    with read_only(upstream):
        upstream.execute("SET GLOBAL read_only = 0")
        checks.run(remedy)
        checks.becomes_yes("read-only")
        checks.run(checks.says("diff", "unknown", "never compared|no comparison"))
        checks.becomes_yes("diff")
        target.execute("UPDATE app.orders SET name = 'astray' WHERE id = 1")
        free_cluster.ok("diff", "start", "task")
        wait_until(lambda: checks.one("diff")["verdict"] == "no", "the row is found", 120)
        checks.run(checks.says("diff", "no", "`app`.`orders`: 1 rows changed"))
        checks.becomes_yes("diff")
        assert target.execute("SELECT name FROM app.orders WHERE id = 1") == [("a",)]


@pytest.mark.timeout(600)
def test_a_ddl_that_waits_is_named_until_the_other_shard_has_it(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, mysql_upstream: SQLServer, target: MariaDBServer
) -> None:
    start(free_cluster, {"one": mariadb_upstream, "two": mysql_upstream}, target, task=_SHARDED)
    checks = _Checks(free_cluster, mariadb_upstream, target)
    mariadb_upstream.execute("ALTER TABLE app.orders ADD COLUMN more INT")
    wait_until(lambda: checks.one("shard-ddl")["verdict"] == "no", "the DDL waits", 120)
    assert "dmctl shard-ddl-lock task" in checks.says("shard-ddl", "no", "waits with ALTER TABLE .* ADD COLUMN `more`")
    (lock,) = free_cluster.dmctl("shard-ddl-lock", "task")["locks"]
    # It names the shard that is missing.
    assert "two" in str(lock["unsynced"])
    mysql_upstream.execute("ALTER TABLE app.orders ADD COLUMN more INT")
    checks.becomes_yes("shard-ddl")
