"""How much of a sweep or a property test runs: all, or a bounded part."""

from __future__ import annotations

import os

#: Whether the whole form of each sweep runs (``make test-long``), and not the bounded one of ``make test``.
LONG = "DM_TEST_LONG" in os.environ
#: Whether property tests draw fewer examples (``make check``).
QUICK = "DM_TEST_QUICK" in os.environ


def examples(whole: int) -> int:
    """How many examples of a property test run: ``whole``, or a quarter of it where the run is quick."""
    return min(whole, max(whole // 4, 10)) if QUICK else whole
