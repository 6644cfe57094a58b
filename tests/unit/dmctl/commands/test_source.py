"""A source file must arrive as the operator wrote it, with the files that only this side can read."""

from __future__ import annotations

import base64
from pathlib import Path

from pkg.pb import dmmaster_pb2 as master
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def test_a_value_that_looks_like_a_boolean_stays_a_value(dmctl: RunDmctl, fake: CannedMaster, task_file: Path) -> None:
    dmctl("operate-source", "create", str(task_file), "--worker=true")
    assert fake.requests[0][1].workerName == "true"
    dmctl("start-task", str(task_file), "--remove-meta=true")
    assert fake.requests[1][1].removeMeta


def test_operate_source_sends_contents_or_ids(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    source = tmp_path / "s.yaml"
    source.write_text("source-id: mysql-01\nfrom: {host: h, port: 1}\n")
    fake.answers["OperateSource"] = master.OperateSourceResponse(result=True)
    assert dmctl("operate-source", "create", str(source), "-w", "w1")[0] == 0
    request = fake.last("OperateSource")
    assert (request.op, list(request.config), request.workerName) == (master.StartSource, [source.read_text()], "w1")
    dmctl("operate-source", "stop", str(source), "other", "-s", "third")
    assert list(fake.last("OperateSource").sourceID) == ["third", "mysql-01", "other"]
    dmctl("operate-source", "show")
    assert (fake.last("OperateSource").op, list(fake.last("OperateSource").sourceID)) == (master.ShowSource, [])


def test_tls_files_travel_inside_and_lines_stay(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    source = tmp_path / "s.yaml"
    source.write_text(f"source-id: a\nfrom:\n  security:\n    ssl-ca: '{tmp_path}/ca.pem'  # ours\n  host: h\n")
    fake.answers["OperateSource"] = master.OperateSourceResponse(result=True)
    dmctl("operate-source", "create", str(source))
    sent = fake.last("OperateSource").config[0]
    encoded = base64.b64encode(b"CA").decode()
    assert sent == f'source-id: a\nfrom:\n  security:\n    ssl-ca-base64: "{encoded}"  # ours\n  host: h\n'
