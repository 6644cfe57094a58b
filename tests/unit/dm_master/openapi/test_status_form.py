"""Hazard: a status of a running task has fields that the served contract does not have, or lacks some of it."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from dm_master.openapi.contract import contract
from dm_master.openapi.status_form import subtask_status
from pkg.pb import dmworker_pb2 as pb

_GROUP = pb.ShardingGroup(target="`a`.`b`", DDLs=["x"], synced=["s"], unsynced=["u"], heldRows=3, waitingDDLs=1)
_SYNC = pb.SyncStatus(
    totalEvents=1, masterBinlog="(b.000001, 4)", blockingDDLs=["x"], unresolvedGroups=[_GROUP], conflictMsg="c",
    totalRows=5, lagReason="ddl", bytesBehind=7, streamSecondsBehind=1, streamBytesBehind=2,
)  # fmt: skip


@pytest.mark.parametrize(
    "subtask",
    [
        pb.SubTaskStatus(name="t", stage=pb.Running, unit=pb.Sync, sync=_SYNC),
        pb.SubTaskStatus(name="t", stage=pb.Running, unit=pb.Load, load=pb.LoadStatus(bps=3, metaBinlogGTID="0-1-2")),
        pb.SubTaskStatus(name="t", stage=pb.Paused, unit=pb.Dump, dump=pb.DumpStatus(bps=3, completedTables=2.5)),
        pb.SubTaskStatus(name="t", msg="no such task"),
    ],
    ids=["sync", "load", "dump", "none"],
)
def test_each_unit_s_status_is_as_the_contract_says(subtask: pb.SubTaskStatus) -> None:
    answer = pb.QueryStatusResponse(result=True, sourceStatus=pb.SourceStatus(source="s", worker="w"))
    document = contract().document
    validator = Draft202012Validator(
        {**document["components"]["schemas"]["SubTaskStatus"], "components": document["components"]}
    )
    assert [problem.message for problem in validator.iter_errors(subtask_status(answer, subtask))] == []
