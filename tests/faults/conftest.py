"""Leases that end while what was killed comes up again."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def keepalive_ttl() -> int:
    return 5
