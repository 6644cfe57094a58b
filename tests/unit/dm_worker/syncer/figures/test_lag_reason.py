"""Hazard: an operator looks at the target while the source, a lock or a statement is what everybody waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.syncer.figures import lag_reason as reasons
from dm_worker.syncer.figures.lag_reason import LagFacts, TargetState, lag_reason
from pkg.status.lag import HELD

WAITING = LagFacts(reasons.WAITING, reasons.SOURCE)
SLOW = LagFacts(reasons.JOB, reasons.HANDING, job=10.0, shares=(("write", 8.0), ("decode", 1.0)))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (LagFacts(), "stopped"),
        (WAITING, "source_idle"),
        (replace(WAITING, reader=reasons.READING), "reading"),
        (replace(WAITING, lag=1), "reading"),
        (replace(WAITING, reader=reasons.PLANNING), "planning"),
        (replace(WAITING, locked=True), "lock"),
        (replace(WAITING, retrying=True), "retry"),
        (replace(WAITING, reader=reasons.REOPENING), "retry"),
        (replace(WAITING, reader=reasons.HANDING), "engine"),
        (LagFacts(reasons.STATEMENT, reasons.HANDING), "ddl"),
        (LagFacts(HELD, reasons.HANDING), "held"),
        (SLOW, "target_slow"),
        (replace(SLOW, shares=(("write", 2.0), ("decode", 7.0))), "engine"),
        (replace(SLOW, main=reasons.CHECKPOINT), "target_slow"),
        (replace(SLOW, locked=True, lag=9), "target_slow"),
        (replace(SLOW, locked=True, lag=2), "lock"),
        (replace(SLOW, target=TargetState.AWAY), "retry"),
        (replace(SLOW, shares=(), target=TargetState.BUSY), "target_slow"),
        (replace(SLOW, shares=(), target=TargetState.ANSWERS), "engine"),
        (replace(WAITING, reader=reasons.PLANNING, target=TargetState.BUSY), "target_slow"),
        (replace(WAITING, unread=True), "reading"),
        (replace(WAITING, unread=True, locked=True), "lock"),
        (replace(SLOW, retrying=True), "retry"),
    ],
)
def test_the_reason_is_what_the_others_wait_for(facts: LagFacts, reason: str) -> None:
    assert lag_reason(facts) == reason
    assert reason in reasons.REASONS


@pytest.mark.parametrize(
    ("facts", "asks"),
    [
        (replace(SLOW, main_for=1.0), False),
        (replace(SLOW, main_for=2.0), True),
        (replace(WAITING, main_for=9.0, reader_for=9.0), False),
        (replace(WAITING, main_for=9.0, reader=reasons.PLANNING, reader_for=9.0), True),
        (LagFacts(reasons.STATEMENT, reasons.HANDING, main_for=9.0), True),
    ],
)
def test_the_target_is_asked_only_where_it_may_be_waited_for(facts: LagFacts, asks: bool) -> None:
    assert facts.may_wait_for_target is asks
