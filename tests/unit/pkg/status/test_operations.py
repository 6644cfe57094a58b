"""Hazard: a button that does nothing, or an operation that is possible and has no button."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.source.operate_validation import STATES
from dm_worker.subtask.stage import (
    CHAINS,
    AutoResume,
    CompanionFailed,
    Expect,
    Kill,
    Probed,
    ProbeFailed,
    StopOverdue,
    SubTaskEvent,
    SubTaskState,
    UnitBegins,
    UnitCanceled,
    UnitFailed,
    UnitFinished,
    initial,
    step,
)
from dm_worker.validator.differences import CHANGED, RowMismatch
from dm_worker.validator.verdicts import ErrorList, RowError, Verdicts
from dm_worker.validator.view import error_message
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from pkg.status.operations import (
    allowed,
    allowed_for_difference,
    allowed_for_differences,
    allowed_for_relay,
    allowed_for_task,
)
from tests.sweeps import examples

_ERROR = (errors.new(Code.SyncerParseDDL, "broken"),)
_EVENTS: list[SubTaskEvent] = [
    *(Expect(stage) for stage in (pb.Running, pb.Paused, pb.Stopped)),
    *(Probed(first) for first in range(3)),
    *(ProbeFailed(_ERROR), UnitBegins(), UnitFinished(), UnitFailed(_ERROR), UnitCanceled(), CompanionFailed(_ERROR)),
    *(StopOverdue(), AutoResume(), Kill()),
]


def _status(state: SubTaskState) -> pb.SubTaskStatus:
    """The status as a worker reports it."""
    shown = [pb.ProcessError(**error.to_dict()) for error in state.result.errors] if state.result else []
    return pb.SubTaskStatus(
        stage=state.stage,  # type: ignore[arg-type]
        unit=state.unit,
        result=pb.ProcessResult(errors=shown),
    )


@settings(max_examples=examples(400))
@given(mode=st.sampled_from(sorted(CHAINS)), events=st.lists(st.sampled_from(_EVENTS), max_size=12))
def test_the_buttons_are_what_the_state_machine_allows(mode: str, events: list[SubTaskEvent]) -> None:
    state = initial(mode)
    for event in events:
        state, _ = step(state, event)
    shown = allowed(_status(state))
    if state.stage == pb.Stopped:
        # Final for this subtask: the master has it, makes another one of it, or removes it.
        assert shown == {"resume", "stop"}
        return
    paused, resumed, stopped = (step(state, Expect(stage))[0] for stage in (pb.Paused, pb.Running, pb.Stopped))
    assert ("pause" in shown) == (paused.stage != state.stage)
    # A new subtask starts by itself: a person resumes only what was stopped.
    assert ("resume" in shown) == (resumed.stage != state.stage and state.stage != pb.New)
    assert ("stop" in shown) == (stopped.stage != state.stage)
    assert ("skip" in shown) == ("resume-safe" in shown) == (state.failed and state.unit == pb.Sync)


def test_every_operation_is_reachable() -> None:
    found: set[str] = set()
    failed = pb.ProcessResult(errors=[pb.ProcessError(ErrCode=36027)])
    for stage in (pb.Running, pb.Paused):
        found |= allowed(pb.SubTaskStatus(stage=stage, unit=pb.Sync, result=failed))
    assert found == {"pause", "resume", "resume-safe", "skip", "stop"}


@pytest.mark.parametrize("unit", [pb.InvalidUnit, pb.Load, pb.Sync])
def test_a_stopped_task_starts_again_or_is_removed(unit: pb.UnitType) -> None:
    assert allowed_for_task([pb.SubTaskStatus(stage=pb.Stopped, unit=unit)]) == ["resume", "stop"]


def test_a_task_has_the_operations_of_all_its_subtasks() -> None:
    subtasks = [pb.SubTaskStatus(stage=pb.Running), pb.SubTaskStatus(stage=pb.Paused)]
    assert allowed_for_task(subtasks) == ["resume", "pause", "stop"]
    assert allowed_for_task([]) == []


def test_a_relay_log_that_is_stopped_has_no_switch() -> None:
    assert allowed_for_relay(pb.RelayStatus(stage=pb.Running)) == ["pause-relay"]
    assert allowed_for_relay(pb.RelayStatus(stage=pb.Paused)) == ["resume-relay"]
    assert allowed_for_relay(pb.RelayStatus(stage=pb.Stopped)) == []


_MARKS = {"ignore-error": pb.IgnoreErrOp, "resolve-error": pb.ResolveErrOp, "clear-error": pb.ClearErrOp}
_ROW = (("d", "t"), b"1")


def _differing() -> Verdicts:
    table, key = _ROW
    return Verdicts(wrong=[RowMismatch(table, ("s", "t"), key, CHANGED, "{}", "", b"SELECT 1")])


def _happens(found: ErrorList, event: str) -> None:
    if event == "differs":
        found.numbered([replace(error, number=7) for error in found.take(_differing(), "now")])
    elif event == "repaired":
        found.repaired(_ROW)
    elif event == "changed":
        found.take(Verdicts(right=[_ROW]), "now")
    else:
        found.operate(7, STATES[_MARKS[event]])


def _state(found: ErrorList) -> list[RowError]:
    return list(found.errors.values())


@given(st.lists(st.sampled_from(["differs", "repaired", "changed", *_MARKS]), max_size=8))
def test_a_row_that_differs_has_the_buttons_that_would_change_it(events: list[str]) -> None:
    found = ErrorList()
    for event in ("differs", *events):
        _happens(found, event)
    shown = [error_message("one", error) for error in _state(found)]
    would_change = []
    for name, operation in _MARKS.items():
        after = deepcopy(found)
        after.operate(7, STATES[operation])
        would_change += [name] if _state(after) != _state(found) else []
    assert [list(allowed_for_difference(one)) for one in shown] == [would_change] * len(shown)
    assert allowed_for_differences(shown) == would_change


def test_a_row_without_a_number_cannot_be_named() -> None:
    for number in ("", "0"):
        unnumbered = pb.ValidationError(id=number, status=pb.NewErr)
        assert allowed_for_difference(unnumbered) == ()
        assert allowed_for_differences([unnumbered]) == list(_MARKS)
