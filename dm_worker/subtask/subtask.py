"""A running subtask: executes the state machine's instructions in one thread that runs its units one after another."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from dm_worker.subtask import stage as stages
from dm_worker.subtask.auto_resume import ResumePolicy, resumable
from dm_worker.subtask.companion import Companion
from dm_worker.subtask.unit import Control, Unit, UnitOutcome
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.errors.workarounds import way_on
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger

log = get_logger(__name__)

#: Grace period in seconds for a unit to reach a safe point, then it is stopped at once. Less than the 10 s for which a
#: master waits for a pause or stop, so that the command's answer contains the result.
GRACE = 8.0
#: Seconds between repeated stops until the unit ends: a job may start after the first stop.
_STOP_AGAIN = 0.5


@dataclass(slots=True)
class _Run:
    """One run of a unit, so that a late stop cannot affect the next run."""

    unit: Unit
    control: Control
    done: threading.Event = field(default_factory=threading.Event)


class SubTask:
    """One task's part on one source.

    ``make_unit`` creates the unit of a type. ``before_unit`` and ``after_unit`` are called before and after a unit's
    successful run, in the subtask's thread; an exception of theirs fails the run. ``on_change`` is called from any
    thread after each change of stage or unit, ``on_failure`` for each failed run, with the unit type and whether
    auto-resume may help. ``companions`` run beside the units (:mod:`dm_worker.subtask.companion`).
    """

    def __init__(
        self,
        config: SubTaskConfig,
        make_unit: Callable[[pb.UnitType], Unit],
        policy: ResumePolicy,
        *,
        before_unit: Callable[[pb.UnitType], None] = lambda _: None,
        after_unit: Callable[[pb.UnitType], None] = lambda _: None,
        on_change: Callable[[SubTask], None] = lambda _: None,
        on_failure: Callable[[SubTask, pb.UnitType, bool], None] = lambda *_: None,
        companions: Sequence[Companion] = (),
        grace: float = GRACE,
    ) -> None:
        self.config = config
        self._make_unit = make_unit
        self._policy = policy
        self._before_unit = before_unit
        self._after_unit = after_unit
        self._on_change = on_change
        self._on_failure = on_failure
        self._companions = companions
        self._grace = grace
        self._lock = threading.Lock()
        self._state = stages.initial(config.task_mode)
        self._units: list[Unit] = []
        self._run: _Run | None = None
        self._safe_request = 0
        self._work: queue.SimpleQueue[stages.SubTaskInstruction] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"subtask-{config.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def companions(self) -> Sequence[Companion]:
        return self._companions

    @property
    def state(self) -> stages.SubTaskState:
        with self._lock:
            return self._state

    def expect(self, stage: int, safe_request: int = 0) -> None:
        """Asks for Running, Paused or Stopped; returns at once. Asking for Running resumes a failed subtask.

        ``safe_request`` is passed to the runs that follow (:class:`Control`), until another stage is asked for.
        """
        with self._lock:
            self._safe_request = safe_request
        self._send(stages.Expect(stage))

    def kill(self) -> None:
        """Stops for good without waiting for a safe point; returns at once."""
        self._send(stages.Kill())

    @property
    def ended(self) -> bool:
        """Whether a stopped subtask's thread has finished its work."""
        return self._ended.is_set()

    def join(self, timeout: float) -> bool:
        """Waits until a stopped subtask's thread has ended; False if it still runs after ``timeout`` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def tick(self, now: float) -> None:
        """Called regularly by the checker: resumes the subtask if it failed and its backoff has passed."""
        with self._lock:
            state = self._state
            due = state.failed and self._policy.due(now)
            if state.stage == pb.Running:
                self._policy.healthy(now)
        if due:
            log.info("resuming the subtask automatically", task=self.name, source=self.config.source_id)
            self._send(stages.AutoResume())

    def retry(self) -> bool:
        """Resumes at once if an error stopped the subtask; False if it runs, or is paused by request."""
        state = self.state
        self._send(stages.AutoResume())
        return state.failed and state.expected == pb.Running

    def unit(self) -> Unit | None:
        """The current unit; None while it is not known."""
        with self._lock:
            return self._units[self._state.index] if self._units else None

    def status(self) -> pb.SubTaskStatus:
        """What query-status shows of this subtask. Cheap, never raises."""
        with self._lock:
            state = self._state
            units = self._units[: state.index + 1]
        status = pb.SubTaskStatus(name=self.name, stage=state.stage, unit=state.unit, result=_result(state.result))  # type: ignore[arg-type]
        if units:
            self._fill(status, units[-1], units[:-1])
        for companion in self._companions:
            self._guard(partial(companion.fill, status))
        return status

    def _fill(self, status: pb.SubTaskStatus, unit: Unit, earlier: Sequence[Unit]) -> None:
        try:
            unit.fill(status, sum(one.received_bytes for one in earlier))
        except Exception as exc:  # noqa: BLE001 - one unit's fault must not hide every other subtask's status
            log.error("status of a unit failed", task=self.name, error=repr(exc))
            status.msg = f"the status of this unit is not available: {exc!r}"

    # ---- the machine and its instructions ---------------------------------------------------------------------------

    def _send(self, event: stages.SubTaskEvent, of: _Run | None = None) -> None:
        """``of``: the run of the event; a later run may have begun."""
        with self._lock:
            if of is not None and of is not self._run:
                return
            before = self._state
            self._state, instructions = stages.step(before, event)
            after = self._state
            if after.failed and not before.failed and after.result is not None:
                self._policy.failed(after.result.errors, time.monotonic())
            for instruction in instructions:
                self._execute(instruction)
            self._accompany(before, after)
        if (before.stage, before.index) != (after.stage, after.index):
            log.info(
                "subtask stage",
                task=self.name,
                source=self.config.source_id,
                stage=pb.Stage.Name(after.stage),
                unit=pb.UnitType.Name(after.unit),
            )
            self._on_change(self)

    def _accompany(self, before: stages.SubTaskState, after: stages.SubTaskState) -> None:
        """Starts and stops the companions of a unit that begins or ends; called under the lock."""
        was, now = stages.is_accompanied(before), stages.is_accompanied(after)
        if was == now:
            return
        unit_type = (after if now else before).unit
        for companion in self._companions:
            if companion.unit_type == unit_type:
                fail = partial(self._fail, self._run)
                self._guard(partial(companion.start, fail) if now else companion.stop)

    def _fail(self, run: _Run | None, errs: Sequence[DMError]) -> None:
        """Ends the subtask's run with a companion's errors."""
        named = tuple(self._named(error) for error in errs)
        for error in named:
            log.error("companion failed", task=self.name, error=str(error))
        self._send(stages.CompanionFailed(named), run)

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as exc:  # noqa: BLE001 - a companion must not stop what it accompanies
            trace = "".join(traceback.format_exception(exc))
            log.error("a companion of a subtask failed; the subtask continues", task=self.name, trace=trace)

    def _execute(self, instruction: stages.SubTaskInstruction) -> None:
        """Starts the instruction; called under the lock, so it must not block."""
        if isinstance(instruction, stages.StopUnit):
            run = self._run
            assert run is not None
            run.control.stop()
            arguments = (run, instruction.graceful)
            threading.Thread(target=self._stop_run, args=arguments, name=f"stop-{self.name}", daemon=True).start()
            return
        if isinstance(instruction, stages.StartUnit):
            self._run = _Run(self._units[instruction.index], Control(self._may_begin, self._safe_request))
        self._work.put(instruction)

    def _main(self) -> None:
        while not self._ended.is_set():
            try:
                self._turn(self._work.get())
            except Exception as exc:  # noqa: BLE001 - from a listener: without this thread the subtask would hang
                trace = "".join(traceback.format_exception(exc))
                log.error("a listener of a subtask failed; the subtask continues", task=self.name, trace=trace)

    def _turn(self, instruction: stages.SubTaskInstruction) -> None:
        match instruction:
            case stages.Probe():
                self._send(self._probe())
            case stages.StartUnit():
                self._send(self._run_unit())
            case stages.Close():
                for companion in self._companions:
                    self._guard(companion.join)
                self._ended.set()
                self._on_change(self)

    def _may_begin(self) -> bool:
        """Called by the running unit: whether it may change something. Decided together with whether to wait for it."""
        self._send(stages.UnitBegins())
        return self.state.begun

    def _probe(self) -> stages.SubTaskEvent:
        """Creates the units and finds the first that earlier runs did not complete."""
        try:
            if not self._units:
                self._units = [self._make_unit(unit) for unit in self.state.units]
            # From the end: when a unit is complete, the files of earlier ones may have been removed.
            for index in reversed(range(len(self._units))):
                if self._units[index].is_finished():
                    return stages.Probed(index + 1)
            return stages.Probed(0)
        except Exception as exc:  # noqa: BLE001 - every error of a unit pauses its subtask and is shown
            self._log_bug(exc)
            error = self._named(errors.wrap(exc))
            log.error("cannot determine the subtask's progress", task=self.name, error=str(error))
            return stages.ProbeFailed((error,))

    def _run_unit(self) -> stages.SubTaskEvent:
        run = self._run
        assert run is not None
        try:
            outcome = self._framed_run(run)
        except Exception as exc:  # noqa: BLE001 - every error of a unit pauses its subtask and is shown
            self._log_bug(exc)
            outcome = UnitOutcome(errors=[errors.wrap(exc)])
        finally:
            run.done.set()
        outcome.errors = [self._named(error) for error in outcome.errors]
        if outcome.finished:
            return stages.UnitFinished()
        if outcome.errors:
            self._report(run.unit.unit_type, outcome.errors)
            return stages.UnitFailed(tuple(outcome.errors))
        return stages.UnitCanceled()

    def _named(self, error: DMError) -> DMError:
        """The error with complete commands in its advice: with the names of this task and source."""
        return error.with_workaround(way_on(error, self.name, self.config.source_id))

    def _framed_run(self, run: _Run) -> UnitOutcome:
        self._before_unit(run.unit.unit_type)
        if run.control.is_stopping():
            return UnitOutcome(canceled=True)
        outcome = run.unit.run(run.control)
        if outcome.finished:
            self._after_unit(run.unit.unit_type)
        return outcome

    def _log_bug(self, exc: Exception) -> None:
        """Logs the traceback of an unexpected exception, to find the bug."""
        if not isinstance(exc, DMError):
            log.error("unexpected exception in a unit", task=self.name, trace="".join(traceback.format_exception(exc)))

    def _report(self, unit_type: pb.UnitType, errs: Sequence[DMError]) -> None:
        for error in errs:
            log.error("unit failed", task=self.name, unit=pb.UnitType.Name(unit_type), error=str(error))
        may_resume = resumable(errs)
        if not may_resume:
            log.warning(
                "task can't auto resume", task=self.name, source=self.config.source_id, reason="error is not resumable"
            )
        self._on_failure(self, unit_type, may_resume)

    def _stop_run(self, run: _Run, graceful: bool) -> None:
        deadline = time.monotonic() + self._grace
        while True:
            try:
                run.unit.stop(graceful=graceful, control=run.control)
            except Exception as exc:  # noqa: BLE001 - a failed stop must be repeated, not given up
                log.error("stop of a unit failed; trying again", task=self.name, error=repr(exc))
            if run.done.wait(_STOP_AGAIN):
                return
            if graceful and time.monotonic() >= deadline:
                log.warning("unit did not stop in time; killing it", task=self.name, seconds=self._grace)
                self._send(stages.StopOverdue())
                return


def _result(result: stages.SubTaskResult | None) -> pb.ProcessResult | None:
    return None if result is None else process_result(result.canceled, result.errors)


def process_result(canceled: bool, errs: Sequence[DMError]) -> pb.ProcessResult:
    """Errors as the status messages carry them."""
    return pb.ProcessResult(isCanceled=canceled, errors=[pb.ProcessError(**error.to_dict()) for error in errs])
