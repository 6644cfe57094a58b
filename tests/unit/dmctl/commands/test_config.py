"""A configuration that is exported must not lie open, lose a password unseen, or differ when it is imported."""

from __future__ import annotations

import json
from pathlib import Path

from dmctl import configdir
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
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


def members(**workers: tuple[str, str]) -> master.ListMemberResponse:
    """The answer of `list-member --worker`: worker → (stage, source)."""
    listed = [master.WorkerInfo(name=name, stage=stage, source=source) for name, (stage, source) in workers.items()]
    return master.ListMemberResponse(
        result=True, members=[master.Members(worker=master.ListWorkerMember(workers=listed))]
    )


def test_a_file_that_was_shown_replaces_the_configuration(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    fake.answers["UpdateTask"] = master.UpdateTaskResponse(result=True)
    fake.answers["OperateSource"] = master.OperateSourceResponse(result=True)
    file.write_text("name: t\ntarget-database: {password: '******'}\n")
    assert json.loads(dmctl("config", "task", "update", str(file))[1])["result"] is True
    assert fake.last("UpdateTask").task == file.read_text()
    file.write_text("source-id: s\nfrom: {password: '******'}\n")
    assert json.loads(dmctl("config", "source", "update", str(file))[1])["result"] is True
    assert fake.last("OperateSource").op == master.UpdateSource
    assert list(fake.last("OperateSource").config) == [file.read_text()]
    assert dmctl("config", "task", "t", "u")[0] != 0


def test_export_and_import_are_each_others_inverse(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    fake.answers["ListTaskConfigs"] = master.ListTaskConfigsResponse(result=True, taskConfigs={"t": "name: t\n"})
    fake.answers["ListSourceConfigs"] = master.ListSourceConfigsResponse(
        result=True, sourceConfigs={"s": "source-id: s\n"}
    )
    folder = str(tmp_path / "configs")
    pulls, copies = (
        worker.SourceStatus(source="s", worker=name, relayStatus=worker.RelayStatus()) for name in ("w2", "w1")
    )
    fake.answers["QueryStatus"] = master.QueryStatusListResponse(
        result=True,
        sources=[
            worker.QueryStatusResponse(result=True, sourceStatus=pulls),
            worker.QueryStatusResponse(result=True, sourceStatus=copies),
            worker.QueryStatusResponse(result=True, sourceStatus=worker.SourceStatus(source="o", worker="w2")),
        ],
    )
    assert dmctl("config", "export", "--dir", folder)[0] == 0
    assert list(fake.last("QueryStatus").sources) == ["s"], "else workers that only pull a copy do not answer"
    assert json.loads((tmp_path / "configs" / "relay_workers.json").read_text()) == {"s": ["w2", "w1"]}
    fake.answers["ListMember"] = members(w1=("free", ""), w2=("bound", "s"))
    fake.answers["OperateRelay"] = master.OperateRelayResponse(result=True)
    fake.answers["OperateSource"] = master.OperateSourceResponse(msg="source s already exist")
    fake.answers["StartTask"] = master.StartTaskResponse(result=True)
    assert dmctl("config", "import", "-d", folder)[0] == 0
    assert (fake.last("OperateRelay").source, fake.last("OperateRelay").op) == ("s", master.StartRelayV2)
    assert list(fake.last("OperateRelay").worker) == ["w2", "w1"]
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


#: What `encrypt 123456` of DM before 8.0 gave, as its documents show it.
_SEALED = "VjX8cEeTX+qcvZ3bPaO4h0C80pe/1aU="


def _folder_of_dm(root: Path, password: str) -> str:
    """What DM's own export writes."""
    for kind in ("sources", "tasks"):
        (root / kind).mkdir()
    (root / "sources" / "s.yaml").write_text(f"source-id: s\nfrom:\n  user: root\n  password: {password}\n")
    (root / "tasks" / "t.yaml").write_text("name: t\n")
    (root / "relay_workers.json").write_text('{"s":["worker-1","worker-2"]}')
    return str(root)


def test_encrypted_passwords_are_refused_before_anything_is_created_when_no_key_opens_them(
    dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path
) -> None:
    folder = _folder_of_dm(tmp_path, _SEALED)
    fake.answers["Encrypt"] = master.EncryptResponse(msg="no secret key")
    code, _, err = dmctl("config", "import", "-p", folder)
    assert code == 1
    assert "s.yaml" in err
    assert "secret-key-path" in err
    assert [name for name, _ in fake.requests] == ["Encrypt"]


def test_a_folder_of_dm_is_imported_with_its_relays(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    folder = _folder_of_dm(tmp_path, f'"{_SEALED}"')
    fake.answers["Encrypt"] = master.EncryptResponse(result=True, ciphertext="x")
    fake.answers["OperateSource"] = master.OperateSourceResponse(result=True)
    fake.answers["OperateRelay"] = master.OperateRelayResponse(result=True)
    fake.answers["StartTask"] = master.StartTaskResponse(result=True)
    fake.answers["ListMember"] = members(w1=("free", ""))
    code, out, _ = dmctl("config", "import", "-p", folder)
    assert code == 0
    assert "worker-1, worker-2" in out
    assert fake.last("OperateSource").workerName == ""
    assert list(fake.last("OperateRelay").worker) == [], "none of them is here: the relay follows its source"
    fake.answers["ListMember"] = members(**{"worker-1": ("bound", "o"), "worker-2": ("free", ""), "w": ("free", "")})
    out = dmctl("config", "import", "-p", folder)[1]
    assert "relay of source s on worker-2; left out, because they are offline or serve another source: worker-1" in out
    assert fake.last("OperateSource").workerName == "worker-2"
    assert list(fake.last("OperateRelay").worker) == ["worker-2"]
    fake.answers["OperateRelay"] = master.OperateRelayResponse(msg="[code=46030:class=scheduler], Message: it follows")
    assert dmctl("config", "import", "-p", folder)[0] == 0, "enable-relay in the source's file started it"
    fake.answers["OperateRelay"] = master.OperateRelayResponse(msg="[code=46020:class=scheduler], Message: busy")
    assert "fail to start the relay of source s" in dmctl("config", "import", "-p", folder)[2]
    fake.answers["OperateRelay"] = master.OperateRelayResponse(result=True)
    fake.answers["OperateSource"] = master.OperateSourceResponse(msg="Access denied for user 'root'")
    assert "secret-key-path" in dmctl("config", "import", "-p", folder)[2]


def test_an_export_says_which_secrets_are_hidden(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    fake.answers["ListTaskConfigs"] = master.ListTaskConfigsResponse(result=True, taskConfigs={"t": "p: '******'\n"})
    fake.answers["ListSourceConfigs"] = master.ListSourceConfigsResponse(result=True)
    code, out, _ = dmctl("config", "export", "-p", str(tmp_path / "c"))
    assert code == 0
    assert "hidden (******) in t" in out


def test_a_plain_password_is_not_a_ciphertext() -> None:
    assert configdir.is_sealed(f"from: {{user: u, password: '{_SEALED}'}}\n")
    assert not configdir.is_sealed("password: correcthorsebatterystaple\n")
    assert not configdir.is_sealed("password: short\n")


def test_the_path_may_stand_before_the_sub_command(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    fake.answers["GetCfg"] = lambda _: master.GetCfgResponse(result=True, cfg="name: t\n")
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    assert dmctl("config", "-p", str(first), "task", "t")[0] == 0
    assert first.read_text() == "name: t\n"
    assert dmctl("config", "--path", str(first), "source", "s", "-p", str(second))[0] == 0
    assert second.read_text() == "name: t\n"
    fake.answers["ListTaskConfigs"] = master.ListTaskConfigsResponse(result=True, taskConfigs={"t": "name: t\n"})
    fake.answers["ListSourceConfigs"] = master.ListSourceConfigsResponse(result=True)
    assert dmctl("config", "-p", str(tmp_path / "all"), "export")[0] == 0
    assert (tmp_path / "all" / "tasks" / "t.yaml").exists()


def test_an_import_continues_after_a_refusal_and_lists_its_steps(
    dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path
) -> None:
    for kind, names in (("sources", ("a", "b")), ("tasks", ("t1", "t2"))):
        (tmp_path / kind).mkdir()
        for name in names:
            (tmp_path / kind / f"{name}.yaml").write_text(f"source-id: {name}\nname: {name}\n")
    fake.answers["OperateSource"] = lambda request: master.OperateSourceResponse(
        result="source-id: b" in request.config[0], msg="[code=46007:class=scheduler], Message: a already exists"
    )
    fake.answers["StartTask"] = lambda request: master.StartTaskResponse(
        result="t2" in request.task, checkResult="" if "t2" in request.task else "precheck failed"
    )
    code, out, err = dmctl("config", "import", "-p", str(tmp_path))
    assert code == 1
    assert "left alone the source of" in out
    assert f"created the source of {tmp_path}/sources/b.yaml" in out
    assert f"started the task of {tmp_path}/tasks/t2.yaml" in out
    assert "1 of 4 steps failed; completed steps stay, and the import can be repeated" in err
    assert f"fail to start task from {tmp_path}/tasks/t1.yaml: precheck failed" in err


def test_an_import_without_tasks_says_so(dmctl: RunDmctl, fake: CannedMaster, tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "s.yaml").write_text("source-id: s\n")
    fake.answers["OperateSource"] = master.OperateSourceResponse(result=True)
    code, out, _ = dmctl("config", "import", "-p", str(tmp_path))
    assert code == 0
    assert f"there are no files in {tmp_path}/tasks: no task was started" in out
