"""Each command reaches its RPC; a wrong call ends with 1 and never reaches the master."""

from __future__ import annotations

import json

import pytest

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


@pytest.mark.parametrize(
    "argv",
    [
        ["start-task"],
        ["start-task", "absent.yaml"],
        ["nonsense"],
        ["query-status", "a", "b"],
        ["query-status", "--nonsense"],
        ["operate-source"],
        ["operate-source", "destroy"],
        ["operate-source", "create"],
        ["operate-source", "stop"],
        ["offline-member", "--name", "x"],
        ["offline-member", "--name", "x", "--master", "--worker"],
        ["operate-leader", "crown"],
        ["binlog", "replace", "t"],
        ["binlog-schema", "list", "t", "d", "t"],
        ["shard-ddl-lock", "unlock", "l", "-a", "maybe"],
        ["start-relay"],
        ["validation", "start"],
        ["config", "task"],
    ],
)
def test_wrong_calls_end_with_one_and_never_reach_the_master(
    dmctl: RunDmctl, fake: CannedMaster, argv: list[str]
) -> None:
    code, out, err = dmctl(*argv)
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")
    assert fake.requests == []


@pytest.mark.parametrize(
    ("argv", "method"),
    [
        (["shard-ddl-lock"], "ShowDDLLocks"),
        (["shard-ddl-lock", "task"], "ShowDDLLocks"),
        (["shard-ddl-lock", "unlock", "id", "-o", "s1", "-f"], "UnlockDDLLock"),
        (["show-ddl-locks"], "ShowDDLLocks"),
        (["unlock-ddl-lock", "id"], "UnlockDDLLock"),
        (["binlog", "skip", "t", "-b", "mysql-bin.000001:4"], "HandleError"),
        (["binlog", "replace", "t", "alter table a.b add c int; drop table a.d"], "HandleError"),
        (["handle-error", "t", "skip"], "HandleError"),
        (["binlog-schema", "list", "t", "d", "tbl", "-s", "s1"], "OperateSchema"),
        (["operate-schema", "get", "t", "-d", "d", "-t", "tbl", "-s", "s1"], "OperateSchema"),
        (["binlog-schema", "delete", "t", "d", "tbl", "-s", "s1,s2"], "OperateSchema"),
        (["start-relay", "-s", "s1"], "OperateRelay"),
        (["pause-relay", "-s", "s1"], "OperateWorkerRelayTask"),
        (["purge-relay", "-s", "s1", "-f", "mysql-bin.000001"], "PurgeWorkerRelay"),
        (["transfer-source", "s1", "w1"], "TransferSource"),
        (["operate-leader", "evict"], "OperateLeader"),
        (["offline-member", "--worker", "--name", "w1"], "OfflineMember"),
        (["validation", "start", "t"], "StartValidation"),
        (["validation", "stop", "--all-task"], "StopValidation"),
        (["validation", "status", "t"], "GetValidationStatus"),
        (["validation", "show-error", "t"], "GetValidationError"),
        (["validation", "ignore-error", "t", "3"], "OperateValidationError"),
        (["validation", "update", "t", "--cutover-binlog-gtid", "g"], "UpdateValidation"),
    ],
)
def test_every_command_reaches_its_rpc(dmctl: RunDmctl, fake: CannedMaster, argv: list[str], method: str) -> None:
    services = master.DESCRIPTOR.services_by_name["Master"].methods_by_name
    kind = services[method].output_type
    module = master if hasattr(master, kind.name) else worker
    fake.answers[method] = getattr(module, kind.name)(msg="told")
    code, out, _ = dmctl(*argv)
    assert code == 0
    assert json.loads(out)["msg"] == "told"
    assert [name for name, _ in fake.requests] == [method]
