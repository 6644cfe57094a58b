"""Hazard: an operation that no request with real servers reaches: its answer is never compared with the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from schemathesis import openapi
from schemathesis.schemas import BaseSchema

from deploy.local.cluster import Cluster, DMMaster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, up, wait_until
from deploy.local.targets import new_target
from dm_master.openapi.contract import contract
from tests.harness.openapi import CONTRACT_CHECKS, ApiClient, api_source, api_task
from tests.harness.targets import TARGET

_TASK, _SOURCE = {"task-name": "t1"}, {"source-name": "s1"}
_SCHEMAS = {**_TASK, **_SOURCE}
_STRUCTURE = {**_SCHEMAS, "schema-name": "shop", "table-name": "a"}


class _Walk:
    """Sends requests that must be accepted, and compares each answer with the served contract."""

    def __init__(self, cluster: Cluster, upstream: SQLServer, target: SQLServer) -> None:
        self.cluster = cluster
        self.upstream, self.target = upstream, target
        port = cluster.master.port
        self.client = ApiClient(port)
        self._served: BaseSchema = openapi.from_url(f"http://127.0.0.1:{port}/api/v1/dm.json")
        self._operations = {one.id: one for one in contract().operations}
        self.accepted: set[str] = set()

    def send(self, name: str, path: dict[str, str] | None = None, body: Any = None, **query: Any) -> Any:
        operation = self._operations[name]
        served = self._served["/" + "/".join(operation.segments)][operation.method]
        given = {} if body is None else {"body": body, "media_type": "application/json"}
        case = served.Case(path_parameters=path or {}, query=query, **given)
        answer = case.call_and_validate(checks=CONTRACT_CHECKS, timeout=120)
        assert answer.status_code in (200, 201, 202, 204), f"{name}: {answer.status_code} {answer.text}"
        self.accepted.add(name)
        return answer.json() if answer.content and "json" in answer.headers.get("content-type", [""])[0] else None


@pytest.fixture
def walk() -> Iterator[_Walk]:
    upstream, target = MariaDBServer(gtid=True), new_target(TARGET)
    with up(upstream, target), Cluster(2, master_extra="openapi = true") as cluster:
        upstream.execute("CREATE DATABASE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY)")
        yield _Walk(cluster, upstream, target)


@pytest.mark.timeout(900)
def test_each_operation_accepts_a_request_and_answers_as_the_contract_says(walk: _Walk) -> None:
    _sources(walk)
    _tasks(walk)
    _templates(walk)
    _ends(walk)
    _members(walk)
    missing = {one.id for one in contract().operations} - walk.accepted
    assert not missing, f"no request of these was accepted: {sorted(missing)}"


def _sources(walk: _Walk) -> None:
    walk.send("GetDocHTML")
    walk.send("GetDocJSON")
    walk.send("DMAPICreateSource", body={"source": api_source(walk.upstream, "s1"), "worker_name": "worker2"})
    walk.send("DMAPIGetSourceList", with_status="true")
    shown = walk.send("DMAPIGetSource", _SOURCE, with_status="true")
    walk.send("DMAPIGetSourceStatus", _SOURCE)
    walk.send("DMAPIUpdateSource", _SOURCE, {"source": shown})
    assert walk.send("DMAPIGetSourceSchemaList", _SOURCE) == ["shop"]
    assert walk.send("DMAPIGetSourceTableList", {**_SOURCE, "schema-name": "shop"}) == ["a"]
    walk.send("DMAPITransferSource", _SOURCE, {"worker_name": "worker1"})
    worker = {"worker_name_list": ["worker1"]}
    wait_until(lambda: _status(walk)["worker_name"] == "worker1", "it has moved", WAIT_TIMEOUT)
    walk.send("DMAPIEnableRelay", _SOURCE, worker)
    wait_until(lambda: "master_binlog" in _status(walk).get("relay_status", {}), "the relay runs", WAIT_TIMEOUT)
    file = _status(walk)["relay_status"]["master_binlog"].split(",")[0].strip("(")
    walk.send("DMAPIPurgeRelay", _SOURCE, {"relay_binlog_name": file})
    walk.send("DMAPIDisableRelay", _SOURCE, worker)
    walk.send("DMAPIDisableSource", _SOURCE)
    walk.send("DMAPIEnableSource", _SOURCE)


def _status(walk: _Walk) -> dict[str, Any]:
    (found,) = walk.client.ok("GET", "sources/s1/status")["data"]
    return dict(found)


def _tasks(walk: _Walk) -> None:
    task = api_task(walk.target, "t1", ["s1"], "shop")
    both = walk.send("DMAPIConvertTask", body={"task": task})
    assert walk.send("DMAPIConvertTask", body={"task_config_file": both["task_config_file"]}) == both
    walk.send("DMAPICreateTask", body={"task": task})
    walk.send("DMAPIGetTaskList", with_status="true")
    walk.send("DMAPIGetTask", _TASK, with_status="true")
    walk.send("DMAPIUpdateTask", _TASK, {"task": task})
    walk.send("DMAPIStartTask", _TASK, {})
    walk.cluster.wait_stage("t1", "Running", unit="Sync")
    walk.send("DMAPIGetTaskStatus", _TASK)
    walk.send("DMAPIGetTaskMigrateTargets", _SCHEMAS)
    walk.cluster.wait_synced("t1")  # what has not begun may be Paused before it ends
    walk.cluster.ok("pause-task", "t1")
    walk.cluster.wait_stage("t1", "Paused")
    walk.send("DMAPIGetSchemaListByTaskAndSource", _SCHEMAS)
    walk.send("DMAPIGetTableListByTaskAndSource", {**_SCHEMAS, "schema-name": "shop"})
    known = {"schema_source": "upstream"}
    walk.send("DMAPIOperateTableStructure", _STRUCTURE, known)
    assert "CREATE TABLE" in walk.send("DMAPIGetTableStructure", _STRUCTURE)["schema_create_sql"]
    walk.send("DMAPIDeleteTableStructure", _STRUCTURE)
    walk.send("DMAPIStopTask", _TASK, {})


def _templates(walk: _Walk) -> None:
    task = api_task(walk.target, "draft", ["s1"], "shop")
    name = {"task-name": "draft"}
    walk.send("DMAPICreateTaskTemplate", body=task)
    walk.send("DMAPIGetTaskTemplateList")
    walk.send("DMAPIGetTaskTemplate", name)
    walk.send("DMAPUpdateTaskTemplate", name, task | {"task_mode": "full"})
    walk.send("DMAPIDeleteTaskTemplate", name)
    assert walk.send("DMAPIImportTaskTemplate", body={"overwrite": True})["success_task_list"] == ["t1"]


def _ends(walk: _Walk) -> None:
    walk.send("DMAPIDeleteTask", _TASK)
    walk.send("DMAPIDeleteSource", _SOURCE)
    info = walk.send("DMAPIGetClusterInfo")
    topology = {"worker_topology_list": [{"name": "w1", "host": "h", "port": 8262}]}
    assert walk.send("DMAPIUpdateClusterInfo", body=topology)["cluster_id"] == info["cluster_id"]


def _members(walk: _Walk) -> None:
    walk.send("DMAPIGetClusterWorkerList")
    walk.cluster.workers[1].stop()
    wait_until(lambda: "offline" in str(walk.send("DMAPIGetClusterWorkerList")), "worker2 is offline", WAIT_TIMEOUT)
    walk.send("DMAPIOfflineWorkerNode", {"worker-name": "worker2"})
    # Two of three members are a majority: one of them may leave.
    joins = f'openapi = true\njoin = "{walk.cluster.master.address}"\n'
    others = [DMMaster(walk.cluster.dir, member=name, extra=joins) for name in ("master2", "master3")]
    try:
        for master in others:
            master.start()
        others[1].stop(seconds=15)
        masters = walk.send("DMAPIGetClusterMasterList")["data"]
        assert {one["name"] for one in masters} == {"master1", "master2", "master3"}
        walk.send("DMAPIOfflineMasterNode", {"master-name": "master3"})
    finally:
        for master in others:
            master.stop(seconds=15)
