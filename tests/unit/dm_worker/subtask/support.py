"""A subtask with units that do what a script says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dm_worker.subtask.auto_resume import ResumePolicy
from dm_worker.subtask.subtask import SubTask
from dm_worker.subtask.unit import Control, Unit, UnitOutcome
from pkg import errors
from pkg.config.model import CheckerConfig, SubTaskConfig
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)
LOST = errors.new(Code.DBBadConn, "connection lost")
FINAL = errors.new(Code.SyncUnitDDLWrongSequence, "another DDL")


class Scripted:
    """A unit whose runs do what the script says; ``wait`` runs until stopped."""

    received_bytes = 0

    def __init__(self, unit_type: pb.UnitType, script: list[str], finished: bool = False) -> None:
        self.unit_type = unit_type
        self.script = script
        self.finished = finished
        self.running = 0
        self.runs = 0
        self.stops: list[bool] = []
        self._stop = threading.Event()
        #: Cleared while it is to initialise, or to be probed, without an end.
        self.ready = threading.Event()
        self.ready.set()
        self.began = 0
        self.safe_requests: list[int] = []

    def is_finished(self) -> bool:
        assert self.ready.wait(60)
        return self.finished

    def run(self, control: Control | None = None) -> UnitOutcome:
        # Before it shows that it runs: who waits for that compares their number later.
        self.runs += 1
        self.running += 1
        assert self.running == 1, "two runs of one unit at once"
        try:
            assert control is not None
            self.safe_requests.append(control.safe_request)
            # As a unit may: what was asked before the run began is forgotten.
            self._stop.clear()
            assert self.ready.wait(60)
            if not control.try_begin():
                return UnitOutcome(errors=[LOST])
            self.began += 1
            if control.is_stopping():
                return UnitOutcome(canceled=True)
            match self.script.pop(0) if self.script else "wait":
                case "raise":
                    raise ValueError("a bug")
                case "fail":
                    return UnitOutcome(errors=[LOST])
                case "final":
                    return UnitOutcome(errors=[FINAL])
                case "done":
                    return UnitOutcome(finished=True)
            self._stop.wait(30)
            return UnitOutcome(canceled=True)
        finally:
            self.running -= 1

    def stop(self, *, graceful: bool, control: Control | None = None) -> None:
        self.stops.append(graceful)
        self._stop.set()

    def fill(self, status: pb.SubTaskStatus, received_before: int) -> None:
        if self.unit_type == pb.Dump:
            raise ValueError("a bug in status")
        if self.unit_type == pb.Sync:
            status.sync.CopyFrom(pb.SyncStatus(totalRows=5, dumpIOTotalBytes=received_before))

    def remove_meta(self) -> None:
        raise AssertionError("nobody asked for that")


def make(mode: str, *scripted: Scripted, **options: object) -> SubTask:
    by_type = {unit.unit_type: unit for unit in scripted}

    def unit(unit_type: pb.UnitType) -> Unit:
        return by_type[unit_type]

    config = SubTaskConfig(name="t", source_id="s", task_mode=mode, from_=SERVER, to=SERVER)  # type: ignore[arg-type]
    policy = ResumePolicy(CheckerConfig(backoff_min=0.01, backoff_max=0.01))
    return SubTask(config, unit, policy, **options)  # type: ignore[arg-type]


def until(ready: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "did not come about"
        time.sleep(0.002)


def at(subtask: SubTask, stage: int) -> None:
    until(lambda: subtask.state.stage == stage)
