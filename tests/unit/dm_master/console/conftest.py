"""A console of a small cluster, with one user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.canned_cluster import CannedCluster, small_cluster
from tests.unit.dm_master.console.support import LINE, ConsoleBrowser


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text(f"# who may act\n{LINE}\n")
    return path


@pytest.fixture
def cluster() -> CannedCluster:
    return small_cluster()


@pytest.fixture
def browser(cluster: CannedCluster, users: Path) -> ConsoleBrowser:
    return ConsoleBrowser(cluster, users)
