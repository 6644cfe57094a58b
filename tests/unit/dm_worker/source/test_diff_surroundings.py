"""Hazard: a comparison ends the hold of an operator, and replication goes beyond the place where it was to stop."""

from __future__ import annotations

import threading

from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.source.diff_surroundings import SyncerHold
from dm_worker.syncer.unit.hold import OPERATORS, Hold, HoldState
from pkg.binlog.position import Location, Position

HERE = Location(Position("bin.000001", 4))


def test_the_hold_of_an_operator_stays() -> None:
    hold = Hold()
    hold.run_started(HERE)
    answers: list[HoldState] = []
    operator = threading.Thread(target=lambda: answers.append(hold.at(None, WAIT_TIMEOUT)))
    operator.start()
    wait_until(lambda: hold.wanted() is not None, "the operator asks")
    request = hold.wanted()
    assert request is not None
    pairs = SyncerHold(hold)
    assert pairs.hold(None, 0.1) == OPERATORS
    pairs.release()
    assert hold.wanted() is request
    hold.refuse(request, "no", HERE)
    operator.join(WAIT_TIMEOUT)
    assert [one.reason for one in answers] == ["no"]


def test_an_operator_replaces_the_hold_of_a_comparison() -> None:
    hold = Hold()
    hold.run_started(HERE)
    pairs = SyncerHold(hold)
    reasons: list[str] = []
    comparison = threading.Thread(target=lambda: reasons.append(pairs.hold(None, WAIT_TIMEOUT)))
    comparison.start()
    wait_until(lambda: hold.wanted() is not None, "the comparison asks")
    request = hold.wanted()
    operator = threading.Thread(target=lambda: hold.at(None, WAIT_TIMEOUT))
    operator.start()
    wait_until(lambda: hold.wanted() is not request, "the operator asks")
    comparison.join(WAIT_TIMEOUT)
    assert len(reasons) == 1
    assert reasons[0]
    hold.run_ended()
    operator.join(WAIT_TIMEOUT)
