"""`diff` passes its flags on and shows what was found; a refusal ends with 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def answer() -> master.OperateDiffResponse:
    orders = worker.DiffTableStatus(
        target="`a`.`orders`", state="different", missing=2, changed=1, rows=30, chunks=2, chunksDone=2,
        firstKeys=["missing (7)"],
    )  # fmt: skip
    gone = worker.DiffTableStatus(target="`a`.`gone`", state="not compared", reason="there is no table `a`.`gone`")
    source = worker.DiffSourceStatus(
        result=True, source="s1", stage="Finished", tables=[orders, gone], differences="/d/differences.jsonl",
        repairs="/d/repairs.sql",
    )  # fmt: skip
    return master.OperateDiffResponse(result=True, verdict="different", sources=[source])


def test_start_passes_its_flags_on(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["OperateDiff"] = answer()
    flags = ["--tables", "a.*, b.t", "--sample", "5", "--lock", "--redact", "--threads", "3", "--rate", "2MiB"]
    code, _, _ = dmctl("diff", "start", "t1", "-s", "s1", *flags, "--most-lag", "9")
    request = fake.last("OperateDiff")
    assert (code, request.op, request.task, list(request.sources)) == (0, worker.StartDiff, "t1", ["s1"])
    assert request.options == worker.DiffOptions(
        tables=["a.*", "b.t"], sample=5, lock=True, redact=True, threads=3, bytesPerSecond=2 << 20, mostLag=9
    )


def test_status_is_json_or_a_text_for_people(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["OperateDiff"] = answer()
    code, out, _ = dmctl("diff", "status", "t1")
    assert (code, json.loads(out)["verdict"]) == (0, "different")
    code, out, _ = dmctl("diff", "status", "t1", "-o", "table")
    assert code == 0
    assert out.splitlines() == [
        "verdict: different",
        "source s1: Finished",
        "  `a`.`orders`  different; 2 missing, 1 changed; 30 rows; 2/2 chunks",
        "      missing (7)",
        "  `a`.`gone`    not compared; 0 rows; 0/0 chunks; there is no table `a`.`gone`",
        "  all differences: /d/differences.jsonl",
        "  statements that repair the target: /d/repairs.sql",
    ]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A comparison's file, one of whose servers has a certificate in a file."""
    (tmp_path / "ca.pem").write_text("the CA")
    path = tmp_path / "diff.yaml"
    path.write_text(
        "name: shops\ntarget-database: {host: t, port: 1}\nmysql-instances:\n"
        f"- {{source-id: a, from: {{host: a, port: 1, security: {{ssl-ca: {tmp_path / 'ca.pem'}}}}}}}\n"
    )
    return str(path)


def test_a_file_is_sent_by_a_start_only(dmctl: RunDmctl, fake: CannedMaster, file: str) -> None:
    fake.answers["OperateDiff"] = answer()
    assert dmctl("diff", "start", "--config", file, "--threads", "3")[0] == 0
    request = fake.last("OperateDiff")
    assert (request.op, request.task, request.comparison, request.options.threads) == (
        worker.StartDiff, "", "shops", 3,
    )  # fmt: skip
    assert 'ssl-ca-base64: "dGhlIENB"' in request.config
    for command, op in (("status", worker.ShowDiff), ("stop", worker.StopDiff)):
        assert dmctl("diff", command, "--config", file)[0] == 0
        request = fake.last("OperateDiff")
        assert (request.op, request.comparison, request.config) == (op, "shops", "")


def test_there_is_either_a_task_or_a_file(dmctl: RunDmctl, fake: CannedMaster, file: str) -> None:
    for command in ("start", "stop", "status"):
        for arguments in ((), ("t1", "--config", file)):
            code, _, err = dmctl("diff", command, *arguments)
            assert code == 1
            assert "either a task or a comparison's file" in err
    for flags in (("--repair",), ("--lock",), ("--most-lag", "5")):
        code, _, err = dmctl("diff", "start", "--config", file, *flags)
        assert code == 1
        assert "need a task" in err


def test_a_refusal_ends_with_one(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["OperateDiff"] = master.OperateDiffResponse(msg="task t1 has no source or not exist")
    for command in ("start", "stop", "status"):
        code, _, err = dmctl("diff", command, "t1")
        assert code == 1
        assert "has no source" in err


def running(stage: str, run: str = "r1", state: str = "comparing", *, result: bool = True) -> worker.DiffSourceStatus:
    table = worker.DiffTableStatus(target="`a`.`b`", state=state)
    return worker.DiffSourceStatus(
        result=result, source="s1", stage=stage, run=run, rows=7, totalRows=9, eta="3s", tables=[table]
    )


def one_after_the_other(fake: CannedMaster, *answers: tuple[str, worker.DiffSourceStatus]) -> None:
    waiting = [
        master.OperateDiffResponse(result=source.result, verdict=verdict, sources=[source])
        for verdict, source in answers
    ]
    fake.answers["OperateDiff"] = lambda _: waiting.pop(0)


@pytest.mark.parametrize(("verdict", "code"), [("equal", 0), ("different", 1), ("not compared", 1)])
def test_once_waits_for_the_end_and_only_equal_is_success(
    dmctl: RunDmctl, fake: CannedMaster, monkeypatch: pytest.MonkeyPatch, verdict: str, code: int
) -> None:
    monkeypatch.setattr("dmctl.commands.diff.LOOK_SECONDS", 0)
    one_after_the_other(
        fake,
        ("running", running("Running")),
        ("running", running("Running")),
        ("running", running("Running")),
        ("not compared", running("", result=False)),  # its worker is restarted
        (verdict, running("Finished", state=verdict)),
    )
    got, out, err = dmctl("diff", "start", "t1", "--once", "-s", "s1")
    assert got == code
    lines = out.splitlines()
    assert lines[0] == "s1: Running, 0 of 1 tables, 7 of about 9 rows, 3s left"
    assert lines.count(lines[0]) == 1
    assert f"verdict: {verdict}" in lines
    assert (f"not proven equal: {verdict}" in err) is bool(code)
    assert [request.op for method, request in fake.requests if method == "OperateDiff"] == [
        worker.StartDiff,
        *[worker.ShowDiff] * 4,
    ]


def test_once_fails_when_it_is_refused_stopped_or_replaced(
    dmctl: RunDmctl, fake: CannedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmctl.commands.diff.LOOK_SECONDS", 0)
    fake.answers["OperateDiff"] = master.OperateDiffResponse(msg="one runs already")
    code, _, err = dmctl("diff", "start", "t1", "--once")
    assert code == 1
    assert "one runs already" in err
    one_after_the_other(fake, ("running", running("Running")), ("not compared", running("Stopped", state="equal")))
    assert dmctl("diff", "start", "t1", "--once")[0] == 1
    one_after_the_other(fake, ("running", running("Running")), ("equal", running("Finished", "r2", "equal")))
    code, _, err = dmctl("diff", "start", "t1", "--once")
    assert code == 1
    assert "another comparison" in err


def test_a_wrong_rate_never_reaches_the_master(dmctl: RunDmctl, fake: CannedMaster) -> None:
    code, _, err = dmctl("diff", "start", "t1", "--rate", "fast")
    assert code == 1
    assert "--rate" in err
    assert "OperateDiff" not in [method for method, _ in fake.requests]
