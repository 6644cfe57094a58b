"""The state machine of a subtask: events in, instructions out. Pure.

A subtask runs a chain of units (dump, load, sync). The stage that the operator wants (``expected``) and the present one
(``stage``) are kept apart; every event ends in :func:`_settle`, which compares the two and decides the next step::

    New ----- probed -----> Running ----- last unit finished -----> Finished
     |                      ^  |  |
     |                      |  |  +-- pause of a unit that has begun,
     |             next run |  |      or a companion's failure ---> Pausing
     |                      |  |                                    |   |
     |                Resuming | unit fails,                 resume |   | unit ends
     |                ^  ^     | or pause before it begins          |   |
     |                |  +-----|------------------------------------+   |
     |         resume |        v                                        |
     +--------------> Paused <------------------------------------------+
       pause, or the
       probe fails

If the last unit finishes while it is stopping, Finished follows from Pausing and Resuming too. A stop or kill leads
from every stage to Stopped, which is final; through Stopping while a unit that has begun ends.

A pause or stop waits only for work that changes something. A probe, and a unit that has not begun yet, may wait for a
server that does not answer, or for Spark to start: the subtask is then Paused or Stopped at once, the result of
that work is ignored, and the next activity begins when it has ended.
The shell (:mod:`dm_worker.subtask.subtask`) executes the instructions and reports back with events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from pkg import errors
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb

#: Which units a task mode runs, in order.
CHAINS: dict[str, tuple[pb.UnitType, ...]] = {
    "all": (pb.Dump, pb.Load, pb.Sync),
    "full": (pb.Dump, pb.Load),
    "incremental": (pb.Sync,),
    "dump": (pb.Dump,),
    "load": (pb.Load,),
    "load&sync": (pb.Load, pb.Sync),
}
#: A state keeps this many recent events, for error messages.
RECENT = 5
#: The stages that an operator can ask for.
EXPECTABLE = frozenset({pb.Running, pb.Paused, pb.Stopped})


class Activity(Enum):
    """What the subtask's thread is doing."""

    IDLE = auto()
    PROBING = auto()
    RUNNING = auto()


@dataclass(frozen=True, slots=True)
class SubTaskResult:
    """Why the subtask does not run: asked to pause (``canceled``), or the errors that stopped it, or finished."""

    canceled: bool = False
    errors: tuple[DMError, ...] = ()


@dataclass(frozen=True, slots=True)
class SubTaskState:
    """The complete state of one subtask. ``index`` points into ``units``."""

    units: tuple[pb.UnitType, ...]
    stage: int = pb.New
    expected: int = pb.New
    index: int = 0
    #: Whether ``index`` is known: a probe has found which units earlier runs completed.
    probed: bool = False
    activity: Activity = Activity.IDLE
    #: Whether the running unit was asked to stop.
    stop_sent: bool = False
    #: Whether the running unit may change something. A unit that was asked to stop earlier never begins.
    begun: bool = False
    #: The errors of a companion because of which the running unit was stopped.
    failing: tuple[DMError, ...] = ()
    result: SubTaskResult | None = None
    #: The last events that changed something, each with the stage after it.
    recent: tuple[str, ...] = ()

    @property
    def history(self) -> str:
        """``recent`` as text for an error."""
        return f"last events: {'; '.join(self.recent) or 'none'}"

    @property
    def unit(self) -> pb.UnitType:
        """The current unit's type, as the status shows it."""
        return self.units[min(self.index, len(self.units) - 1)]

    @property
    def failed(self) -> bool:
        """Paused by errors rather than by request."""
        return self.stage == pb.Paused and self.result is not None and bool(self.result.errors)


# ---- events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expect:
    """The operator (through etcd) asks for a stage. Asking for Running again resumes a failed subtask."""

    stage: int


@dataclass(frozen=True, slots=True)
class Probed:
    """``first`` is the first unit of the chain that earlier runs did not complete; the chain's length if none."""

    first: int


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    errors: tuple[DMError, ...]


@dataclass(frozen=True, slots=True)
class UnitBegins:
    """The running unit has initialised and asks to begin: it may if the state then says ``begun``."""


@dataclass(frozen=True, slots=True)
class UnitFinished:
    pass


@dataclass(frozen=True, slots=True)
class UnitFailed:
    errors: tuple[DMError, ...]


@dataclass(frozen=True, slots=True)
class UnitCanceled:
    pass


@dataclass(frozen=True, slots=True)
class CompanionFailed:
    """A companion reports that the subtask must not continue after these errors."""

    errors: tuple[DMError, ...]


@dataclass(frozen=True, slots=True)
class StopOverdue:
    """The running unit did not reach a safe point within its grace period."""


@dataclass(frozen=True, slots=True)
class AutoResume:
    """The checker decided to retry a failed subtask."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Everything has to end at once: the worker has lost its right to the source."""


SubTaskEvent = (
    Expect
    | Probed
    | ProbeFailed
    | UnitBegins
    | UnitFinished
    | UnitFailed
    | UnitCanceled
    | CompanionFailed
    | StopOverdue
    | AutoResume
    | Kill
)


# ---- instructions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Probe:
    """Find in the units' durable state where the chain begins; answer with Probed or ProbeFailed."""


@dataclass(frozen=True, slots=True)
class StartUnit:
    """Run unit ``index``; answer with UnitFinished, UnitFailed or UnitCanceled."""

    index: int


@dataclass(frozen=True, slots=True)
class StopUnit:
    """Stop unit ``index``; if graceful, send StopOverdue when the unit has not ended after the grace period."""

    index: int
    graceful: bool


@dataclass(frozen=True, slots=True)
class Close:
    """The subtask has ended for good; its thread ends after its current work."""


SubTaskInstruction = Probe | StartUnit | StopUnit | Close
Transition = tuple[SubTaskState, tuple[SubTaskInstruction, ...]]


def initial(task_mode: str) -> SubTaskState:
    """A new subtask. Raises 20020 for an unknown task mode."""
    units = CHAINS.get(task_mode)
    if units is None:
        raise errors.new(
            Code.ConfigInvalidTaskMode,
            f"task-mode {task_mode!r} is not one of {', '.join(CHAINS)}",
            workaround="Correct `task-mode` in the task's file and start the task again.",
        )
    return SubTaskState(units)


def step(state: SubTaskState, event: SubTaskEvent) -> Transition:
    """The state machine: the state after ``event``, and the instructions for the shell."""
    if state.stage == pb.Stopped:
        return state, ()
    after, instructions = _transition(state, event)
    if after != state:
        entry = f"{_name(event)} -> {pb.Stage.Name(after.stage)}"  # type: ignore[arg-type]
        after = replace(after, recent=(*state.recent, entry)[-RECENT:])
    return after, instructions


def _name(event: SubTaskEvent) -> str:
    name = type(event).__name__
    return f"{name} {pb.Stage.Name(event.stage)}" if isinstance(event, Expect) else name  # type: ignore[arg-type]


def _transition(state: SubTaskState, event: SubTaskEvent) -> Transition:
    match event:
        case Expect(stage):
            return _expect(state, stage)
        case AutoResume():
            return _settle(_resuming(state)) if _may_auto_resume(state) else (state, ())
        case Kill():
            return _kill(state)
        case UnitBegins():
            may = state.activity is Activity.RUNNING and not state.stop_sent
            return replace(state, begun=state.begun or may), ()
        case CompanionFailed(errs):
            return _companion_failed(state, errs)
        case StopOverdue():
            if state.activity is Activity.RUNNING and state.stop_sent:
                return state, (StopUnit(state.index, graceful=False),)
            return state, ()
        case _:
            return _settle(_ended(state, event))


def is_accompanied(state: SubTaskState) -> bool:
    """Whether companions may run beside the current unit: it may change something and was not asked to stop."""
    return state.activity is Activity.RUNNING and state.begun and not state.stop_sent


def _companion_failed(state: SubTaskState, errs: tuple[DMError, ...]) -> Transition:
    """Stops the unit, then pauses with ``errs``. If the unit still finishes, the chain continues: only the
    companion's own status shows the errors."""
    if not is_accompanied(state):
        return state, ()
    return replace(state, stage=pb.Pausing, stop_sent=True, failing=errs), (StopUnit(state.index, graceful=True),)


def _expect(state: SubTaskState, stage: int) -> Transition:
    if stage not in EXPECTABLE or state.expected == pb.Stopped:
        return state, ()
    state = replace(state, expected=stage)
    if stage == pb.Running:
        state = _resuming(state)
    return _settle(state)


def _may_auto_resume(state: SubTaskState) -> bool:
    return state.failed and state.expected == pb.Running


def _resuming(state: SubTaskState) -> SubTaskState:
    """Leaves Paused (or Pausing) for Running; other stages lead there already, or are final."""
    if state.stage in (pb.Paused, pb.Pausing):
        return replace(state, stage=pb.Resuming, result=None)
    return state


def _kill(state: SubTaskState) -> Transition:
    state = replace(state, expected=pb.Stopped)
    if state.activity is Activity.RUNNING and state.begun:
        # Sent even after a graceful stop: the grace period is over.
        return replace(state, stage=pb.Stopping, stop_sent=True), (StopUnit(state.index, graceful=False),)
    return _settle(state)


def _ended(state: SubTaskState, event: SubTaskEvent) -> SubTaskState:
    """Applies the end of a probe or of a unit's run; _settle decides the next step."""
    asked_to_stop = state.stop_sent
    match event:
        case Probed(first) if state.activity is Activity.PROBING:
            return _at(replace(state, probed=True), first)
        case ProbeFailed(errs) if state.activity is Activity.PROBING:
            if state.expected == pb.Running:
                return _paused(state, SubTaskResult(errors=errs))
            # It need not run now; the next start probes again.
            return _paused(state, SubTaskResult(canceled=True))
        case UnitFinished() if state.activity is Activity.RUNNING:
            return _at(state, state.index + 1)
        case UnitFailed(errs) if state.activity is Activity.RUNNING:
            if asked_to_stop and not state.begun:
                # The result is not needed. If the cause lasts, the next start fails with the same error.
                return _paused(state, SubTaskResult(canceled=True))
            return _paused(state, SubTaskResult(canceled=asked_to_stop, errors=(*state.failing, *errs)))
        case UnitCanceled() if state.activity is Activity.RUNNING:
            errs = state.failing if asked_to_stop else (_unasked(state),)
            return _paused(state, SubTaskResult(canceled=not errs, errors=errs))
        case _:
            return state


def _at(state: SubTaskState, index: int) -> SubTaskState:
    """Sets an idle subtask to unit ``index``; after the last unit it is finished."""
    state = replace(state, index=index, activity=Activity.IDLE, stop_sent=False, begun=False, failing=())
    if index >= len(state.units):
        return replace(state, index=len(state.units) - 1, stage=pb.Finished, result=SubTaskResult())
    return state


def _paused(state: SubTaskState, result: SubTaskResult) -> SubTaskState:
    """Ends an activity. A resume that arrived while the unit was stopping still counts."""
    stage = pb.Resuming if state.stage == pb.Resuming and state.stop_sent else pb.Paused
    return replace(
        state,
        activity=Activity.IDLE,
        stop_sent=False,
        begun=False,
        failing=(),
        stage=stage,
        result=None if stage == pb.Resuming else result,
    )


def _unasked(state: SubTaskState) -> DMError:
    return errors.new(
        Code.WorkerNotRunningStage,
        f"unit {pb.UnitType.Name(state.unit)} ended unexpectedly before its work was complete",
        raw=state.history,
        workaround="It is tried again automatically. If this repeats, see the worker's log for the cause.",
    )


def _settle(state: SubTaskState) -> Transition:
    """Compares the desired stage with the current one and takes the next step."""
    if state.activity is Activity.IDLE:
        return _settle_idle(state)
    if state.expected == pb.Running:
        return state, ()
    if state.activity is Activity.PROBING or not state.begun:
        return _left_alone(state)
    stage = pb.Stopping if state.expected == pb.Stopped else pb.Pausing
    if state.stop_sent:
        return replace(state, stage=stage), ()
    return replace(state, stage=stage, stop_sent=True), (StopUnit(state.index, graceful=True),)


def _left_alone(state: SubTaskState) -> Transition:
    """Goes to Paused or Stopped without waiting for the thread: its work changes nothing."""
    told: tuple[SubTaskInstruction, ...] = ()
    if state.activity is Activity.RUNNING and not state.stop_sent:
        told = (StopUnit(state.index, graceful=False),)
        state = replace(state, stop_sent=True)
    if state.expected == pb.Stopped:
        return replace(state, stage=pb.Stopped), (*told, Close())
    return replace(state, stage=pb.Paused, result=SubTaskResult(canceled=True)), told


def _settle_idle(state: SubTaskState) -> Transition:
    if state.expected == pb.Stopped:
        return replace(state, stage=pb.Stopped), (Close(),)
    if state.stage == pb.Finished or state.expected == pb.New:
        return state, ()
    if not state.probed and state.stage != pb.Paused:
        # Also when Paused is expected: the status shows which unit would continue.
        return _settle(replace(state, activity=Activity.PROBING))[0], (Probe(),)
    if state.expected == pb.Paused:
        if state.stage == pb.Paused:
            return state, ()
        return replace(state, stage=pb.Paused, result=SubTaskResult(canceled=True)), ()
    if state.stage == pb.Paused:
        # Paused by errors: an operator or the checker has to resume it.
        return state, ()
    started = replace(state, stage=pb.Running, activity=Activity.RUNNING, stop_sent=False, begun=False, result=None)
    return started, (StartUnit(state.index),)
