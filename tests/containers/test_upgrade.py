"""Hazard: an upgrade of the image under load loses or doubles rows, or its state is not read."""

from __future__ import annotations

import pytest

from tests.containers.compose import MASTERS, ComposeCluster
from tests.containers.images import BEFORE, PRESENT, build_version_before
from tests.containers.workload import Migration

WORKERS = ("dm-worker1", "dm-worker2")


@pytest.mark.timeout(900, func_only=True)
def test_image_of_the_next_version_takes_over_under_load(cluster: ComposeCluster) -> None:
    build_version_before()
    cluster.up(*MASTERS, *WORKERS, version=BEFORE)
    assert cluster.images_of(*MASTERS, *WORKERS) == {f"dm:{BEFORE}"}
    migration = Migration(cluster, "upgraded")
    migration.start()
    cluster.wait_sync(migration.task)
    migration.wait_written(50)
    for service in (*MASTERS, *WORKERS):
        cluster.up("--no-deps", service, version=PRESENT)
        migration.wait_written(20)
    assert cluster.images_of(*MASTERS, *WORKERS) == {f"dm:{PRESENT}"}
    cluster.wait_sync(migration.task)
    migration.compare()
    migration.end()
