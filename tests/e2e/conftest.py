"""A cluster that several modules use in turn: each worker's start takes the time of a Python and a Spark start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.cluster import Cluster


@pytest.fixture(scope="package")
def _shared_cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as cluster:
        yield cluster


@pytest.fixture
def free_cluster(_shared_cluster: Cluster) -> Iterator[Cluster]:
    """A master and two workers without sources. The fixture removes at the end what a test creates, and starts again
    what it has killed."""
    yield _shared_cluster
    _shared_cluster.start()
    for task in _shared_cluster.dmctl("query-status").get("tasks", []):
        _shared_cluster.ok("stop-task", task["taskName"])
    for source in _shared_cluster.dmctl("operate-source", "show")["sources"]:
        _shared_cluster.ok("operate-source", "stop", source["source"])
