"""Bad input must change nothing, and no answer, file or log may show a password."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

from deploy.local.cluster import DMMaster
from deploy.local.mysql import MariaDBServer
from pkg.settings.encrypt import decrypt
from tests.harness.fake_worker import FakeWorker
from tests.integration.dm_master.process.support import (
    KEY,
    PASSWORD,
    Dmctl,
    call,
    source_file,
    started_worker,
    task_file,
)


def test_configs_are_shown_without_secrets(
    dmctl: Dmctl,
    master: DMMaster,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    ciphertext = call(master, "encrypt", PASSWORD).strip()
    assert decrypt(ciphertext, bytes.fromhex(KEY)) == PASSWORD
    source = source_file(tmp_path, upstream, "s1", ciphertext)
    started_worker(dmctl, workers, source, task_file(tmp_path, target, "s1"))
    texts = [
        call(master, "config", "source", "s1"),
        call(master, "config", "task", "t1"),
        call(master, "config", "master", master.member),
        call(master, "config", "worker", "w1"),
        call(master, "query-status", "--more"),
        urllib.request.urlopen(f"http://{master.address}/apis/v1alpha1/subtasks/t1").read().decode(),
    ]
    assert "source-id: s1" in json.loads(texts[0])["cfg"]
    assert "name: t1" in json.loads(texts[1])["cfg"]
    assert "threads: 4" in json.loads(texts[1])["cfg"]
    assert "is-sharding = false" in json.loads(texts[5])["cfgs"][0]
    assert json.loads(texts[3])["cfg"] == 'name = "w1"\n'
    assert call(master, "config", "export", "-p", str(tmp_path / "out"))
    texts += [path.read_text() for path in (tmp_path / "out").rglob("*.yaml")]
    assert len(texts) == 8
    texts += [(master.dir / "dm-master.log").read_text()]
    for text in texts:
        assert PASSWORD not in text
        assert ciphertext not in text
        assert KEY not in text
    logs = list((master.dir / "data").rglob("*.wal"))
    assert logs
    assert not any(PASSWORD.encode() in path.read_bytes() for path in logs)


def test_bad_input_is_refused_and_changes_nothing(
    dmctl: Dmctl,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    workers("w1")
    wrong = dmctl("operate-source", "create", source_file(tmp_path, upstream, "s9", "wrong"))
    assert not wrong["result"]
    assert "code=10001" in wrong["msg"]
    assert "wrong" not in wrong["msg"].replace("wrong password", "")
    both = [source_file(tmp_path, upstream, "s1"), source_file(tmp_path, upstream, "s2", "wrong")]
    assert not dmctl("operate-source", "create", *both)["result"]
    assert dmctl("operate-source", "show")["sources"] == []
    assert "code=46008" in dmctl("operate-source", "stop", "s1")["msg"]
    assert "code=46008" in dmctl("operate-source", "show", "s1")["msg"]
    assert "haven't been added" in dmctl("query-status", "-s", "s1")["msg"]

    assert dmctl("operate-source", "create", both[0])["result"]
    for kind in ("task", "source", "master", "worker"):
        assert f"{kind} not found: x" in dmctl("config", kind, "x")["msg"]
    misspelt = tmp_path / "misspelt.yaml"
    misspelt.write_text("nmae: t\n")
    assert ":1:1" in dmctl("start-task", str(misspelt))["msg"]
    task = task_file(tmp_path, target, "s1")
    foreign = dmctl("start-task", task, "-s", "s2")
    assert not foreign["result"]
    assert foreign["sources"][0]["msg"] == "source not found in task's config"
    for flag in ("--start-time", "--until-time"):
        assert f"{flag}: 'yesterday' is not a time" in dmctl("start-task", task, flag, "yesterday")["msg"]
    assert dmctl("query-status")["tasks"] == []
    assert dmctl("operate-source", "create", source_file(tmp_path, upstream, "s3"))["result"]
    away = dmctl("start-relay", "-s", "s3")
    assert (away["result"], away["sources"]) == (True, []), "scripts count one result"
    assert away["msg"] == "source relay is operated but the bound worker is offline"
