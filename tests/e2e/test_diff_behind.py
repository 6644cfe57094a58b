"""Hazard: a comparison tries forever, because replication needs longer to each position than it is given."""

from __future__ import annotations

import json

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import wait_until
from tests.harness.certified import certify, validated
from tests.harness.comparisons import ended
from tests.harness.cutovers import writing

TASK = """\
name: behind
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: s1, block-allow-list: mine}}]
block-allow-list: {{mine: {{do-dbs: [behind]}}}}
"""
#: Each batch lasts so long, so replication is always behind.
SLOW = "CREATE TRIGGER behind.slow BEFORE UPDATE ON behind.t FOR EACH ROW SET @slept = SLEEP(12)"


@pytest.mark.timeout(600)
@pytest.mark.target_with("triggers")
def test_a_comparison_ends_while_replication_is_always_some_seconds_behind(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE behind",
        "CREATE TABLE behind.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO behind.t VALUES (1, 1)",
    )
    free_cluster.add_source(mariadb_upstream, "s1", gtid=True)
    free_cluster.ok("start-task", free_cluster.write_task(validated(TASK.format(port=target.port))))
    free_cluster.wait_stage("behind", "Running", unit="Sync")
    target.execute(SLOW)
    with writing(mariadb_upstream, "UPDATE behind.t SET v = v + 1 WHERE id = 1"):
        asleep = "SELECT 1 FROM information_schema.processlist WHERE state = 'User sleep'"
        wait_until(lambda: bool(target.execute(asleep)), "a batch is written slowly", 60)
        free_cluster.ok("diff", "start", "behind")
        answer = ended(free_cluster, "behind")
    assert answer["verdict"] == "equal", json.dumps(answer, indent=1)
    target.execute("DROP TRIGGER behind.slow")
    free_cluster.wait_synced("behind")
    certify(free_cluster, "behind")
