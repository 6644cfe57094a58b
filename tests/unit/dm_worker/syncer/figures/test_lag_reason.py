"""Hazard: an operator looks at the target while the source, a lock or a statement is what everybody waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.syncer.figures import lag_reason as reasons
from dm_worker.syncer.figures.lag_reason import LagFacts, lag_reason

WAITING = LagFacts(reasons.WAITING, reasons.SOURCE)
SLOW = LagFacts(reasons.JOB, reasons.HANDING, job=10.0, shares=(("write", 8.0), ("decode", 1.0)))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (LagFacts(), "stopped"),
        (WAITING, "source_idle"),
        (replace(WAITING, reader=reasons.READING), "reading"),
        (replace(WAITING, behind=True), "reading"),
        (replace(WAITING, reader=reasons.PLANNING), "planning"),
        (replace(WAITING, locked=True), "lock"),
        (replace(WAITING, retrying=True), "retry"),
        (replace(WAITING, reader=reasons.REOPENING), "retry"),
        (replace(WAITING, reader=reasons.HANDING), "engine"),
        (LagFacts(reasons.STATEMENT, reasons.HANDING), "ddl"),
        (SLOW, "target_slow"),
        (replace(SLOW, shares=(("write", 2.0), ("decode", 7.0))), "engine"),
        (replace(SLOW, main=reasons.CHECKPOINT), "target_slow"),
        (replace(SLOW, locked=True), "target_slow"),
        (replace(SLOW, retrying=True), "retry"),
    ],
)
def test_the_reason_is_what_the_others_wait_for(facts: LagFacts, reason: str) -> None:
    assert lag_reason(facts) == reason
    assert reason in reasons.REASONS
