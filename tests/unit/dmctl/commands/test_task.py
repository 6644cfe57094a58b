"""A task's commands send DM's request and print DM's answer; a wrong task file never reaches the master."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def _cwr(source: str = "s1") -> worker.CommonWorkerResponse:
    return worker.CommonWorkerResponse(result=True, source=source, worker="w1")


def test_start_task_sends_the_file_and_prints_the_answer(dmctl: RunDmctl, fake: CannedMaster, task_file: Path) -> None:
    fake.answers["StartTask"] = master.StartTaskResponse(
        result=True, sources=[_cwr()], checkResult="pre-check is passed. "
    )
    code, out, err = dmctl(
        "start-task", str(task_file), "--remove-meta", "-s", "s1,s2", "--start-time", "2026-01-02T03:04:05",
        "--until-position", "b.000003:120", "--until-gtid", "0-1-7", "--until-time", "2026-01-03T03:04:05",
    )  # fmt: skip
    request = fake.last("StartTask")
    assert (request.task, request.removeMeta, request.startTime) == (task_file.read_text(), True, "2026-01-02T03:04:05")
    assert list(request.sources) == ["s1", "s2"]
    until = (request.untilPosition, request.untilGTID, request.untilTime)
    assert until == ("b.000003:120", "0-1-7", "2026-01-03T03:04:05")
    assert (code, err) == (0, "")
    assert out == (
        '{\n    "result": true,\n    "msg": "",\n    "sources": [\n        {\n            "result": true,\n'
        '            "msg": "",\n            "source": "s1",\n            "worker": "w1"\n        }\n    ],\n'
        '    "checkResult": "pre-check is passed. "\n}\n'
    )


REPORT = (
    "[code=26005:class=dm-master:scope=internal:level=medium], Message: fail to check synchronization configuration "
    'with type: check was failed, please see detail\n\tdetail: {\n\t\t"results": [\n\t\t\t{\n\t\t\t\t"id": 0,\n'
    '\t\t\t\t"state": "fail"\n\t\t\t}\n\t\t],\n\t\t"summary": {}\n\t}'
)


def test_a_precheck_report_is_readable_inside_the_answer(dmctl: RunDmctl, fake: CannedMaster, task_file: Path) -> None:
    fake.answers["CheckTask"] = master.CheckTaskResponse(result=False, msg=REPORT)
    code, out, _ = dmctl("check-task", str(task_file), "-e", "3", "--warn", "4")
    request = fake.last("CheckTask")
    assert (request.errCnt, request.warnCnt) == (3, 4)
    assert code == 0
    assert '\n        detail: {\n            "results": [\n                {\n                    "id": 0,\n' in out
    assert out.startswith('{\n    "result": false,\n    "msg": "[code=26005:')
    assert out.endswith('        }",\n    "rules": null\n}\n')


def test_check_task_shows_the_effect_of_the_rules(dmctl: RunDmctl, fake: CannedMaster, task_file: Path) -> None:
    rules = master.RulesSummary(tables=12, targets=3, leftOut=4, unused=["task.yaml:1:1: 'r' of routes does nothing"])
    fake.answers["CheckTask"] = master.CheckTaskResponse(result=True, msg="pre-check is passed. ", rules=rules)
    code, out, _ = dmctl("check-task", str(task_file))
    assert code == 0
    assert json.loads(out)["rules"] == {
        "tables": 12,
        "targets": 3,
        "leftOut": 4,
        "unused": ["task.yaml:1:1: 'r' of routes does nothing"],
    }


@pytest.mark.parametrize(
    ("command", "op"), [("stop-task", "Delete"), ("pause-task", "Pause"), ("resume-task", "Resume")]
)
def test_operations_take_a_name_or_a_file(
    dmctl: RunDmctl, fake: CannedMaster, task_file: Path, command: str, op: str
) -> None:
    fake.answers["OperateTask"] = lambda request: master.OperateTaskResponse(op=request.op, result=True)
    code, out, _ = dmctl(command, "t1", "-s", "s1")
    assert code == 0
    assert list(json.loads(out)) == ["op", "result", "msg", "sources"]
    assert json.loads(out)["op"] == op
    assert (fake.last("OperateTask").name, list(fake.last("OperateTask").sources)) == ("t1", ["s1"])
    dmctl(command, str(task_file))
    assert fake.last("OperateTask").name == "from-file"
    dmctl(command, "absent.yaml")
    assert fake.last("OperateTask").name == "absent.yaml"
    assert not fake.last("OperateTask").safeMode


def test_only_a_named_task_is_resumed_in_safe_mode(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["OperateTask"] = lambda request: master.OperateTaskResponse(op=request.op, result=True)
    assert dmctl("resume-task", "t1", "-s", "s1", "--safe-mode")[0] == 0
    request = fake.last("OperateTask")
    assert (request.name, list(request.sources), request.safeMode) == ("t1", ["s1"], True)
    for refused in (("resume-task", "-s", "s1", "--safe-mode"), ("pause-task", "t1", "--safe-mode")):
        asked = len(fake.requests)
        assert dmctl(*refused)[0] != 0
        assert len(fake.requests) == asked


def test_operating_a_source_touches_each_of_its_tasks(dmctl: RunDmctl, fake: CannedMaster) -> None:
    subtasks = [worker.SubTaskStatus(name=name) for name in ("b", "a")]
    fake.answers["QueryStatus"] = master.QueryStatusListResponse(
        result=True, sources=[worker.QueryStatusResponse(result=True, subTaskStatus=subtasks)]
    )

    def operate(request: master.OperateTaskRequest) -> master.OperateTaskResponse:
        if request.name == "b":
            return master.OperateTaskResponse(op=request.op, msg="refused")
        return master.OperateTaskResponse(op=request.op, result=True, sources=[_cwr()])

    fake.answers["OperateTask"] = operate
    code, out, _ = dmctl("pause-task", "-s", "s1", "--batch-size", "2")
    assert code == 0
    assert json.loads(out) == {
        "result": True,
        "msg": "",
        "tasks": [
            {
                "task": "a",
                "op": "Pause",
                "result": True,
                "msg": "",
                "sources": [{"result": True, "source": "s1", "worker": "w1"}],
            },
            {"task": "b", "op": "Pause", "result": False, "msg": "refused", "sources": []},
        ],
    }
    assert dmctl("pause-task")[0] == 1
    assert dmctl("pause-task", "-s", "s1,s2")[0] == 1


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("name: [\n", "task.yaml:2:1: not valid YAML"),
        ("is-sharding: true\nshard-mode: optimistic\n", "please use `shard-mode` only."),
        ("is-sharding: false\nshard-mode: pessimistic\n", "please use `shard-mode` only."),
    ],
)
def test_a_task_file_with_a_visible_mistake_is_not_sent(
    dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path, content: str, place: str
) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(content)
    code, _, err = dmctl("start-task", str(path))
    assert code == 1
    assert place in err
    assert fake.requests == []


def test_warnings_are_in_the_answer_only_if_there_are_some(
    dmctl: RunDmctl, fake: CannedMaster, task_file: Path
) -> None:
    fake.answers["CheckTask"] = master.CheckTaskResponse(result=True, msg="pre-check is passed. ", warnings=["a", "b"])
    assert json.loads(dmctl("check-task", str(task_file))[1])["warnings"] == ["a", "b"]
    fake.answers["CheckTask"] = master.CheckTaskResponse(result=True, msg="pre-check is passed. ")
    assert "warnings" not in dmctl("check-task", str(task_file))[1]
