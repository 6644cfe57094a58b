"""A master that fails or cannot be reached is named, and another one of the list stands in."""

from __future__ import annotations

import json

import grpc
import pytest

from dmctl.cli import main
from pkg.pb import dmmaster_pb2 as master
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def test_a_grpc_error_is_reported_and_ends_with_one(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["ListMember"] = grpc.StatusCode.INTERNAL
    code, out, err = dmctl("list-member")
    assert (code, out) == (1, "")
    assert err == "Error: rpc error: code = Internal desc = told to fail\n"
    assert len(fake.requests) == 1


def test_an_unavailable_master_is_tried_once_more(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["ListMember"] = grpc.StatusCode.UNAVAILABLE
    code, _, err = dmctl("list-member")
    assert code == 1
    assert "desc = told to fail" in err
    # What plain text on a port with TLS looks like.
    assert "--ssl-ca" in err
    assert len(fake.requests) == 2


def test_the_next_master_of_the_list_stands_in(fake: CannedMaster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.answers["ListMember"] = master.ListMemberResponse(result=True)
    assert main(["--master-addr", f"127.0.0.1:1,http://{fake.address}", "list-member"]) == 0
    assert json.loads(capsys.readouterr().out)["result"] is True


def test_an_unreachable_master_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["--master-addr", "127.0.0.1:1", "list-member"]) == 1
    err = capsys.readouterr().err
    assert "code=48001" in err
    assert "dial tcp 127.0.0.1:1: connect: connection refused" in err
    monkeypatch.delenv("DM_MASTER_ADDR", raising=False)
    assert main(["list-member"]) == 1
    assert "--master-addr not provided" in capsys.readouterr().err
