"""What of these tests is run, and what applies their batches."""

from __future__ import annotations

from itertools import cycle

import pytest

from dm_worker.syncer.planning.batch_policy import BatchKind, BatchPolicy
from tests.harness.versions import NEWEST_TRIED

#: Its servers come from other distributions' packages: `make test-servers` runs it.
collect_ignore = [] if NEWEST_TRIED else ["test_newest_mysql.py"]


@pytest.fixture(autouse=True)
def driver_and_spark_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the batches for the driver, each second one is a Spark job with several buckets."""
    kinds, kind = cycle((BatchKind.SMALL, BatchKind.TINY)), BatchPolicy.kind

    def in_turns(policy: BatchPolicy, size: int, tiny: int) -> BatchKind:
        found = kind(policy, size, tiny)
        return next(kinds) if found is BatchKind.TINY else found

    monkeypatch.setattr(BatchPolicy, "kind", in_turns)
