"""A command must not say that a subtask runs while it doesn't, nor wait for one that has already failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from dm_master.scheduling.scheduler import WorkerState
from dm_master.service.cluster_access import ClusterAccess
from dm_master.workers.stage_wait import (
    StageCheck,
    is_gone,
    reaches,
    relay_reaches,
    serves,
    wait_for_all,
    wait_for_relays,
)
from pkg import errors
from pkg.errors import Code, DMError
from pkg.ha.records import WorkerInfo
from pkg.pb import dmworker_pb2 as pb


def _answer(*subtasks: pb.SubTaskStatus, result: bool = True, source: str = "s") -> pb.QueryStatusResponse:
    return pb.QueryStatusResponse(
        result=result, msg="", sourceStatus=pb.SourceStatus(source=source), subTaskStatus=subtasks
    )


def _subtask(stage: pb.Stage, *, failed: bool = False, name: str = "t") -> pb.SubTaskStatus:
    errors = [pb.ProcessError(ErrCode=10001, ErrClass="database", Message="no way", RawCause="gone")] if failed else []
    return pb.SubTaskStatus(name=name, stage=stage, result=pb.ProcessResult(errors=errors))


def _relay(stage: pb.Stage, *, source: str = "s") -> pb.QueryStatusResponse:
    status = pb.SourceStatus(source=source, relayStatus=pb.RelayStatus(stage=stage))
    return pb.QueryStatusResponse(result=True, sourceStatus=status)


_ABSENT = pb.SubTaskStatus(name="t", msg="no sub task with name t has started")


@pytest.mark.parametrize(
    ("check", "answer", "settled"),
    [
        (reaches("t", pb.Running), _answer(_subtask(pb.Running)), True),
        (reaches("t", pb.Running), _answer(_subtask(pb.Finished)), True),
        (reaches("t", pb.Running), _answer(_subtask(pb.New)), False),
        (reaches("t", pb.Running), _answer(_subtask(pb.Paused)), False),
        (reaches("t", pb.Running), _answer(_subtask(pb.Running, name="other")), False),
        (reaches("t", pb.Running), _answer(_ABSENT), False),
        (reaches("t", pb.Running), _answer(_subtask(pb.Running), result=False), False),
        (reaches("t", pb.Paused), _answer(_subtask(pb.Paused)), True),
        (reaches("t", pb.Paused), _answer(_subtask(pb.Pausing)), False),
        (is_gone("t"), _answer(_ABSENT), True),
        (is_gone("t"), _answer(), True),
        (is_gone("t"), _answer(_subtask(pb.Running)), False),
        (is_gone("t"), _answer(_subtask(pb.Stopping)), False),
        (is_gone("t"), None, True),
        (reaches("t", pb.Running), None, False),
        (relay_reaches(pb.Running), _relay(pb.Running), True),
        (relay_reaches(pb.Running), _relay(pb.Paused), False),
        (relay_reaches(pb.Running), _answer(), False),
        # A worker that has been named as a relay worker, and does not know it yet.
        (relay_reaches(pb.Running), _answer(result=False, source=""), False),
        (relay_reaches(pb.Running), _relay(pb.Running, source="other"), False),
        (relay_reaches(pb.Stopped), _relay(pb.Running), False),
        (relay_reaches(pb.Stopped), _answer(), True),
        # A relay worker that is free now.
        (relay_reaches(pb.Stopped), _answer(result=False, source=""), True),
        (serves, None, False),
        (serves, _answer(), True),
        (serves, _answer(source="other"), False),
        (serves, _answer(result=False), False),
    ],
)
def test_what_settles_and_what_does_not(
    check: StageCheck, answer: pb.QueryStatusResponse | None, settled: bool
) -> None:
    assert check("s", answer) == (settled, "")


def test_a_subtask_that_fails_at_once_is_reported_with_its_error() -> None:
    settled, problem = reaches("t", pb.Running)("s", _answer(_subtask(pb.Paused, failed=True)))
    assert settled
    assert problem == "[code=10001:class=database:scope=:level=], Message: no way, RawCause: gone"


class _ScriptedAnswers:
    """A cluster with one worker that gives its answers one after another, the last one forever."""

    def __init__(self, *answers: pb.QueryStatusResponse | DMError, bound: bool = True) -> None:
        self._answers = list(answers)
        self.scheduler = SimpleNamespace(bound_worker=lambda _: WorkerInfo("w", "h:1") if bound else None)
        self.workers = SimpleNamespace(call=self._call)

    def _call(self, *_: object, timeout: float) -> pb.QueryStatusResponse:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, DMError):
            raise answer
        return answer


def _wait(script: _ScriptedAnswers, check: StageCheck, patience: float = 0.0) -> pb.CommonWorkerResponse:
    [answer] = wait_for_all(cast(ClusterAccess, script), ["s"], "t", check, "it runs", patience)
    return answer


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dm_master.workers.stage_wait.STAGE_TIMEOUT", 0.6)
    monkeypatch.setattr("dm_master.workers.stage_wait.STALE_FAILURE_TIMEOUT", 0.2)
    monkeypatch.setattr("dm_master.workers.stage_wait.FIRST_PAUSE", 0.05)


def test_an_error_of_before_the_request_is_not_taken_for_its_result() -> None:
    script = _ScriptedAnswers(_answer(_subtask(pb.Paused, failed=True)), _answer(_subtask(pb.Running)))
    assert _wait(script, reaches("t", pb.Running)) == pb.CommonWorkerResponse(result=True, source="s", worker="w")


def test_an_error_that_stays_is_the_result() -> None:
    answer = _wait(_ScriptedAnswers(_answer(_subtask(pb.Paused, failed=True))), reaches("t", pb.Running))
    assert (answer.result, answer.worker) == (False, "w")
    assert answer.msg.startswith("[code=10001:")


@pytest.mark.parametrize("before", [_ABSENT, _subtask(pb.New), _subtask(pb.Resuming)])
def test_a_new_error_is_reported_at_once(before: pb.SubTaskStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dm_master.workers.stage_wait.STALE_FAILURE_TIMEOUT", 60.0)
    script = _ScriptedAnswers(_answer(before), _answer(_subtask(pb.Paused, failed=True)))
    assert _wait(script, reaches("t", pb.Running)).msg.startswith("[code=10001:")


def test_a_worker_that_answers_late_is_waited_for() -> None:
    gone = errors.new(Code.MasterGRPCRequestError, "not there yet")
    assert _wait(_ScriptedAnswers(gone, gone, _answer(_subtask(pb.Running))), reaches("t", pb.Running)).result


def test_a_busy_worker_that_answers_has_the_client_s_time() -> None:
    late = [_answer(_ABSENT)] * 12
    assert _wait(_ScriptedAnswers(*late, _answer(_subtask(pb.Running))), reaches("t", pb.Running), 60.0).result


def test_a_worker_that_is_away_does_not_have_the_client_s_time() -> None:
    gone = errors.new(Code.MasterGRPCRequestError, "not there")
    assert "code=38045" in _wait(_ScriptedAnswers(_answer(_ABSENT), gone), reaches("t", pb.Running), 60.0).msg


@pytest.mark.parametrize("bound", [True, False])
def test_waiting_ends_and_says_what_was_seen(bound: bool) -> None:
    answer = _wait(_ScriptedAnswers(_answer(_subtask(pb.New)), bound=bound), reaches("t", pb.Running))
    assert not answer.result
    assert "code=38045" in answer.msg
    assert ("t New" if bound else "not bound") in answer.msg


def test_the_answer_names_the_ddl_that_the_subtask_waits_for() -> None:
    subtask = _subtask(pb.Pausing)
    subtask.unit = pb.Sync
    subtask.sync.targetDDL = "ALTER TABLE `d`.`t` ADD COLUMN c INT, for 9 s"
    answer = _wait(_ScriptedAnswers(_answer(subtask)), reaches("t", pb.Paused))
    assert "t Pausing in unit Sync; the target executes ALTER TABLE `d`.`t` ADD COLUMN c INT, for 9 s" in answer.msg


def test_stopping_on_an_unbound_source_needs_no_worker() -> None:
    assert _wait(_ScriptedAnswers(_answer(), bound=False), is_gone("t")) == pb.CommonWorkerResponse(
        result=True, source="s"
    )


def test_a_relay_worker_that_is_away_does_not_hold_up_the_others() -> None:
    script = _ScriptedAnswers(_relay(pb.Running))
    workers = [WorkerState("w1", "h:1", "bound", "s"), WorkerState("w2", "h:2", "offline", "s")]
    answers = wait_for_relays(
        cast(ClusterAccess, script), [("s", worker) for worker in workers], relay_reaches(pb.Running), "it runs"
    )
    assert [(answer.worker, answer.result) for answer in answers] == [("w1", True), ("w2", True)]
    assert answers[1].msg == "source relay is operated but worker w2 is offline"
