"""Hazard: a snapshot that is said to contain batches that were complete only after it began."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from dm_worker.validator import rounds
from dm_worker.validator.rounds import SnapshotGate
from dm_worker.validator.target_reads import TargetReads
from pkg import errors
from pkg.errors import Code, DMError


class Reads:
    """Notes the thread that opens it; fails if told so."""

    def __init__(self, *, fails: bool = False) -> None:
        self.prepared = threading.Event()
        self.opened: list[str] = []
        self._fails = fails

    def prepare(self) -> None:
        self.prepared.set()

    def open(self) -> None:
        self.opened.append(threading.current_thread().name)
        if self._fails:
            raise errors.new(Code.DBBadConn, "as told", retryable=True)


def waiting(gate: SnapshotGate, reads: Reads, found: list[int | DMError]) -> threading.Thread:
    def wait() -> None:
        try:
            found.append(gate.snapshot(cast(TargetReads, reads)))
        except DMError as exc:
            found.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    assert reads.prepared.wait(10)
    return thread


def test_the_syncers_thread_opens_it_between_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BOUNDARY_WAIT", 60.0)
    gate, reads, found = SnapshotGate(), Reads(), list[int | DMError]()
    gate.reported(4)
    thread = waiting(gate, reads, found)
    number = 4
    while thread.is_alive():
        number += 1
        gate.reported(number)
        thread.join(0.05)
    assert reads.opened == [threading.current_thread().name]
    assert isinstance(found[0], int)
    assert 5 <= found[0] <= number


def test_without_a_batch_it_opens_at_once_and_contains_what_was_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BOUNDARY_WAIT", 0.01)
    gate, reads, found = SnapshotGate(), Reads(), list[int | DMError]()
    gate.reported(4)
    waiting(gate, reads, found).join()
    gate.reported(5)
    assert found == [4]
    assert len(reads.opened) == 1


def test_a_failed_opening_does_not_reach_the_syncer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BOUNDARY_WAIT", 60.0)
    gate, reads, found = SnapshotGate(), Reads(fails=True), list[int | DMError]()
    thread = waiting(gate, reads, found)
    while thread.is_alive():
        gate.reported(1)
        thread.join(0.05)
    assert isinstance(found[0], DMError)
