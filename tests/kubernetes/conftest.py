"""Fixtures of the Kubernetes tests: a node with the images. Run by `make test-kubernetes` only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.containers.engine import running_engine
from tests.containers.images import provided
from tests.kubernetes.deployed import Deployed
from tests.kubernetes.node import Node, running_node
from tests.kubernetes.node_images import carried_over

#: Set by `make test-kubernetes`: these tests need root, Go for the first build, and minutes.
collect_ignore_glob = [] if "DM_TEST_KUBERNETES" in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """A Kubernetes of one node that has the project's image and MariaDB's."""
    began = time.monotonic()
    with running_node() as node:
        print(f"kubernetes: {node.version()} ready after {time.monotonic() - began:.0f} s")
        with running_engine() as engine:
            carried_over(node, provided())
        print(f"kubernetes: images of {engine} there after {time.monotonic() - began:.0f} s")
        yield node


@pytest.fixture(scope="session")
def deployed(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    """The node with all that an SRE has before the first `kubectl apply -k`."""
    deployed = Deployed(node, tmp_path_factory.mktemp("deployed"))
    deployed.prepare()
    return deployed


@pytest.fixture(autouse=True)
def _shown(request: pytest.FixtureRequest) -> Iterator[None]:
    """What pods and events say, if the test fails."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed and "deployed" in request.fixturenames:
        print(request.getfixturevalue("deployed").state())
