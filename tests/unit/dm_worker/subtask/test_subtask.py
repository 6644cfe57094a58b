"""Hazard: stops, ends and new starts of real threads race, and a run goes on or a subtask hangs."""

from __future__ import annotations

import random
import threading
import time

import pytest

from dm_worker.subtask.subtask import SubTask
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from tests.unit.dm_worker.subtask.support import Scripted, at, make, until


def test_a_bug_in_a_unit_pauses_with_an_error_instead_of_a_dead_thread() -> None:
    sync = Scripted(pb.Sync, ["raise"])
    subtask = make("incremental", sync)
    subtask.expect(pb.Running)
    at(subtask, pb.Paused)
    status = subtask.status()
    assert status.result.errors[0].ErrCode == 50000
    assert "a bug" in status.result.errors[0].Message
    assert status.sync.totalRows == 5
    subtask.expect(pb.Running)
    at(subtask, pb.Running)
    subtask.kill()
    assert subtask.join(60)


def test_a_bug_in_one_status_is_reported_and_not_raised() -> None:
    subtask = make("all", Scripted(pb.Dump, []), Scripted(pb.Load, []), Scripted(pb.Sync, []))
    subtask.expect(pb.Running)
    at(subtask, pb.Running)
    assert "a bug in status" in subtask.status().msg
    subtask.kill()
    assert subtask.join(60)


def test_a_unit_shows_what_the_units_before_it_received() -> None:
    dump, load, sync = Scripted(pb.Dump, ["done"]), Scripted(pb.Load, ["done"]), Scripted(pb.Sync, [])
    dump.received_bytes, load.received_bytes, sync.received_bytes = 9, 1, 100
    subtask = make("all", dump, load, sync)
    subtask.expect(pb.Running)
    until(lambda: sync.began == 1)
    status = subtask.status()
    assert status.WhichOneof("status") == "sync"
    assert status.sync.dumpIOTotalBytes == 10
    subtask.kill()
    assert subtask.join(60)


def test_the_checker_resumes_after_the_backoff() -> None:
    subtask = make("incremental", Scripted(pb.Sync, ["fail", "wait"]))
    subtask.expect(pb.Running)
    at(subtask, pb.Paused)

    def resumed() -> bool:
        subtask.tick(time.monotonic())
        return subtask.state.stage == pb.Running

    until(resumed)
    subtask.kill()
    assert subtask.join(60)


def test_a_complete_load_is_believed_although_its_dump_is_gone() -> None:
    sync = Scripted(pb.Sync, [])
    dump = Scripted(pb.Dump, [])
    subtask = make("all", dump, Scripted(pb.Load, [], finished=True), sync)
    subtask.expect(pb.Running)
    at(subtask, pb.Running)
    assert subtask.state.unit == pb.Sync
    assert dump.runs == 0
    subtask.kill()
    assert subtask.join(60)


def test_a_refusal_before_a_unit_keeps_it_from_running() -> None:
    def refuse(unit: pb.UnitType) -> None:
        raise errors.new(Code.LoadTaskWorkerNotMatch, "elsewhere")

    load = Scripted(pb.Load, [])
    subtask = make("load", load, before_unit=refuse)
    subtask.expect(pb.Running)
    at(subtask, pb.Paused)
    assert load.runs == 0
    assert subtask.status().result.errors[0].ErrCode == 34017
    subtask.kill()
    assert subtask.join(60)


@pytest.mark.parametrize(("end", "may_pass"), [("fail", True), ("final", False)])
def test_failures_are_reported_with_whether_they_may_pass(
    end: str, may_pass: bool, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[tuple[int, bool]] = []
    subtask = make(
        "incremental", Scripted(pb.Sync, [end]), on_failure=lambda _, unit, may: reported.append((unit, may))
    )
    subtask.expect(pb.Running)
    at(subtask, pb.Paused)
    until(lambda: reported == [(pb.Sync, may_pass)])
    assert ("task can't auto resume" in caplog.text) != may_pass
    subtask.kill()
    assert subtask.join(60)


@pytest.mark.parametrize("seed", range(4))
def test_no_stop_is_lost_and_none_hits_the_next_run(seed: int) -> None:
    rng = random.Random(seed)
    sync = Scripted(pb.Sync, [])
    subtask = make("incremental", sync)
    for _ in range(60):
        subtask.expect(pb.Running)
        if rng.random() < 0.7:
            time.sleep(rng.random() * 0.004)
        subtask.expect(pb.Paused)
        if rng.random() < 0.5:
            at(subtask, pb.Paused)
    at(subtask, pb.Paused)
    assert sync.running == 0
    subtask.expect(pb.Running)
    until(lambda: sync.running == 1)
    runs = sync.runs
    time.sleep(0.7)  # longer than the interval at which a stop is repeated
    assert (subtask.state.stage, sync.runs) == (pb.Running, runs), "a late stop hit the next run"
    subtask.expect(pb.Stopped)
    assert subtask.join(60)
    assert subtask.state.stage == pb.Stopped


@pytest.mark.parametrize("stage", [pb.Paused, pb.Stopped])
def test_a_unit_that_initialises_is_not_waited_for_and_never_begins(stage: int) -> None:
    sync = Scripted(pb.Sync, [])
    sync.ready.clear()
    subtask = make("incremental", sync)
    subtask.expect(pb.Running)
    sync.ready.set()
    at(subtask, pb.Running)
    until(lambda: sync.began == 1)
    subtask.expect(pb.Paused)
    at(subtask, pb.Paused)
    sync.ready.clear()
    subtask.expect(pb.Running)
    until(lambda: sync.runs == 2)
    # At once: its thread is in the middle of something that does not end.
    subtask.expect(stage)
    assert subtask.state.stage == stage
    assert not subtask.ended
    assert not subtask.status().result.errors
    if stage == pb.Paused:
        subtask.expect(pb.Running)
        assert subtask.state.stage == pb.Resuming
    sync.ready.set()
    if stage == pb.Paused:
        at(subtask, pb.Running)
        until(lambda: sync.began == 2)
        assert sync.runs == 3
        subtask.kill()
    assert subtask.join(60)
    assert sync.began == (2 if stage == pb.Paused else 1)


def test_a_probe_that_is_not_answered_is_not_waited_for() -> None:
    sync = Scripted(pb.Sync, [])
    sync.ready.clear()
    ended: list[bool] = []
    subtask = make("incremental", sync, on_change=lambda one: ended.append(one.ended))
    subtask.expect(pb.Running)
    subtask.expect(pb.Paused)
    assert subtask.state.stage == pb.Paused
    subtask.expect(pb.Running)
    subtask.expect(pb.Stopped)
    assert subtask.state.stage == pb.Stopped
    assert not subtask.join(0)
    sync.ready.set()
    assert subtask.join(60)
    assert ended[-1], "whoever waits for the end is told of it"
    assert sync.runs == 0


def test_a_subtask_goes_on_although_its_listener_fails() -> None:
    calls = 0

    def fail(_: SubTask) -> None:
        nonlocal calls
        calls += 1
        if threading.current_thread().name == "subtask-t":
            raise ZeroDivisionError("a bug")

    sync = Scripted(pb.Sync, ["fail"])
    subtask = make("incremental", sync, on_change=fail)
    subtask.expect(pb.Running)
    at(subtask, pb.Paused)
    subtask.expect(pb.Running)
    until(lambda: sync.runs == 2)
    subtask.expect(pb.Stopped)
    assert subtask.join(60)
    assert calls >= 4


def test_an_order_for_safe_mode_goes_to_every_run_until_another_stage_is_asked_for() -> None:
    sync = Scripted(pb.Sync, ["final", "fail"])
    subtask = make("incremental", sync)
    subtask.expect(pb.Running)
    at(subtask, pb.Paused)
    subtask.expect(pb.Running, safe_request=7)
    # The run fails before it meets the order; then auto-resume starts the next one.
    until(lambda: sync.runs == 2)
    at(subtask, pb.Paused)
    subtask.tick(time.monotonic() + 60)
    until(lambda: sync.runs == 3)
    subtask.expect(pb.Paused)
    at(subtask, pb.Paused)
    subtask.expect(pb.Running)
    until(lambda: sync.runs == 4)
    assert sync.safe_requests == [0, 7, 7, 0]
    subtask.kill()
    assert subtask.join(60)
