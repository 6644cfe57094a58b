"""Leases that expire while a killed process restarts, and workers that apply small batches in different ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest


@pytest.fixture(scope="module")
def keepalive_ttl() -> int:
    return 5


@pytest.fixture(scope="module")
def worker_variables() -> Sequence[Mapping[str, str]]:
    """Each batch of one worker is a Spark job; the other applies most of them itself."""
    return ({"DM_TINY_BATCH": "-1"}, {})
