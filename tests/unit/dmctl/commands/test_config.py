"""A configuration that is exported must not lie open, lose a password unseen, or differ when it is imported."""

from __future__ import annotations

import json
from pathlib import Path

from pkg.pb import dmmaster_pb2 as master
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def test_encrypt_prints_the_ciphertext_alone(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["Encrypt"] = master.EncryptResponse(result=True, ciphertext="c2VjcmV0")
    assert dmctl("encrypt", "p w") == (0, "c2VjcmV0\n", "")
    assert fake.last("Encrypt").plaintext == "p w"
    fake.answers["Encrypt"] = master.EncryptResponse(msg="no secret key")
    assert dmctl("encrypt", "pw") == (1, "", "Error: no secret key\n")


def test_config_goes_to_a_file_that_only_its_owner_reads(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    fake.answers["GetCfg"] = lambda _: master.GetCfgResponse(result=True, cfg="name: t\n")
    assert json.loads(dmctl("config", "task", "t")[1])["cfg"] == "name: t\n"
    path = tmp_path / "out.yaml"
    answer = json.loads(dmctl("config", "source", "s", "-p", str(path))[1])
    assert answer == {"result": True, "msg": f"write config to file {path} succeed", "cfg": ""}
    assert path.read_text() == "name: t\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert fake.last("GetCfg").type == master.SourceType
    assert json.loads(dmctl("get-config", "task", "t")[1])["result"] is True


def test_export_and_import_are_each_others_inverse(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    fake.answers["ListTaskConfigs"] = master.ListTaskConfigsResponse(result=True, taskConfigs={"t": "name: t\n"})
    fake.answers["ListSourceConfigs"] = master.ListSourceConfigsResponse(
        result=True, sourceConfigs={"s": "source-id: s\n"}
    )
    folder = str(tmp_path / "configs")
    assert dmctl("config", "export", "-p", folder)[0] == 0
    fake.answers["OperateSource"] = master.OperateSourceResponse(msg="source s already exist")
    fake.answers["StartTask"] = master.StartTaskResponse(result=True)
    assert dmctl("config", "import", "-p", folder)[0] == 0
    assert list(fake.last("OperateSource").config) == ["source-id: s\n"]
    assert fake.last("StartTask").task == "name: t\n"
    fake.answers["StartTask"] = master.StartTaskResponse(checkResult="precheck failed")
    code, _, err = dmctl("config", "import", "-p", folder)
    assert code == 1
    assert "precheck failed" in err


def test_import_refuses_hidden_passwords(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "s.yaml").write_text("source-id: s\nfrom: {password: '******'}\n")
    code, _, err = dmctl("config", "import", "-p", str(tmp_path))
    assert code == 1
    assert "fill them in" in err
    assert fake.requests == []
