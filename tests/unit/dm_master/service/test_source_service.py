"""Hazard: DM's client stops no source, or a source that exists is refused for what its own relay holds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dm_master.scheduling import source_binding
from dm_master.scheduling.topology import Topology
from dm_master.service.source_service import SourceService
from pkg import errors
from pkg.config.codec import decode_source, encode_source
from pkg.config.model import SourceConfig
from pkg.config.source import load_source
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.status.operations import allowed_for_source

_FILE = "source-id: s1\nserver-id: 101\nfrom: {host: h, port: 1, user: root}\n"


def _never(config: SourceConfig, _: list[str]) -> SourceConfig:
    raise AssertionError(f"the server of {config.source_id} was asked")


def _no_task(request: pb.OperateTaskRequest) -> pb.OperateTaskResponse:
    raise AssertionError(f"task {request.name} was changed")


def _service(removed: list[str]) -> SourceService:
    def remove(source: str) -> str:
        removed.append(source)
        return ""

    scheduler = SimpleNamespace(
        sources=lambda: {"s1": None, "s2": None}, bound_worker=lambda _: None, remove_source=remove
    )
    cluster: Any = SimpleNamespace(scheduler=scheduler)
    return SourceService(cluster, _never, _no_task)


def test_a_source_is_stopped_by_its_id_or_by_its_file() -> None:
    removed: list[str] = []
    request = pb.OperateSourceRequest(op=pb.StopSource, config=[_FILE], sourceID=["s2", "s1"])
    assert _service(removed).operate_source(request).result
    assert removed == ["s2", "s1"]


def test_a_source_that_exists_is_refused_before_its_server_is_asked() -> None:
    with pytest.raises(DMError) as caught:
        _service([]).operate_source(pb.OperateSourceRequest(op=pb.StartSource, config=[_FILE]))
    assert caught.value.kind is Code.SchedulerSourceCfgExist


@pytest.mark.parametrize("order", [pb.StartSource, pb.UpdateSource])
def test_a_source_whose_name_leads_out_of_its_folder_is_refused(order: pb.SourceOp) -> None:
    outside = pb.OperateSourceRequest(op=order, config=[_FILE.replace("s1", "../s1")])
    with pytest.raises(DMError, match=r"source-id '\.\./s1' cannot name tables and folders"):
        _service([]).operate_source(outside)


class _Tasks:
    """A cluster with source s1, and tasks on it with their stages; ``stubborn`` ones refuse every operation, as one
    whose cutover has ended, and ``slow`` ones do not answer in time."""

    def __init__(self, stages: dict[str, str], *, enable: bool = True, stubborn: str = "", slow: str = "") -> None:
        subtasks = {("s1", task): stage for task, stage in stages.items()}
        self.state = Topology(
            sources={"s1": encode_source(replace(load_source(_FILE, "s1", []), enable=enable))},
            subtasks=dict.fromkeys(subtasks, "config"),
            stages=subtasks,
        )
        self._stubborn, self._slow = stubborn, slow
        cluster: Any = SimpleNamespace(scheduler=self)
        self.service = SourceService(cluster, _never, self._operate)

    def sources(self) -> dict[str, SourceConfig]:
        return {source: decode_source(text) for source, text in self.state.sources.items()}

    def tasks(self) -> dict[str, dict[str, str]]:
        return {task: {source: stage} for (source, task), stage in self.state.stages.items()}

    def set_enabled(self, config: SourceConfig, enable: bool) -> None:
        text = encode_source(replace(config, enable=enable))
        plan = source_binding.set_enabled(self.state, config.source_id, text, enable=enable)
        self.state = self.state.after(plan.ops)

    def _operate(self, request: pb.OperateTaskRequest) -> pb.OperateTaskResponse:
        assert (list(request.sources), request.keep) == (["s1"], request.op == worker_pb.Stop)
        if request.name == self._stubborn:
            raise errors.new(Code.CutoverEnded, f"{request.name} has ended", workaround="Look at it.")
        late = request.name == self._slow
        answer = worker_pb.CommonWorkerResponse(result=not late, source="s1", msg="too late" if late else "")
        if not late:
            stage = "Stopped" if request.op == worker_pb.Stop else "Running"
            self.state = replace(self.state, stages={**self.state.stages, ("s1", request.name): stage})
        return pb.OperateTaskResponse(result=True, sources=[answer])

    def order(self, op: pb.SourceOp) -> worker_pb.CommonWorkerResponse:
        (answer,) = self.service.operate_source(pb.OperateSourceRequest(op=op, sourceID=["s1"])).sources
        return answer

    @property
    def enabled(self) -> bool:
        return self.sources()["s1"].enable

    @property
    def stages(self) -> dict[str, str]:
        return {task: stages["s1"] for task, stages in self.tasks().items()}


def test_a_source_is_disabled_with_its_tasks_and_enabled_with_them() -> None:
    cluster = _Tasks({"a": "Running", "b": "Paused", "c": "Stopped"})
    assert cluster.order(pb.DisableSource).result
    assert (cluster.enabled, set(cluster.stages.values())) == (False, {"Stopped"})
    assert cluster.order(pb.EnableSource).result
    assert (cluster.enabled, set(cluster.stages.values())) == (True, {"Running"})


@pytest.mark.parametrize("how", ["stubborn", "slow"])
def test_a_source_whose_task_does_not_stop_stays_enabled_and_says_why(how: str) -> None:
    cluster = _Tasks({"a": "Running", "b": "Running", "c": "Running"}, **{how: "b"})  # type: ignore[arg-type]
    answer = cluster.order(pb.DisableSource)
    assert not answer.result
    assert ("b has ended" if how == "stubborn" else "too late") in answer.msg
    assert (cluster.enabled, cluster.stages) == (True, {"a": "Stopped", "b": "Running", "c": "Stopped"})


def test_a_task_that_cannot_start_keeps_no_other_from_it() -> None:
    cluster = _Tasks({"a": "Stopped", "b": "Stopped", "c": "Stopped"}, enable=False, stubborn="a")
    answer = cluster.order(pb.EnableSource)
    assert "a has ended" in answer.msg
    assert (cluster.enabled, cluster.stages) == (True, {"a": "Stopped", "b": "Running", "c": "Running"})


def test_a_source_is_not_disabled_while_a_task_was_started_meanwhile() -> None:
    cluster = _Tasks({"a": "Running"})
    with pytest.raises(DMError) as caught:
        cluster.set_enabled(cluster.sources()["s1"], False)
    assert caught.value.kind is Code.SchedulerSourceOpTaskExist
    assert cluster.enabled


@pytest.mark.parametrize("enable", [True, False])
def test_the_button_of_a_source_is_the_order_that_changes_it(enable: bool) -> None:
    orders = {"enable-source": pb.EnableSource, "disable-source": pb.DisableSource}
    changing = []
    for name, op in orders.items():
        cluster = _Tasks({}, enable=enable)
        cluster.order(op)
        changing += [name] if cluster.enabled != enable else []
    shown = allowed_for_source(worker_pb.SourceStatus(disabled=not enable), used=True)
    assert [name for name in shown if name in orders] == changing
