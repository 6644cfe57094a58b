"""Moving a source. Hazard: tasks that were paused for it, and stay paused because etcd did not answer for a moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm_master.service.cluster_access import ClusterAccess
from dm_master.workers import source_transfer
from pkg import errors
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb

NO_ANSWER = errors.new(Code.HAFailTxnOperation, "etcd did not answer; the outcome is unknown", retryable=True)
GONE = errors.new(Code.SchedulerTaskNotExist, "task t2 not exist")


class TransferWorld:
    """A source with three tasks in Sync, whose worker follows at once. ``failures``: what etcd does, call by call."""

    def __init__(self, **failures: list[DMError | None]) -> None:
        self.failures = failures
        self.stages = {f"t{n}": "Running" for n in (1, 2, 3)}

    def cluster(self) -> ClusterAccess:
        scheduler = SimpleNamespace(
            bound_worker=lambda _: SimpleNamespace(name="w", addr="x"),
            tasks=lambda: {task: {"s": stage} for task, stage in self.stages.items()},
            set_stage=self.set_stage,
        )
        return cast(ClusterAccess, SimpleNamespace(scheduler=scheduler, workers=SimpleNamespace(call=self.call)))

    def set_stage(self, task: str, sources: list[str], stage: str) -> None:
        assert sources == ["s"]
        script = self.failures.get(f"{task}_{stage}", [])
        failure = script.pop(0) if script else None
        if failure is None or failure is NO_ANSWER:
            # What etcd does not confirm may have come through all the same.
            self.stages[task] = stage
        if failure is not None:
            raise failure

    def call(self, *_: Any, **__: Any) -> pb.QueryStatusResponse:
        found = [pb.SubTaskStatus(name=task, stage=stage, unit=pb.Sync) for task, stage in self.stages.items()]
        return pb.QueryStatusResponse(result=True, subTaskStatus=found)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_transfer, "_RESUME_ATTEMPTS", 3)


def test_tasks_are_paused_meanwhile_and_run_again() -> None:
    world = TransferWorld()
    with source_transfer.paused(world.cluster(), "s"):
        assert set(world.stages.values()) == {"Paused"}
    assert set(world.stages.values()) == {"Running"}


def test_an_error_of_etcd_while_they_are_paused_leaves_none_paused() -> None:
    world = TransferWorld(t2_Paused=[NO_ANSWER])
    with pytest.raises(DMError) as caught, source_transfer.paused(world.cluster(), "s"):
        raise AssertionError("not all are paused")
    assert caught.value is NO_ANSWER
    assert set(world.stages.values()) == {"Running"}


def test_an_error_of_etcd_while_they_are_resumed_is_tried_again() -> None:
    world = TransferWorld(t1_Running=[NO_ANSWER, NO_ANSWER])
    with source_transfer.paused(world.cluster(), "s"):
        pass
    assert set(world.stages.values()) == {"Running"}


def test_one_that_can_not_be_resumed_is_named_and_the_others_run() -> None:
    refused = errors.new(Code.HAFailTxnOperation, "etcd refuses")
    world = TransferWorld(t1_Running=[refused], t2_Running=[GONE])
    told = pytest.raises(DMError, match=r"s is not transferred \(.*no such worker.*tasks t1, which")
    with told as caught, source_transfer.paused(world.cluster(), "s"):
        raise errors.new(Code.SchedulerWorkerNotExist, "no such worker")
    assert caught.value.kind is Code.SchedulerPauseTaskForTransferSource
    assert "`resume-task` -s s" in caught.value.workaround
    assert world.stages == {"t1": "Paused", "t2": "Paused", "t3": "Running"}
    world = TransferWorld(t3_Running=[refused])
    with pytest.raises(DMError, match="s is transferred, and tasks t3"), source_transfer.paused(world.cluster(), "s"):
        pass
