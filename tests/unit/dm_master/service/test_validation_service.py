"""Hazard: an operator's order reaches only some validators and the answer says success."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf.message import Message

from dm_master.service.cluster_access import ClusterAccess
from dm_master.service.validation_service import ValidationService
from dm_master.task_setup.task_end import Moment
from dm_master.workers.stage_wait import validates
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig, ValidatorConfig
from pkg.errors import Code, DMError
from pkg.ha.records import WorkerInfo
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.settings.connections import DBConfig

DB = DBConfig("h", 1)


class Scheduler:
    """Two sources of task t, one of task u."""

    def __init__(self) -> None:
        self.orders: list[tuple[Any, ...]] = []
        self.since: dict[str, str] = {}
        self.unbound = False

    def tasks(self) -> dict[str, dict[str, str]]:
        return {"t": {"s1": "Running", "s2": "Running"}, "u": {"s1": "Running"}}

    def validators(self, task: str) -> dict[str, str]:
        return {"s1": "Running"} if task == "t" else {}

    def subtasks(self, task: str) -> dict[str, SubTaskConfig]:
        validator = ValidatorConfig(sweep_rate=0 if task == "u" else 10)
        return {
            source: SubTaskConfig(task, source, "all", DB, DB, validator=validator) for source in self.tasks()[task]
        }

    def start_validation(self, task: str, sources: list[str], mode: str, since: dict[str, str]) -> None:
        self.orders.append(("start", task, sources, mode, *since))
        self.since = since

    def stop_validation(self, task: str, sources: list[str]) -> None:
        self.orders.append(("stop", task, sources))

    def sources(self) -> dict[str, object]:
        return {"s1": None, "s2": None}

    def bound_worker(self, source: str) -> WorkerInfo | None:
        return None if self.unbound and source == "s2" else WorkerInfo(f"w-{source}", f"{source}:1")


class Workers:
    """Answers as told, by the worker's address."""

    def __init__(self) -> None:
        self.answers: dict[str, Message] = {}
        self.stage: worker_pb.Stage = worker_pb.Running

    def call(self, address: str, method: str, request: Message, *, timeout: float | None = None) -> Message:
        if method == "QueryStatus":
            one = worker_pb.SubTaskStatus(stage=worker_pb.Running, unit=worker_pb.Sync)
            one.validation.stage = self.stage
            both = [worker_pb.SubTaskStatus(), worker_pb.SubTaskStatus()]
            for status, name in zip(both, "tu", strict=True):
                status.CopyFrom(one)
                status.name = name
            return worker_pb.QueryStatusResponse(result=True, subTaskStatus=both)
        return self.answers[address]


class World:
    def __init__(self) -> None:
        self.scheduler, self.workers = Scheduler(), Workers()
        self.service = ValidationService(
            cast(ClusterAccess, SimpleNamespace(scheduler=self.scheduler, workers=self.workers)), self.locate
        )

    def locate(self, subtask: SubTaskConfig, moment: Moment) -> Location:
        if moment.text.startswith("9999"):
            raise errors.new(Code.ConfigStartTimeTooLate, "too late")
        return Location(Position(f"bin-of-{subtask.source_id}.000001", 4))


def test_a_start_by_time_has_its_place_in_the_binlog_of_each_source() -> None:
    world = World()
    world.service.start(pb.StartValidationRequest(taskName="t", start_time_value="2024-01-01 00:00:00"))
    assert world.scheduler.orders == [("start", "t", ["s1", "s2"], "", "s1", "s2")]
    assert world.scheduler.since["s2"].startswith("(bin-of-s2.000001, 4) (asked for at 20")


def test_start_and_stop_reach_the_chosen_sources_and_wait_for_them() -> None:
    world = World()
    answer = world.service.start(pb.StartValidationRequest(taskName="t", mode_value="fast", sources=["s2"]))
    assert (answer.result, answer.msg, [one.source for one in answer.sources]) == (True, "success", ["s2"])
    world.service.start(pb.StartValidationRequest())
    world.workers.stage = worker_pb.Stopped
    assert [one.result for one in world.service.stop(pb.StopValidationRequest()).sources] == [True, True]
    assert world.scheduler.orders == [
        ("start", "t", ["s2"], "fast"),
        ("start", "t", ["s1", "s2"], ""),
        ("start", "u", ["s1"], ""),
        ("stop", "t", ["s1", "s2"]),
    ]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (pb.StartValidationRequest(taskName="x"), 46018),
        (pb.StartValidationRequest(taskName="u", sources=["s2"]), 46017),
        (pb.StartValidationRequest(taskName="t", start_time_value="9999-01-01 00:00:00"), 20057),
        (pb.StartValidationRequest(taskName="u", start_time_value="2024-01-01 00:00:00"), 38041),
    ],
)
def test_refusals(request_: pb.StartValidationRequest, code: int) -> None:
    world = World()
    with pytest.raises(DMError) as caught:
        world.service.start(request_)
    assert caught.value.code == code
    assert world.scheduler.orders == []


def test_status_and_errors_of_all_sources_are_one_answer() -> None:
    world = World()
    for source in ("s1", "s2"):
        world.workers.answers[f"{source}:1"] = worker_pb.GetValidationStatusResponse(
            result=True,
            validators=[worker_pb.ValidationStatus(source=source)],
            tableStatuses=[worker_pb.ValidationTableStatus(source=source)],
        )
    found = world.service.status(worker_pb.GetValidationStatusRequest(taskName="t"))
    assert (found.result, [one.source for one in found.validators]) == (True, ["s1", "s2"])
    assert [one.source for one in found.tableStatuses] == ["s1", "s2"]
    world.scheduler.unbound = True
    found = world.service.status(worker_pb.GetValidationStatusRequest(taskName="t"))
    assert (found.result, [one.source for one in found.validators]) == (False, ["s1"])
    assert "s2" in found.msg


@pytest.mark.parametrize(("all_errors", "result"), [(False, True), (True, False)])
def test_one_error_is_of_one_source_and_all_are_of_all(all_errors: bool, result: bool) -> None:
    world = World()
    world.workers.answers["s1:1"] = worker_pb.OperateValidationErrorResponse(result=True)
    world.workers.answers["s2:1"] = worker_pb.OperateValidationErrorResponse(msg="task t has no error 3")
    request = worker_pb.OperateValidationErrorRequest(taskName="t", errId=3, isAllError=all_errors)
    answer = world.service.operate_errors(request)
    assert (answer.result, answer.msg) == (result, "" if result else "task t has no error 3")


def test_a_validator_that_is_to_run_waits_for_replication() -> None:
    status = worker_pb.SubTaskStatus(name="t", stage=worker_pb.Running, unit=worker_pb.Load)
    answer = worker_pb.QueryStatusResponse(result=True, subTaskStatus=[status])
    check = validates("t", worker_pb.Running)
    assert check("s1", answer) == (False, ""), "the worker does not know of it yet"
    answer.subTaskStatus[0].validation.stage = worker_pb.Stopped
    assert check("s1", answer) == (True, "")
    answer.subTaskStatus[0].unit = worker_pb.Sync
    assert check("s1", answer) == (False, "")
    assert check("s1", None) == (False, "")
