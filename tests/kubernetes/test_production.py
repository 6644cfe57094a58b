"""Hazards: pods that do not find each other, probes that kill what works, budgets that let too much go; lost rows."""

from __future__ import annotations

import pytest

from tests.containers.workload import Migration
from tests.kubernetes.deployed import UPSTREAM, Deployed


@pytest.mark.timeout(1800)
def test_pods_are_killed_evicted_and_replaced(deployed: Deployed) -> None:
    deployed.apply("production")
    migration = Migration(deployed, "production", upstream=UPSTREAM)
    migration.start()
    deployed.wait_sync(migration.task)
    migration.wait_written(20)

    leader, _ = deployed.members()
    lost = deployed.identity(leader)
    deployed.kill(leader)
    migration.wait_written(20)
    deployed.wait_replaced("dm-master", leader, lost)

    server = deployed.server_of(migration.source)
    lost = deployed.identity(server)
    deployed.kill(server)
    deployed.wait_replaced("dm-worker", server, lost)
    migration.wait_written(20)

    # A second one would take the quorum of etcd, or the spare worker's source.
    for program, pod in (("dm-master", "dm-master-0"), ("dm-worker", deployed.server_of(migration.source))):
        lost = deployed.identity(pod)
        assert deployed.evict(pod) == ""
        other = next(name for name in (f"{program}-1", f"{program}-2") if name != pod)
        assert "disruption budget" in deployed.evict(other)
        deployed.wait_replaced(program, pod, lost)

    for program in ("dm-worker", "dm-master"):
        deployed.kubectl("rollout", "restart", f"statefulset/{program}")
        deployed.rolled_out()
    migration.wait_written(20)
    print(f"kubernetes: row counts and checksums: {migration.compare()}")
    migration.end()
