"""What a process learned of a target in one test must not steer the next one."""

from __future__ import annotations

import pytest

from dm_worker.syncer.execution import apply
from dm_worker.syncer.execution.target_connections import WriterPool


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_POOL", WriterPool())
