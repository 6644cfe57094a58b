"""Hazard: lag grows because a steady trickle is given out in tiny batches, which cost as much as large ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from deploy.local.process import wait_until
from dm_worker.syncer.planning import planning_thread
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchKind, BatchPolicy, Budget
from dm_worker.syncer.planning.instructions import BinlogStatement
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.planning_thread import InstructionQueue, PlanningThread
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.stream import BinlogStream

SIZE = 1000
PLACE = Location(Position("bin.000001", 4))


def batch(size: int) -> Batch:
    return Batch(PLACE, PLACE, [], {}, 1, size, 0)


def unknown(data: bytes, position: Position) -> tuple[None, bool]:
    """No table is migrated."""
    return None, False


class Trickle:
    """A stream, and the planner that takes it: each read brings one small transaction, so none finds it quiet.

    Time goes by with the reads, half a millisecond each: how many come in a while does not depend on the machine.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.waiting_bytes = 0
        self.bytes_read = 0
        self.can_scan, self.reached, self.reopen_reason, self.read_from = False, False, "", PLACE
        self.needed_table = None
        self.out: list[Batch] = []
        self.file = "bin.000001"
        self.bounds: set[int] = set()

    def bound(self, batch_bytes: int) -> None:
        self.bounds.add(batch_bytes)

    @property
    def has_rows(self) -> bool:
        return self.waiting_bytes > 0

    has_pending = has_rows

    @property
    def progress(self) -> Trickle:
        return self

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

    def take_instructions(self) -> list[Batch]:
        taken, self.out = self.out, []
        return taken

    def take_reopen_request(self) -> bool:
        return False

    def abort(self) -> None:
        self.reached = True


def sizes_given(stream: Trickle, take: Callable[[InstructionQueue], Batch], work: int) -> list[int]:
    """What 20 turns of a main loop get that ``take`` from the queue and then work for so many reads."""
    queue = InstructionQueue(1 << 30)
    planner, opened = cast(Planner, stream), cast(BinlogStream, stream)
    started = PlanningThread([planner], lambda _: opened, unknown, queue, BatchPolicy(Budget.of(1 << 30)), lambda: None)
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
    monkeypatch.setattr(planning_thread, "time", SimpleNamespace(monotonic=stream.monotonic))
    return stream


def test_a_batch_holds_what_came_in_while_the_one_before_was_applied(stream: Trickle) -> None:
    def take(queue: InstructionQueue) -> Batch:
        while True:
            item = queue.get(0.0)
            if isinstance(item, Batch):
                return item
            stream.go_on(20)  # a checkpoint is written

    sizes = sizes_given(stream, take, 40)
    assert min(sizes[1:]) >= 5 * SIZE, "a batch with less than 3 ms of the stream"


def test_the_first_of_a_trickle_waits_for_company_every_time(stream: Trickle) -> None:
    def take(queue: InstructionQueue) -> Batch:
        item = queue.get(60.0)
        assert isinstance(item, Batch)
        return item

    sizes = sizes_given(stream, take, 0)
    assert min(sizes) >= 5 * SIZE


def test_the_planner_learns_how_large_batches_may_be_now(stream: Trickle) -> None:
    policy = BatchPolicy(Budget.of(1 << 30))
    planner, opened = cast(Planner, stream), cast(BinlogStream, stream)
    started = PlanningThread([planner], lambda _: opened, unknown, InstructionQueue(1 << 30), policy, lambda: None)
    started.start()
    try:
        stream.go_on(2)
        whole = policy.most
        policy.observe(whole, kind=BatchKind.LARGE, seconds=3600.0)
        stream.go_on(2)
        assert stream.bounds == {whole, policy.most}
        assert policy.most < whole
    finally:
        stream.reached = True
        started.stop()


def test_a_main_loop_that_has_something_waiting_is_not_hungry() -> None:
    queue = InstructionQueue(1 << 20)
    assert queue.get(0.0) is None
    assert queue.idle
    queue.put(batch(SIZE))
    assert not queue.idle, "the next batch may grow until this one is taken and applied"
    assert queue.get(0.0) is not None
    assert not queue.idle


class Asking(Trickle):
    """A planner that asks a server which does not answer, until the connection is broken off."""

    def __init__(self) -> None:
        super().__init__()
        self.asks, self.broken = threading.Event(), threading.Event()

    def feed(self, events: list[Event]) -> int:
        self.asks.set()
        self.broken.wait()
        return len(events)


def test_a_stopped_reader_leaves_the_connections_to_others_however_long_a_question_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After 30 s it was left alone, and two threads read each other's answers from one connection."""
    monkeypatch.setattr(planning_thread, "STOP_TIMEOUT", 0.05)
    stream = Asking()
    planner, opened = cast(Planner, stream), cast(BinlogStream, stream)
    queue, policy = InstructionQueue(1 << 30), BatchPolicy(Budget.of(1 << 30))
    started = PlanningThread([planner], lambda _: opened, unknown, queue, policy, stream.broken.set)
    started.start()
    assert stream.asks.wait(60)
    started.stop()
    assert stream.broken.is_set()
    assert not any(thread.name == "syncer-planning" for thread in threading.enumerate())


class Planned(Trickle):
    """A planner that gives out a statement, and is stopped in between."""

    def __init__(self, stopped: Callable[[], None]) -> None:
        super().__init__()
        self._stopped = stopped

    def feed(self, events: list[Event]) -> int:
        self._stopped()
        self.out = [BinlogStatement(cast(Event, None), PLACE.position, PLACE, PLACE, PLACE, "")]  # type: ignore[list-item]
        return len(events)


def test_a_reader_that_is_stopped_before_it_waits_for_its_statement_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning_thread, "STOP_TIMEOUT", 0.05)
    turns: list[int] = []
    asked = threading.Event()

    def stopped() -> None:
        asked.set()
        wait_until(started._resume.is_set, "the stop is under way", step=0.001)

    def interrupt() -> None:
        turns.append(1)
        assert len(turns) < 200, "it waits for ever"

    stream = Planned(stopped)
    planner, opened = cast(Planner, stream), cast(BinlogStream, stream)
    started = PlanningThread(
        [planner], lambda _: opened, unknown, InstructionQueue(1 << 30), BatchPolicy(Budget.of(1 << 30)), interrupt
    )
    started.start()
    assert asked.wait(60)
    started.stop()


class Silent(Trickle):
    """A stream without events."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: set[float] = set()

    def read(self, max_bytes: int, timeout: float, scan: object = None) -> list[Event]:
        self.reads += 1
        self.timeouts.add(timeout)
        return []


def test_a_reader_of_a_silent_upstream_wakes_up_four_times_a_second_at_most() -> None:
    """Ten idle tasks cost 3 % of a core when each woke up 20 times a second."""
    stream = Silent()
    planner, opened = cast(Planner, stream), cast(BinlogStream, stream)
    policy = BatchPolicy(Budget.of(1 << 30))
    started = PlanningThread([planner], lambda _: opened, unknown, InstructionQueue(1 << 30), policy, lambda: None)
    started.start()
    stream.go_on(3)
    started.stop()
    assert min(stream.timeouts) >= 0.25


def test_a_waiting_main_loop_can_be_woken_also_just_before_it_waits() -> None:
    queue = InstructionQueue(1 << 20)
    queue.wake()
    assert queue.get(600.0) is None
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(queue.get(600.0)), daemon=True)
    waiting.start()
    wait_until(lambda: queue.idle, "it waits")
    queue.wake()
    waiting.join(60)
    assert found == [None]
    queue.wake()
    queue.put(batch(SIZE))
    assert queue.get(600.0) is not None, "an item is not lost"
    assert queue.get(0.0) is None
