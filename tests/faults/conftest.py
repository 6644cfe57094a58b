"""Leases that expire while a killed process restarts."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def keepalive_ttl() -> int:
    return 5
