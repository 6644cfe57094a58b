"""Hazard: a task that was stopped, but not removed, is nowhere to be seen."""

from __future__ import annotations

from dm_master.service.status_service import add_stopped
from pkg.pb import dmworker_pb2 as worker_pb


def _answer(source: str, *tasks: str) -> worker_pb.QueryStatusResponse:
    status = worker_pb.SourceStatus(source=source)
    subtasks = [worker_pb.SubTaskStatus(name=name, stage=worker_pb.Running) for name in tasks]
    return worker_pb.QueryStatusResponse(result=True, sourceStatus=status, subTaskStatus=subtasks)


def test_stopped_subtasks_are_added_to_their_sources() -> None:
    answers = [_answer("one", "t"), _answer("two")]
    add_stopped(answers, {"t": {"one": "Running", "two": "Stopped"}, "u": {"two": "Stopped", "gone": "Stopped"}})
    found = [[(each.name, worker_pb.Stage.Name(each.stage)) for each in one.subTaskStatus] for one in answers]
    assert found == [[("t", "Running")], [("t", "Stopped"), ("u", "Stopped")]]


def test_a_subtask_that_its_worker_still_ends_is_there_once() -> None:
    answers = [_answer("one", "t")]
    add_stopped(answers, {"t": {"one": "Stopped"}})
    assert len(answers[0].subTaskStatus) == 1
