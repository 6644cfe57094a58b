"""Members come, go and lead: no source stays without a worker, no request without an answer."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.local.cluster import DMMaster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from pkg.pb import dmworker_pb2
from tests.harness.etcd import EtcdServer
from tests.harness.fake_worker import FakeWorker
from tests.integration.dm_master.process.support import (
    Dmctl,
    call,
    http,
    source_file,
    stage_of,
    task_file,
)


def _members(dmctl: Dmctl, kind: str) -> Any:
    [member] = dmctl("list-member", f"--{kind}")["members"]
    return member[kind]


def test_members_gateway_and_metrics(
    dmctl: Dmctl, master: DMMaster, workers: Callable[[str], FakeWorker], upstream: MariaDBServer, tmp_path: Path
) -> None:
    worker = workers("w1")
    assert list(_members(dmctl, "leader").items()) == [("msg", ""), ("name", master.member), ("addr", master.address)]
    [one] = _members(dmctl, "master")["masters"]
    assert (one["name"], one["clientURLs"]) == (master.member, [f"http://{master.address}"])
    # It has a second to show that it is alive.
    wait_until(lambda: bool(_members(dmctl, "master")["masters"][0]["alive"]), "it is alive")
    assert _members(dmctl, "worker")["workers"] == [
        {"name": "w1", "addr": worker.address, "stage": "free", "source": ""}
    ]
    refused = worker.register("127.0.0.1:1")
    assert not refused.result
    assert "code=46003" in refused.msg
    assert worker.register(worker.address).secretKey == b"", "this port is open to whoever asks"
    strangers = [FakeWorker("w2", master.address, key=key) for key in (b"", b"k" * 32)]
    for stranger, words in zip(strangers, ("has no secret key", "has another secret key"), strict=True):
        refused = stranger.register("127.0.0.1:1")
        assert (refused.result, refused.secretKey) == (False, b"")
        assert "code=20067" in refused.msg
        assert f"worker w2 {words}" in refused.msg
    assert [one["name"] for one in _members(dmctl, "worker")["workers"]] == ["w1"]
    assert "code=46005" in call(master, "offline-member", "--worker", "--name", "w1", refused=True)
    assert "code=46004" in call(master, "offline-member", "--worker", "--name", "nobody", refused=True)
    assert "code=38048" in call(master, "offline-member", "--master", "--name", "nobody", refused=True)

    dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))
    with urllib.request.urlopen(f"http://{master.address}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    assert 'dm_master_worker_state{worker="w1"} 2' in lines
    assert "dm_master_start_leader_counter 1" in lines
    with urllib.request.urlopen(f"http://{master.address}/apis/v1alpha1/members?worker=true") as answer:
        assert json.load(answer)["members"][0]["worker"]["workers"][0]["source"] == "s1"


def test_a_source_moves_to_a_free_worker_with_its_tasks(
    dmctl: Dmctl,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    first = workers("w1")
    dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))
    dmctl("start-task", task_file(tmp_path, target, "s1"))
    workers("w2")

    def dumping(subtask: dmworker_pb2.SubTaskStatus) -> None:
        subtask.unit = dmworker_pb2.Dump

    first.twist = dumping
    assert "code=46019" in dmctl("transfer-source", "s1", "w2")["msg"]
    first.twist = lambda subtask: None
    assert dmctl("transfer-source", "s1", "w2")["result"]
    assert dmctl("operate-source", "show")["sources"][0]["worker"] == "w2"
    assert dmctl("query-status")["tasks"] == [{"taskName": "t1", "taskStatus": "Running", "sources": ["s1"]}]


def test_a_worker_that_dies_is_reported_by_its_source(
    dmctl: Dmctl, master: DMMaster, workers: Callable[[str], FakeWorker], upstream: MariaDBServer, tmp_path: Path
) -> None:
    worker = workers("w1")
    dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))
    worker.stop()
    wait_until(lambda: stage_of(master, "w1") == "offline", "the worker is offline")
    [answer] = dmctl("query-status", "-s", "s1")["sources"]
    assert answer["result"] is False
    assert answer["sourceStatus"]["worker"] == "source not bound"


def test_masters_share_an_external_etcd_and_followers_pass_requests_on(etcd: EtcdServer, tmp_path: Path) -> None:
    extra = f'etcd-endpoints = ["http://{etcd.endpoint}"]\nelection-ttl = 6\n'
    first = DMMaster(tmp_path, member="m1", extra=extra)
    second = DMMaster(tmp_path, member="m2", extra=extra)
    try:
        first.start()
        second.start()

        def leader(asked: DMMaster) -> str:
            answer = json.loads(call(asked, "list-member", "-l"))
            return answer["members"][0]["leader"]["name"] if answer["result"] else ""

        wait_until(lambda: leader(second) == "m1", "the follower passes requests on")
        assert http(second, "members?worker=true") == http(first, "members?worker=true")
        # A master answers a moment before it stands for election; each has a second to show that it is alive.
        standing = [("m1", True), ("m2", True)]
        wait_until(lambda: [(one["name"], one["alive"]) for one in _masters(second)] == standing, "both are known")
        assert "m2" in json.loads(call(first, "config", "master", "m2"))["cfg"]
        with urllib.request.urlopen(f"http://{second.address}/metrics") as answer:
            assert b"\ndm_master_start_leader_counter 0\n" in answer.read()

        assert json.loads(call(first, "operate-leader", "evict"))["result"]
        wait_until(lambda: leader(first) == "m2", "the other master leads")
        assert json.loads(call(first, "operate-leader", "cancel-evict"))["result"]
        wait_until(lambda: len(_masters(first)) == 2, "the evicted one campaigns again")
        second.kill()
        wait_until(lambda: leader(first) == "m1", "the survivor leads", step=0.3)
    finally:
        first.stop(seconds=15)
        second.stop(seconds=15)


def _masters(master: DMMaster) -> list[dict[str, Any]]:
    [members] = json.loads(call(master, "list-member", "-m"))["members"]
    masters: list[dict[str, Any]] = members["master"]["masters"]
    return masters
