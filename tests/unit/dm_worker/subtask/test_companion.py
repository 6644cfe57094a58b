"""Hazard: a companion of a unit stops its subtask, outlives it, or does not run beside the unit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dm_worker.subtask.companion import FailSubTask
from dm_worker.subtask.subtask import SubTask
from pkg import errors
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.pb import dmworker_pb2 as pb
from tests.unit.dm_worker.subtask.support import Scripted, at, make, until

DIFFERENT = errors.new(Code.ValidatorValidateChange, "a row differs", workaround=f"Find out why: {Advice.COPY_AGAIN}.")


class Counter:
    """A companion of the sync unit that counts its steps until it is stopped, or fails on request."""

    unit_type = pb.Sync

    def __init__(self) -> None:
        self.stage: pb.Stage = pb.New
        self.errors: list[errors.DMError] = []
        self.starts = self.running = self.steps = 0
        self.fail: FailSubTask | None = None
        self.broken = ""
        #: Cleared while it does not end although it was stopped.
        self.may_end = threading.Event()
        self.may_end.set()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, fail: FailSubTask) -> None:
        self.starts += 1
        if self.broken == "start":
            raise ZeroDivisionError("a bug in start")
        self.fail, self.stage, self._stopping = fail, pb.Running, threading.Event()
        arguments = (self._stopping, self._threads[-1:])
        self._threads.append(threading.Thread(target=self._run, args=arguments))
        self._threads[-1].start()

    def _run(self, stopping: threading.Event, former: list[threading.Thread]) -> None:
        for thread in former:
            thread.join()
        self.running += 1
        while not stopping.wait(0.001):
            self.steps += 1
        assert self.may_end.wait(60)
        self.running -= 1

    def stop(self) -> None:
        if self.stage == pb.Running:
            self.stage = pb.Stopped
        self._stopping.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def break_off(self) -> None:
        """Ends with an error that only its own status shows."""
        self.errors, self.stage = [DIFFERENT], pb.Paused
        self._stopping.set()

    def fill(self, status: pb.SubTaskStatus) -> None:
        if self.broken == "fill":
            raise ZeroDivisionError("a bug in fill")
        messages = [pb.ProcessError(Message=error.message) for error in self.errors]
        result = pb.ProcessResult(errors=messages)
        status.validation.CopyFrom(pb.ValidationStatus(stage=self.stage, mode="fast", result=result))


@contextmanager
def ended(subtask: SubTask) -> Iterator[SubTask]:
    try:
        yield subtask
    finally:
        subtask.kill()
        assert subtask.join(60)


def test_it_starts_when_its_unit_begins_and_not_with_an_earlier_one() -> None:
    counter = Counter()
    load, sync = Scripted(pb.Load, ["done"]), Scripted(pb.Sync, [])
    initialises, may_begin = threading.Event(), threading.Event()

    def before(unit: pb.UnitType) -> None:
        if unit == pb.Sync:
            initialises.set()
            assert may_begin.wait(60)

    with ended(make("load&sync", load, sync, companions=[counter], before_unit=before)) as subtask:
        assert subtask.status().validation.stage == pb.New
        subtask.expect(pb.Running)
        assert initialises.wait(60)
        assert (load.began, counter.starts) == (1, 0), "the sync unit has changed nothing, and may still fail"
        may_begin.set()
        until(lambda: counter.steps > 0)
        status = subtask.status()
    assert (status.validation.stage, status.validation.mode) == (pb.Running, "fast")
    assert status.sync.totalRows == 5, "the unit's own status stays"


def test_a_pause_stops_it_and_a_resume_continues_it() -> None:
    counter = Counter()
    with ended(make("incremental", Scripted(pb.Sync, []), companions=[counter])) as subtask:
        subtask.expect(pb.Running)
        until(lambda: counter.steps > 0)
        subtask.expect(pb.Paused)
        until(lambda: counter.running == 0)
        at(subtask, pb.Paused)
        steps = counter.steps
        assert subtask.status().validation.stage == pb.Stopped
        subtask.expect(pb.Running)
        until(lambda: counter.steps > steps)
        assert (counter.starts, counter.running) == (2, 1)


def test_it_stops_when_its_unit_fails() -> None:
    counter = Counter()
    sync = Scripted(pb.Sync, ["wait", "final"])
    with ended(make("incremental", sync, companions=[counter])) as subtask:
        subtask.expect(pb.Running)
        until(lambda: counter.running == 1)
        subtask.expect(pb.Paused)
        at(subtask, pb.Paused)
        subtask.expect(pb.Running)
        until(lambda: sync.runs == 2 and subtask.state.failed)
        until(lambda: counter.starts == 2 and counter.running == 0)
        assert counter.stage == pb.Stopped


def test_its_error_is_its_own() -> None:
    counter, sync = Counter(), Scripted(pb.Sync, [])
    with ended(make("incremental", sync, companions=[counter])) as subtask:
        subtask.expect(pb.Running)
        until(lambda: counter.running == 1)
        counter.break_off()
        until(lambda: counter.running == 0)
        status = subtask.status()
        assert (status.validation.stage, status.validation.result.errors[0].Message) == (pb.Paused, "a row differs")
        assert (status.stage, list(status.result.errors), sync.running) == (pb.Running, [], 1)
        subtask.expect(pb.Paused)
        at(subtask, pb.Paused)
        assert subtask.status().result == pb.ProcessResult(isCanceled=True)
        assert subtask.status().validation.stage == pb.Paused


def test_it_pauses_the_subtask_when_it_says_so() -> None:
    counter, sync = Counter(), Scripted(pb.Sync, [])
    with ended(make("incremental", sync, companions=[counter])) as subtask:
        subtask.expect(pb.Running)
        until(lambda: counter.running == 1)
        assert counter.fail is not None
        counter.fail([DIFFERENT])
        at(subtask, pb.Paused)
        assert (sync.running, sync.stops[0]) == (0, True), "at a safe point"
        until(lambda: counter.running == 0)
        (error,) = subtask.status().result.errors
        assert error.Message == "a row differs"
        expected = "Find out why: `dmctl stop-task t`, empty the target tables"
        assert error.Workaround.startswith(expected), "with the name of the task"
        subtask.expect(pb.Running)
        until(lambda: counter.running == 1 and sync.running == 1)
        assert not subtask.status().result.errors


def test_a_late_failure_of_a_former_run_is_ignored() -> None:
    counter, sync = Counter(), Scripted(pb.Sync, [])
    with ended(make("incremental", sync, companions=[counter])) as subtask:
        subtask.expect(pb.Running)
        until(lambda: counter.running == 1)
        former = counter.fail
        assert former is not None
        subtask.expect(pb.Paused)
        at(subtask, pb.Paused)
        former([DIFFERENT])
        assert subtask.status().result == pb.ProcessResult(isCanceled=True)
        subtask.expect(pb.Running)
        until(lambda: counter.starts == 2)
        former([DIFFERENT])
        assert (subtask.state.stage, sync.running) == (pb.Running, 1)


@pytest.mark.parametrize("method", ["start", "fill"])
def test_a_bug_in_it_is_logged_and_the_subtask_goes_on(method: str, caplog: pytest.LogCaptureFixture) -> None:
    counter, sync = Counter(), Scripted(pb.Sync, [])
    counter.broken = method
    with ended(make("incremental", sync, companions=[counter])) as subtask:
        subtask.expect(pb.Running)
        until(lambda: sync.began == 1)
        assert subtask.status().sync.totalRows == 5
        assert (subtask.state.stage, counter.starts) == (pb.Running, 1)
    traces = [record.__dict__["fields"]["trace"] for record in caplog.records if record.levelname == "ERROR"]
    assert traces
    assert all(f"a bug in {method}" in trace for trace in traces)


@pytest.mark.parametrize("kill", [False, True])
def test_the_subtask_does_not_end_before_it(kill: bool) -> None:
    counter, sync = Counter(), Scripted(pb.Sync, [])
    subtask = make("incremental", sync, companions=[counter])
    subtask.expect(pb.Running)
    until(lambda: counter.running == 1)
    counter.may_end.clear()
    if kill:
        subtask.kill()
    else:
        subtask.expect(pb.Stopped)
    at(subtask, pb.Stopped)
    assert counter.stage == pb.Stopped
    assert not subtask.join(0)
    assert not subtask.ended, "a subtask of the same name could begin while it still works"
    counter.may_end.set()
    assert subtask.join(60)
    assert subtask.ended
    assert counter.running == 0
