"""`diff` passes its flags on and shows what was found; a refusal ends with 1."""

from __future__ import annotations

import json

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


def test_a_refusal_ends_with_one(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["OperateDiff"] = master.OperateDiffResponse(msg="task t1 has no source or not exist")
    for command in ("start", "stop", "status"):
        code, _, err = dmctl("diff", command, "t1")
        assert code == 1
        assert "has no source" in err


def test_a_wrong_rate_never_reaches_the_master(dmctl: RunDmctl, fake: CannedMaster) -> None:
    code, _, err = dmctl("diff", "start", "t1", "--rate", "fast")
    assert code == 1
    assert "--rate" in err
    assert "OperateDiff" not in [method for method, _ in fake.requests]
