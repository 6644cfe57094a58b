"""The summary of query-status must not look better than the worst subtask, and scripts count its lines."""

from __future__ import annotations

import json
import re

import pytest

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def _status(*parts: tuple[str, worker.SubTaskStatus]) -> master.QueryStatusListResponse:
    return master.QueryStatusListResponse(
        result=True,
        sources=[
            worker.QueryStatusResponse(
                result=True, sourceStatus=worker.SourceStatus(source=source, worker="w"), subTaskStatus=[subtask]
            )
            for source, subtask in parts
        ],
    )


def _subtask(stage: worker.Stage, error: bool = False) -> worker.SubTaskStatus:
    result = worker.ProcessResult(errors=[worker.ProcessError(ErrCode=1)] if error else [])
    return worker.SubTaskStatus(name="t", stage=stage, unit=worker.Sync, result=result)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([(worker.Running, False), (worker.Running, False)], "Running"),
        ([(worker.Finished, False), (worker.Finished, False)], "Finished"),
        ([(worker.Stopped, False)], "Stopped"),
        ([(worker.New, False)], "New"),
        ([(worker.Finished, False), (worker.Running, False)], "Running"),
        ([(worker.Paused, False), (worker.Running, False)], "Paused"),
        (
            [(worker.Running, False), (worker.Paused, True)],
            "Error - Some error occurred in subtask. Please run `query-status t` to get more details.",
        ),
    ],
)
def test_the_summary_shows_the_worst_subtask(
    dmctl: RunDmctl, fake: CannedMaster, stages: list[tuple[worker.Stage, bool]], expected: str
) -> None:
    parts = [(f"s{number}", _subtask(stage, error)) for number, (stage, error) in enumerate(stages)]
    fake.answers["QueryStatus"] = _status(*parts)
    out = json.loads(dmctl("query-status")[1])
    assert out == {
        "result": True,
        "msg": "",
        "tasks": [{"taskName": "t", "taskStatus": expected, "sources": [source for source, _ in parts]}],
    }


def test_a_paused_relay_is_an_error_of_the_task(dmctl: RunDmctl, fake: CannedMaster) -> None:
    answer = _status(("s1", _subtask(worker.Running)))
    answer.sources[0].sourceStatus.relayStatus.stage = worker.Paused
    fake.answers["QueryStatus"] = answer
    status = json.loads(dmctl("query-status")[1])["tasks"][0]["taskStatus"]
    assert status == "Error - Relay status is Paused. Please run `query-status t` to get more details."


def test_no_tasks_print_an_empty_list(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["QueryStatus"] = _status(("s1", worker.SubTaskStatus(msg="no sub task started")))
    assert dmctl("query-status")[1] == '{\n    "result": true,\n    "msg": "",\n    "tasks": []\n}\n'


@pytest.mark.parametrize("argv", [["t"], ["-s", "s1"], ["--more"]])
def test_details_on_demand(dmctl: RunDmctl, fake: CannedMaster, argv: list[str]) -> None:
    fake.answers["QueryStatus"] = _status(("s1", _subtask(worker.Running)))
    out = dmctl("query-status", *argv)[1]
    assert json.loads(out)["sources"][0]["subTaskStatus"][0]["stage"] == "Running"
    # Scripts count these lines: one for the source, one for the whole.
    assert len(re.findall(r'^ *"result": true,$', out, re.MULTILINE)) == 2


@pytest.mark.parametrize(
    ("argv", "key"), [(["--more=true"], "sources"), (["--more=false"], "tasks"), (["--", "--more=true"], "sources")]
)
def test_flags_take_gos_booleans(dmctl: RunDmctl, fake: CannedMaster, argv: list[str], key: str) -> None:
    fake.answers["QueryStatus"] = _status(("s1", _subtask(worker.Running)))
    assert key in json.loads(dmctl("query-status", *argv)[1])


def test_an_unanswering_source_turns_the_summary_into_details(dmctl: RunDmctl, fake: CannedMaster) -> None:
    answer = _status(("s1", _subtask(worker.Running)))
    answer.sources[0].result = False
    fake.answers["QueryStatus"] = answer
    assert "sources" in json.loads(dmctl("query-status")[1])


def test_a_profile_is_asked_for_and_shown_as_text(dmctl: RunDmctl, fake: CannedMaster) -> None:
    subtask = _subtask(worker.Running)
    subtask.profile.seconds = 10
    subtask.profile.sums["main/waiting"] = 10
    fake.answers["QueryStatus"] = _status(("s1", subtask), ("s2", _subtask(worker.Running)))
    code, out = dmctl("query-status", "t", "--profile")[:2]
    assert code == 0
    assert "task t, source s1: the last 10 s" in out
    assert "wait for events" in out
    assert "task t, source s2: it does not replicate" in out
    fake.answers["QueryStatus"] = master.QueryStatusListResponse(msg="task t has no source or not exist")
    assert json.loads(dmctl("query-status", "t", "--profile")[1])["msg"] == "task t has no source or not exist"


def test_a_status_without_a_profile_is_printed_as_dms(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["QueryStatus"] = _status(("s1", _subtask(worker.Running)))
    assert "profile" not in dmctl("query-status", "t")[1]
