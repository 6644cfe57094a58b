"""Hazard: the Compose file starts programs that do not work together, or loses what volumes must keep."""

from __future__ import annotations

import pytest

from tests.containers.compose import ComposeCluster
from tests.containers.workload import Migration

pytestmark = pytest.mark.timeout(900, func_only=True)


@pytest.mark.smoke
def test_two_upstreams_are_migrated_while_they_change(cluster: ComposeCluster) -> None:
    migrations = [Migration(cluster, "frommaria"), Migration(cluster, "frommysql", "upstream-mysql")]
    for migration in migrations:
        migration.start()
    for migration in migrations:
        cluster.wait_sync(migration.task)
        migration.wait_written(50)
        migration.compare()
        migration.end()


def test_nothing_is_lost_over_down_and_up(cluster: ComposeCluster) -> None:
    migration = Migration(cluster, "downup")
    migration.start()
    cluster.wait_sync(migration.task)
    migration.wait_written(50)
    before = migration.stop_writing()
    cluster.down(volumes=False)
    cluster.up()
    migration.reconnect()
    assert migration.written == before
    migration.write()
    migration.wait_written(50)
    migration.compare()
    migration.end()
