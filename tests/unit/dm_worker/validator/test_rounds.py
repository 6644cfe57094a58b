"""Hazard: a snapshot is said to contain batches that were complete only after it began, or replication waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import pytest

from deploy.local.process import wait_until
from dm_worker.validator import rounds
from dm_worker.validator.rounds import SnapshotGate
from dm_worker.validator.target_reads import TargetReads
from pkg import errors
from pkg.errors import Code, DMError


class Reads:
    """A connection whose snapshots open when they are told to; fails if told so."""

    def __init__(self, *, fails: bool = False, hangs: bool = False) -> None:
        self.prepared, self.opening, self.go = threading.Event(), threading.Event(), threading.Event()
        self._fails = fails
        if not hangs:
            self.go.set()

    def prepare(self) -> None:
        self.prepared.set()

    def open(self) -> None:
        self.opening.set()
        assert self.go.wait(60)
        if self._fails:
            raise errors.new(Code.DBBadConn, "as told", retryable=True)


def waiting(
    gate: SnapshotGate, reads: Reads, found: list[int | DMError], should_stop: Callable[[], bool] = lambda: False
) -> threading.Thread:
    def wait() -> None:
        try:
            found.append(gate.snapshot(cast(TargetReads, reads), should_stop))
        except DMError as exc:
            found.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    assert reads.prepared.wait(10)
    return thread


def report_until(done: Callable[[], bool], gate: SnapshotGate, number: int) -> int:
    """Batches are applied one after the other; returns the number of the last one."""

    def ended() -> bool:
        nonlocal number
        number += 1
        gate.applying()
        gate.reported(number)
        return done()

    wait_until(ended, "a batch ends in time")
    return number


def test_the_syncer_waits_until_the_snapshot_between_two_batches_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BOUNDARY_WAIT", 60.0)
    monkeypatch.setattr(rounds, "MOST_STALL", 60.0)
    gate, reads, found = SnapshotGate(), Reads(hangs=True), list[int | DMError]()
    gate.reported(4)
    gate.applying()
    snapshot = waiting(gate, reads, found)
    numbers: list[int] = []
    syncer = threading.Thread(target=lambda: numbers.append(report_until(reads.opening.is_set, gate, 4)))
    syncer.start()
    assert reads.opening.wait(60)
    assert syncer.is_alive()
    assert numbers == []
    reads.go.set()
    syncer.join()
    snapshot.join()
    assert found == numbers


def test_without_a_batch_it_opens_at_once_and_contains_what_was_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BOUNDARY_WAIT", 60.0)
    gate, reads, found = SnapshotGate(), Reads(), list[int | DMError]()
    gate.applying()
    gate.reported(4)
    waiting(gate, reads, found).join(30)
    gate.reported(5)
    assert found == [4]


def test_a_batch_begins_only_when_the_snapshot_before_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MOST_STALL", 60.0)
    gate, reads, found = SnapshotGate(), Reads(hangs=True), list[int | DMError]()
    gate.reported(4)
    snapshot = waiting(gate, reads, found)
    assert reads.opening.wait(60)
    syncer = threading.Thread(target=gate.applying)
    syncer.start()
    syncer.join(0.1)
    assert syncer.is_alive()
    reads.go.set()
    syncer.join()
    snapshot.join()
    assert found == [4]


def test_replication_waits_only_once_for_a_snapshot_that_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, reads, found = SnapshotGate(), Reads(hangs=True), list[int | DMError]()
    snapshot = waiting(gate, reads, found)
    assert reads.opening.wait(60)
    monkeypatch.setattr(rounds, "MOST_STALL", 0.01)
    gate.reported(4)
    monkeypatch.setattr(rounds, "MOST_STALL", 600.0)
    syncer = threading.Thread(target=gate.applying, daemon=True)
    syncer.start()
    syncer.join(30)
    waits = syncer.is_alive()
    reads.go.set()
    snapshot.join()
    assert not waits


@pytest.mark.parametrize("end", ["abandoned", "stopped"])
def test_a_batch_that_is_never_reported_does_not_delay_it(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BOUNDARY_WAIT", 600.0)
    gate, reads, found, stopped = SnapshotGate(), Reads(), list[int | DMError](), threading.Event()
    gate.reported(4)
    gate.applying()
    snapshot = waiting(gate, reads, found, stopped.is_set)
    if end == "stopped":
        stopped.set()
    else:
        gate.abandoned()
    snapshot.join(60)
    assert found == [4]


@pytest.mark.parametrize("boundary", [0.01, 60.0])
def test_replication_continues_while_the_target_does_not_open_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, boundary: float
) -> None:
    monkeypatch.setattr(rounds, "BOUNDARY_WAIT", boundary)
    monkeypatch.setattr(rounds, "MOST_STALL", 0.01)
    gate, reads, found = SnapshotGate(), Reads(hangs=True), list[int | DMError]()
    gate.applying()
    snapshot = waiting(gate, reads, found)
    number = report_until(reads.opening.is_set, gate, 4)
    last = report_until(lambda: True, gate, number)
    assert snapshot.is_alive()
    reads.go.set()
    snapshot.join()
    assert isinstance(found[0], int)
    assert found[0] <= number < last


def test_a_failed_opening_does_not_reach_the_syncer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BOUNDARY_WAIT", 60.0)
    gate, reads, found = SnapshotGate(), Reads(fails=True), list[int | DMError]()
    thread = waiting(gate, reads, found)
    report_until(lambda: not thread.is_alive(), gate, 0)
    assert isinstance(found[0], DMError)
