"""Hazard: dmctl reports a completed cutover, or no later writes, although that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl

_CERTIFICATE = json.dumps(
    {
        "certificate": "c1",
        "task": "t",
        "began": "2026-01-02 03:04:05",
        "ended": "2026-01-02 03:05:05",
        "version": "1",
        "sources": [{"source": "one", "version": "10.11", "position": "(bin.000001, 4)", "gtid-set": "0-1-2"}],
        "target": {"version": "8.0"},
        "comparison": "equal, run c1",
        "method": "sums",
        "tables": [{"schema": "s", "table": "t", "rows": 3, "checksum": "1-2", "undigested": 0, "columns": "`id` int"}],
        "checks": [{"name": "users", "verdict": "no", "accepted": True, "evidence": ["one lacks"]}],
    }
)


def test_the_certificate_is_written_as_json_and_as_text(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    fake.answers["OperateCutover"] = master.OperateCutoverResponse(
        result=True, done=True, stage="ended", certificate=_CERTIFICATE, msg="the cutover is done"
    )
    code, out, _ = dmctl("cutover", "run", "t", "--accept", "users", "--certificate", str(tmp_path))
    assert code == 0
    assert json.loads((tmp_path / "t-cutover-c1.json").read_text()) == json.loads(_CERTIFICATE)
    text = (tmp_path / "t-cutover-c1.txt").read_text()
    for part in ("(bin.000001, 4), GTID set 0-1-2", "s.t: 3 rows, 1-2", "users: no (accepted): one lacks"):
        assert part in text
    assert "t-cutover-c1.json" in out
    ((_, request),) = fake.requests
    assert (request.op, request.task, list(request.accept)) == (master.RunCutover, "t", ["users"])


def test_a_cutover_that_is_not_ready_fails_with_its_checks(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    check = master.CutoverCheck(name="quiet", verdict="no", evidence=["it grows"], remedy="stop the writers")
    fake.answers["OperateCutover"] = master.OperateCutoverResponse(done=True, msg="not ready: quiet", checks=[check])
    code, out, err = dmctl("cutover", "run", "t", "--certificate", str(tmp_path))
    assert code == 1
    assert "stop the writers" in out
    assert "not ready: quiet" in err
    assert not [*tmp_path.iterdir()]


def test_a_missing_folder_is_found_before_the_cutover(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    code, _, _ = dmctl("cutover", "run", "t", "--certificate", str(tmp_path / "absent"))
    assert code == 1
    assert not fake.requests


@pytest.mark.parametrize(
    ("source", "trouble"),
    [
        (master.CutoverSource(source="one", watch=worker.CutoverWatchStatus(agreed="(b.000001, 4)")), ""),
        (
            master.CutoverSource(source="one", watch=worker.CutoverWatchStatus(writes=2, first=['{"kind": "insert"}'])),
            "one: 2 writes since the cutover",
        ),
        (
            master.CutoverSource(source="one", watch=worker.CutoverWatchStatus(problem="no connection")),
            "one: not watched: no connection",
        ),
        (master.CutoverSource(source="one", msg="no worker"), "one: not watched: no worker"),
    ],
)
def test_status_fails_on_writes_and_without_a_watch(
    dmctl: RunDmctl, fake: CannedMaster, source: master.CutoverSource, trouble: str
) -> None:
    fake.answers["OperateCutover"] = master.OperateCutoverResponse(
        result=True, done=True, stage="ended", sources=[source]
    )
    code, out, err = dmctl("cutover", "status", "t")
    assert code == (1 if trouble else 0)
    assert trouble in err
    assert all(line in out for line in source.watch.first)


def test_verify_asks_the_task_of_the_certificate(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(_CERTIFICATE)
    table = master.VerifiedTable(target="`s`.`t`", state="different", since="a moment after noon")
    fake.answers["OperateCutover"] = master.OperateCutoverResponse(msg="it differs", tables=[table])
    code, out, _ = dmctl("cutover", "verify", str(path))
    assert code == 1
    assert "`s`.`t`: different since a moment after noon" in out
    ((_, request),) = fake.requests
    assert (request.op, request.task, request.certificate) == (master.VerifyCutover, "t", _CERTIFICATE)


def test_a_file_that_is_not_a_certificate_is_refused(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text("{}")
    code, _, err = dmctl("cutover", "verify", str(path))
    assert code == 1
    assert "not the JSON file of a certificate" in err
    assert not fake.requests
