"""Hazard: a container that is killed or cut off from the network costs or doubles rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.process import wait_until
from tests.containers.compose import ComposeCluster
from tests.containers.driven import LIMIT
from tests.containers.workload import Migration

pytestmark = pytest.mark.timeout(900, func_only=True)


@pytest.fixture
def migration(cluster: ComposeCluster, request: pytest.FixtureRequest) -> Iterator[Migration]:
    """A task that replicates under load."""
    migration = Migration(cluster, request.node.name.removeprefix("test_")[:24])
    migration.start()
    cluster.wait_sync(migration.task)
    migration.wait_written(20)
    yield migration
    migration.end()


def test_killed_worker(cluster: ComposeCluster, migration: Migration) -> None:
    victim = cluster.server_of(migration.source)
    cluster.kill(victim)
    successor = cluster.server_of(migration.source, other_than=victim)
    migration.wait_written(50)
    cluster.up(victim)
    assert successor != victim
    migration.compare()


def test_worker_cut_off(cluster: ComposeCluster, migration: Migration) -> None:
    victim = cluster.server_of(migration.source)
    with cluster.cut_off(victim):
        cluster.server_of(migration.source, other_than=victim)
        migration.wait_written(50)
    migration.compare()
    wait_until(lambda: cluster.healthy(victim), f"{victim} is a member again", LIMIT, step=1)


def test_master_cut_off(cluster: ComposeCluster, migration: Migration) -> None:
    leader, _ = cluster.members()
    with cluster.cut_off(leader):
        wait_until(lambda: cluster.members()[0] not in ("", leader), "another master leads", LIMIT, step=1)
        migration.wait_written(50)
        cluster.ok("pause-task", migration.task)
        cluster.ok("resume-task", migration.task)
        migration.compare()
    wait_until(lambda: cluster.healthy(leader), f"{leader} is a member again", LIMIT, step=1)
