"""Lag grows because a steady trickle is given out in crumbs: a job for one transaction costs as much as for many."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from dm_worker.syncer import reader
from dm_worker.syncer.batch import Batch
from dm_worker.syncer.batch_policy import BatchPolicy, Budget
from dm_worker.syncer.planner import Planner
from dm_worker.syncer.reader import Instructions, Reader
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.binlog.stream import BinlogStream
from tests.harness.process import wait_until

SIZE = 1000
PLACE = Location(Position("bin.000001", 4))


def batch(size: int) -> Batch:
    return Batch(PLACE, PLACE, [], {}, 1, size, 0)


class Trickle:
    """A stream, and the planner that takes it: each read brings one small transaction, so none finds it quiet.

    Time goes by with the reads, half a millisecond each: how many come in a while does not depend on the machine.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.waiting_bytes = 0
        self.bytes_read = 0
        self.can_scan, self.reached, self.errand, self.read_from = False, False, "", PLACE
        self.out: list[Batch] = []
        self.file = "bin.000001"
        self.bounds: set[int] = set()

    def bound(self, batch_bytes: int) -> None:
        self.bounds.add(batch_bytes)

    @property
    def has_rows(self) -> bool:
        return self.waiting_bytes > 0

    has_pending = has_rows

    def read(self, max_bytes: int, timeout: float, scan: object = None) -> list[Event]:
        self.reads += 1
        return [cast(Event, None)]

    def monotonic(self) -> float:
        return 1.0 + self.reads * 0.0005

    def go_on(self, reads: int) -> None:
        """Waits until so many more reads were made."""
        end = self.reads + reads
        wait_until(lambda: self.reads >= end, f"{reads} reads", step=0.0001)

    def feed(self, events: list[Event]) -> int:
        self.waiting_bytes += SIZE * len(events)
        return len(events)

    def close(self) -> None:
        if self.waiting_bytes:
            self.out.append(batch(self.waiting_bytes))
            self.waiting_bytes = 0

    def take_jump(self) -> bool:
        return False

    def abort(self) -> None:
        self.reached = True


def sizes_given(stream: Trickle, take: Callable[[Instructions], Batch], work: int) -> list[int]:
    """What 20 turns of a main loop get that ``take`` from the queue and then work for so many reads."""
    queue = Instructions(1 << 30)
    planner, opened = cast(Planner, stream), cast(BinlogStream, stream)
    started = Reader([planner], lambda _: opened, queue, BatchPolicy(Budget.of(1 << 30)))
    started.start()
    try:
        found = []
        for _ in range(20):
            found.append(take(queue).size)
            stream.go_on(work)
        return found
    finally:
        stream.reached = True
        started.stop()


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Trickle:
    stream = Trickle()
    monkeypatch.setattr(reader, "time", SimpleNamespace(monotonic=stream.monotonic))
    return stream


def test_a_batch_holds_what_came_in_while_the_one_before_was_applied(stream: Trickle) -> None:
    def take(queue: Instructions) -> Batch:
        while True:
            item = queue.get(0.0)
            if isinstance(item, Batch):
                return item
            stream.go_on(20)  # a checkpoint is written

    sizes = sizes_given(stream, take, 40)
    assert min(sizes[1:]) >= 5 * SIZE, "a batch with less than 3 ms of the stream"


def test_the_first_of_a_trickle_waits_for_company_every_time(stream: Trickle) -> None:
    def take(queue: Instructions) -> Batch:
        item = queue.get(60.0)
        assert isinstance(item, Batch)
        return item

    sizes = sizes_given(stream, take, 0)
    assert min(sizes) >= 5 * SIZE


def test_the_planner_is_told_how_large_batches_may_be_now(stream: Trickle) -> None:
    policy = BatchPolicy(Budget.of(1 << 30))
    planner, opened = cast(Planner, stream), cast(BinlogStream, stream)
    started = Reader([planner], lambda _: opened, Instructions(1 << 30), policy)
    started.start()
    try:
        stream.go_on(2)
        whole = policy.most
        policy.observe(whole, small=False, seconds=3600.0)
        stream.go_on(2)
        assert stream.bounds == {whole, policy.most}
        assert policy.most < whole
    finally:
        stream.reached = True
        started.stop()


def test_a_main_loop_that_has_something_waiting_is_not_hungry() -> None:
    queue = Instructions(1 << 20)
    assert queue.get(0.0) is None
    assert queue.hungry
    queue.put(batch(SIZE))
    assert not queue.hungry, "the next batch may grow until this one is taken and applied"
    assert queue.get(0.0) is not None
    assert not queue.hungry
