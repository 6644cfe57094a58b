"""Fixtures of the container tests: an engine, the images, a cluster. Run by `make test-containers` only.

The limit of a test (`func_only`) does not count the fixtures: images take many minutes the first time, and have limits
of their own.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

import pytest

from tests.containers.compose import ComposeCluster, new_folder
from tests.containers.engine import running_engine
from tests.containers.images import Images, provided

#: Set by `make test-containers` and by CI's smoke test: these tests need minutes and a Docker engine.
CHOSEN = "DM_TEST_CONTAINERS" in os.environ
collect_ignore_glob = [] if CHOSEN else ["test_*.py"]


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    with running_engine() as origin:
        yield origin


@pytest.fixture(scope="session")
def images(engine: str) -> Images:
    began = time.monotonic()
    found = provided()
    print(f"containers: {engine}; {found.origin}; ready after {time.monotonic() - began:.0f} s")
    return found


@pytest.fixture(scope="session")
def cluster(images: Images) -> Iterator[ComposeCluster]:
    """The whole Compose file without its profiles, healthy; removed with its volumes."""
    folder = new_folder()
    cluster = ComposeCluster(folder, images.variables)
    try:
        began = time.monotonic()
        cluster.up()
        print(f"containers: all healthy {time.monotonic() - began:.0f} s after `up`")
        yield cluster
    finally:
        cluster.down(volumes=True)
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _shown(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the containers printed, if the test fails."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed and "cluster" in request.fixturenames:
        print(request.getfixturevalue("cluster").logs())
