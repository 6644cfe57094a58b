"""Hazard: a preview that describes another request than the one that is sent."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass

from dmctl import cli
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.status.preview import preview
from tests.harness.canned_master import CannedMaster

REQUESTS: list[tuple[str, Any]] = [
    ("OperateTask", master.OperateTaskRequest(op=worker.Pause, name="orders", sources=["one", "two"])),
    ("OperateTask", master.OperateTaskRequest(op=worker.Resume, name="orders", safeMode=True)),
    ("OperateTask", master.OperateTaskRequest(op=worker.Delete, name="it's <b>")),
    ("HandleError", master.HandleErrorRequest(op=worker.Skip, task="orders", binlogPos="mysql-bin.000001:4")),
    (
        "UnlockDDLLock",
        master.UnlockDDLLockRequest(ID="t-`a`.`b`", replaceOwner="one", op=master.ExecLock, forceRemove=True),
    ),
    ("OperateSource", master.OperateSourceRequest(op=master.StopSource, sourceID=["one"])),
    ("OperateSource", master.OperateSourceRequest(op=master.EnableSource, sourceID=["one", "two"])),
    ("OperateSource", master.OperateSourceRequest(op=master.DisableSource, sourceID=["one"])),
    ("OperateWorkerRelayTask", master.OperateWorkerRelayRequest(op=worker.PauseRelay, sources=["one"])),
    ("OperateWorkerRelayTask", master.OperateWorkerRelayRequest(op=worker.ResumeRelay, sources=["one"])),
    ("OperateRelay", master.OperateRelayRequest(op=master.StartRelayV2, source="one", worker=["w1"])),
    ("OperateRelay", master.OperateRelayRequest(op=master.StopRelayV2, source="one")),
    ("PurgeWorkerRelay", master.PurgeWorkerRelayRequest(sources=["one"], filename="mysql-bin.000002", subDir="s")),
    ("StartValidation", master.StartValidationRequest(taskName="orders", mode_value="fast")),
    ("StopValidation", master.StopValidationRequest(taskName="orders")),
    (
        "OperateDiff",
        master.OperateDiffRequest(op=worker.StartDiff, task="orders", options=worker.DiffOptions(repair=True)),
    ),
    ("OperateDiff", master.OperateDiffRequest(op=worker.StopDiff, task="orders", sources=["one"])),
    ("TransferSource", master.TransferSourceRequest(source="one", worker="w2")),
    ("OfflineMember", master.OfflineMemberRequest(type="worker", name="w1")),
    ("UpdateValidation", master.UpdateValidationRequest(taskName="orders", binlogGTID="0-1-2")),
    ("OperateValidationError", worker.OperateValidationErrorRequest(op=worker.ClearErrOp, taskName="orders", errId=7)),
    (
        "OperateValidationError",
        worker.OperateValidationErrorRequest(op=worker.IgnoreErrOp, isAllError=True, taskName="orders"),
    ),
    ("HandBack", master.HandBackRequest(task="orders", execute=True)),
    (
        "OperateSchema",
        master.OperateSchemaRequest(op=worker.RemoveSchema, task="t", sources=["one"], database="a", table="b"),
    ),
    ("OperateLeader", master.OperateLeaderRequest(op=master.EvictLeaderOp)),
    ("OperateCutover", master.OperateCutoverRequest(op=master.EndCutover, task="orders")),
    ("OperateCutover", master.OperateCutoverRequest(op=master.ReverseCutover, task="orders")),
]  # fmt: skip


@pytest.fixture(scope="module")
def canned() -> Any:
    fake = CannedMaster().start()
    yield fake
    fake.stop()


def _response(method: str) -> Any:
    output = master.DESCRIPTOR.services_by_name["Master"].methods_by_name[method].output_type
    return GetMessageClass(output)(result=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(("method", "request_"), REQUESTS, ids=lambda it: it if isinstance(it, str) else "")
def test_the_command_of_a_preview_sends_the_request(canned: CannedMaster, method: str, request_: Any) -> None:
    described = preview(method, request_)
    assert described is not None
    assert described.effects
    canned.answers[method] = _response(method)
    command = shlex.split(described.command)
    assert command[0] == "dmctl"
    assert cli.main(["--master-addr", canned.address, *command[1:]]) == 0
    sent = canned.last(method)
    if method == "OperateDiff" and not sent.options.ByteSize():
        sent.ClearField("options")
    assert sent == request_


def test_dmctl_shows_the_preview_and_sends_nothing(canned: CannedMaster, capsys: pytest.CaptureFixture[str]) -> None:
    canned.requests.clear()
    assert cli.main(["--master-addr", canned.address, "stop-task", "orders", "--preview"]) == 0
    described = preview("OperateTask", master.OperateTaskRequest(op=worker.Delete, name="orders"))
    assert described is not None
    assert capsys.readouterr().out.splitlines() == [*described.lines(), "Nothing was changed."]
    assert canned.requests == []


def test_a_read_has_no_preview() -> None:
    assert preview("QueryStatus", master.QueryStatusListRequest()) is None
    assert preview("OperateDiff", master.OperateDiffRequest(op=worker.ShowDiff)) is None
