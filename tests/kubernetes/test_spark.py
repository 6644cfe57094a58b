"""Hazard: executors as pods do not start under the rules `restricted`, or one ends and rows are lost."""

from __future__ import annotations

import pytest

from deploy.local.process import wait_until
from tests.containers.driven import LIMIT
from tests.containers.workload import Migration
from tests.kubernetes.deployed import UPSTREAM, Deployed

#: Enough for a load that lasts longer than kubectl needs to delete a pod.
ROWS = 500_000


@pytest.mark.timeout(1800)
def test_killed_executor_pods(deployed: Deployed) -> None:
    deployed.apply("spark-kubernetes")
    migration = Migration(deployed, "onspark", upstream=UPSTREAM, rows=ROWS, loader="/dumps/onspark")
    migration.start()
    server = deployed.server_of(migration.source)
    wait_until(lambda: bool(deployed.executors(server)), "executors run", LIMIT, step=0.1)
    lost = deployed.executors(server)[0]
    # In the middle of the load: the target has some rows and not yet all.
    wait_until(lambda: migration.rows_at_target() > 0, "the load has begun", 2 * LIMIT, step=0.02)
    deployed.kill(lost)
    assert migration.rows_at_target() < ROWS, "the pod died in the middle of the load"
    deployed.wait_sync(migration.task)
    migration.wait_written(20)
    # Spark has asked for another one.
    wait_until(lambda: len(deployed.executors(server)) == 2, "there are two executors again", LIMIT, step=1)
    assert lost not in deployed.executors(server)
    deployed.kill(deployed.executors(server)[0])
    migration.wait_written(50)
    assert deployed.server_of(migration.source) == server
    print(f"kubernetes: row counts and checksums through executors as pods: {migration.compare()}")
    migration.end()
