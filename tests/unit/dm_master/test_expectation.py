"""A command must not say that a subtask runs while it doesn't, nor wait for one that has already failed."""

from __future__ import annotations

import pytest

from dm_master.expectation import Judge, is_gone, reaches, serves
from pkg.pb import dmworker_pb2 as pb


def _answer(*subtasks: pb.SubTaskStatus, result: bool = True, source: str = "s") -> pb.QueryStatusResponse:
    return pb.QueryStatusResponse(
        result=result, msg="", sourceStatus=pb.SourceStatus(source=source), subTaskStatus=subtasks
    )


def _subtask(stage: pb.Stage, *, failed: bool = False, name: str = "t") -> pb.SubTaskStatus:
    errors = [pb.ProcessError(ErrCode=10001, ErrClass="database", Message="no way", RawCause="gone")] if failed else []
    return pb.SubTaskStatus(name=name, stage=stage, result=pb.ProcessResult(errors=errors))


_ABSENT = pb.SubTaskStatus(name="t", msg="no sub task with name t has started")


@pytest.mark.parametrize(
    ("judge", "answer", "settled"),
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
        (serves, _answer(), True),
        (serves, _answer(source="other"), False),
        (serves, _answer(result=False), False),
    ],
)
def test_what_settles_and_what_does_not(judge: Judge, answer: pb.QueryStatusResponse, settled: bool) -> None:
    assert judge("s", answer) == (settled, "")


def test_a_subtask_that_fails_at_once_is_told_with_its_error() -> None:
    settled, problem = reaches("t", pb.Running)("s", _answer(_subtask(pb.Paused, failed=True)))
    assert settled
    assert problem == "[code=10001:class=database:scope=:level=], Message: no way, RawCause: gone"
