"""A real dm-master with its etcd, driven by dmctl, with workers that only report: what operators see of a cluster."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc, dmworker_pb2
from pkg.rpc.channel import open_channel
from pkg.settings.connections import SecurityConfig
from pkg.settings.encrypt import decrypt
from tests.harness.certificates import Authority
from tests.harness.cluster import DMMaster, environment, program
from tests.harness.etcd import EtcdServer
from tests.harness.fake_worker import FakeWorker
from tests.harness.mysql import MariaDBServer
from tests.harness.process import free_port, wait_until

KEY = "0123456789abcdef" * 4
PASSWORD = "S3cret-of-the-upstream"

Dmctl = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DMMaster]:
    base = tmp_path_factory.mktemp("master")
    (base / "key").write_text(KEY)
    server = DMMaster(base, extra=f'secret-key-path = "{base}/key"\n')
    server.start()
    yield server
    server.stop(seconds=15)


def call(master: DMMaster, *argv: str) -> str:
    """One dmctl command; its output. It must end well and say nothing on standard error."""
    done = subprocess.run(
        program("dmctl.cli", "--master-addr", master.address, *argv),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@pytest.fixture
def dmctl(master: DMMaster) -> Dmctl:
    def run(*argv: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(call(master, *argv))
        return answer

    return run


def http(master: DMMaster, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> Any:
    """One request to the gateway: cheaper than a process where a test only prepares or waits."""
    data = None if body is None else json.dumps(body).encode()
    url, kind = f"http://{master.address}/apis/v1alpha1/{path}", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, method=method, data=data, headers=kind)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def stage_of(master: DMMaster, worker: str) -> str:
    [member] = http(master, "members?worker=true")["members"]
    stages = {one["name"]: one["stage"] for one in member["worker"]["workers"]}
    return str(stages.get(worker, ""))


@pytest.fixture
def workers(master: DMMaster) -> Iterator[Callable[[str], FakeWorker]]:
    """Starts fake workers; at the end, no task, source or worker is left."""
    started: list[FakeWorker] = []

    def start(name: str) -> FakeWorker:
        worker = FakeWorker(name, master.address, key=bytes.fromhex(KEY)).start()
        started.append(worker)
        wait_until(lambda: stage_of(master, name) in ("free", "bound"), f"{name} is online")
        return worker

    yield start
    http(master, "tasks/t1", "PUT", {"op": "Delete"})
    sources = [one["source"] for one in http(master, "sources", "PUT", {"op": "ShowSource"})["sources"]]
    if sources:
        assert http(master, "sources", "PUT", {"op": "StopSource", "sourceID": sources})["result"]
    for worker in started:
        worker.stop()
        wait_until(lambda name=worker.name: stage_of(master, name) == "offline", "offline")  # type: ignore[misc]
        assert http(master, f"members/worker/{worker.name}", "DELETE")["result"]


def _members(dmctl: Dmctl, kind: str) -> Any:
    [member] = dmctl("list-member", f"--{kind}")["members"]
    return member[kind]


@pytest.fixture
def upstream(mariadb_upstream: MariaDBServer) -> MariaDBServer:
    with mariadb_upstream.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        cursor.execute(f"CREATE OR REPLACE USER dm@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        cursor.execute("GRANT ALL ON *.* TO dm@'127.0.0.1'")
    return mariadb_upstream


def source_file(folder: Path, server: MariaDBServer, source_id: str, password: str = PASSWORD) -> str:
    path = folder / f"{source_id}.yaml"
    path.write_text(
        f"source-id: {source_id}\n"
        f"from:\n  host: 127.0.0.1\n  port: {server.port}\n  user: dm\n  password: '{password}'\n"
    )
    return str(path)


def task_file(folder: Path, target: MariaDBServer, *sources: str, name: str = "t1", mode: str = "all") -> str:
    instances = "".join(f"  - source-id: {source}\n    block-allow-list: shop\n" for source in sources)
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\ntask-mode: {mode}\n"
        f"target-database: {{host: 127.0.0.1, port: {target.port}, user: root, password: ''}}\n"
        "block-allow-list:\n  shop:\n    do-dbs: [shop]\n"
        f"mysql-instances:\n{instances}"
    )
    return str(path)


def test_a_tasks_life(
    dmctl: Dmctl,
    master: DMMaster,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    source = source_file(tmp_path, upstream, "s1")
    task = task_file(tmp_path, target, "s1")

    refused = dmctl("start-task", task)
    assert not refused["result"]
    assert "code=20031" in refused["msg"]

    created = dmctl("operate-source", "create", source)
    assert created == {
        "result": True,
        "msg": "",
        "sources": [
            {
                "result": True,
                "msg": "source is added but there is no free worker to bound",
                "source": "s1",
                "worker": "",
            }
        ],
    }
    status = dmctl("query-status", "-s", "s1")
    assert status["sources"][0]["sourceStatus"]["worker"] == "source not bound"
    assert "list-member" in status["sources"][0]["msg"]
    unbound = dmctl("start-task", task)
    assert "code=46009" in unbound["msg"]

    worker = workers("w1")
    wait_until(lambda: stage_of(master, "w1") == "bound", "the source is bound")
    shown = dmctl("operate-source", "show")["sources"]
    assert shown == [{"result": True, "msg": "", "source": "s1", "worker": "w1"}]
    again = dmctl("operate-source", "create", source)
    assert "code=46007" in again["msg"]

    assert dmctl("check-task", task) == {
        "result": True,
        "msg": "pre-check is passed. ",
        "rules": {"tables": 1, "targets": 1, "leftOut": 0, "unused": []},
    }
    shown = dmctl("show-rules", task, "-o", "json")
    assert (shown["result"], shown["summary"]["tables"]) == (True, 1)
    assert [(one["schema"], one["targetTable"], one["rules"][0]["pattern"]) for one in shown["tables"]] == [
        ("shop", "orders", "shop")
    ]
    started = dmctl("start-task", task)
    assert started == {
        "result": True,
        "msg": "",
        "sources": [{"result": True, "msg": "", "source": "s1", "worker": "w1"}],
        "checkResult": "pre-check is passed. ",
    }
    assert "code=46014" in dmctl("start-task", task)["msg"]
    assert "code=46014" in dmctl("start-task", task, "--remove-meta")["msg"]
    assert "code=46010" in dmctl("operate-source", "stop", "s1")["msg"]

    assert dmctl("query-status")["tasks"] == [{"taskName": "t1", "taskStatus": "Running", "sources": ["s1"]}]
    [answer] = dmctl("query-status", task)["sources"]
    assert answer["subTaskStatus"][0]["stage"] == "Running"
    assert answer["sourceStatus"] == {"source": "s1", "worker": "w1", "result": None, "relayStatus": None}

    paused = dmctl("pause-task", "t1")
    assert (paused["op"], paused["result"], paused["sources"][0]["result"]) == ("Pause", True, True)
    assert dmctl("query-status")["tasks"][0]["taskStatus"] == "Paused"
    resumed = dmctl("resume-task", "-s", "s1")
    assert resumed["tasks"][0]["op"] == "Resume"
    assert resumed["tasks"][0]["sources"] == [{"result": True, "source": "s1", "worker": "w1"}]
    assert dmctl("query-status")["tasks"][0]["taskStatus"] == "Running"

    def fail(subtask: dmworker_pb2.SubTaskStatus) -> None:
        subtask.stage = dmworker_pb2.Paused
        subtask.result.errors.add(ErrCode=10006, Message="execute failed", RawCause="Error 1054 (42S22): x")

    worker.twist = fail
    assert dmctl("query-status")["tasks"][0]["taskStatus"].startswith("Error - Some error occurred in subtask")
    failed = dmctl("resume-task", "t1")["sources"]
    assert failed[0]["result"] is False
    assert "Error 1054 (42S22): x" in failed[0]["msg"]
    worker.twist = lambda subtask: None

    stopped = dmctl("stop-task", "t1")
    assert (stopped["op"], stopped["sources"][0]["result"]) == ("Delete", True)
    assert "has no source or not exist" in dmctl("stop-task", "t1")["msg"]
    assert "has no source or not exist" in dmctl("query-status", "t1")["msg"]
    assert dmctl("operate-source", "stop", "s1")["result"]
    assert stage_of(master, "w1") == "free"


def test_configs_are_shown_without_secrets(
    dmctl: Dmctl,
    master: DMMaster,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    workers("w1")
    ciphertext = call(master, "encrypt", PASSWORD).strip()
    assert decrypt(ciphertext, bytes.fromhex(KEY)) == PASSWORD
    assert dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1", ciphertext))["result"]
    assert dmctl("start-task", task_file(tmp_path, target, "s1"))["result"]
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
    misspelt = tmp_path / "misspelt.yaml"
    misspelt.write_text("nmae: t\n")
    assert ":1:1" in dmctl("start-task", str(misspelt))["msg"]
    task = task_file(tmp_path, target, "s1")
    foreign = dmctl("start-task", task, "-s", "s2")
    assert not foreign["result"]
    assert foreign["sources"][0]["msg"] == "source not found in task's config"
    assert "not supported yet" in dmctl("start-task", task, "--start-time", "2026-01-02 03:04:05")["msg"]
    assert dmctl("query-status")["tasks"] == []


def test_a_failed_precheck_is_shown_and_nothing_starts(
    dmctl: Dmctl,
    master: DMMaster,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    tmp_path: Path,
    target: MariaDBServer,
) -> None:
    workers("w1")
    assert dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))["result"]
    path = Path(task_file(tmp_path, target, "s1"))
    path.write_text(path.read_text().replace(f"port: {target.port}", "port: 1"))
    for command in ("check-task", "start-task"):
        text = call(master, command, str(path))
        assert '"result": false,' in text
        assert "code=26005" in text
        assert "connect: connection refused" in text
        # The report stands in the answer as JSON of its own, not as one escaped line.
        assert '\n            "results": [\n' in text
    assert dmctl("query-status")["tasks"] == []


def test_remove_meta_drops_the_tasks_tables_and_no_others(
    dmctl: Dmctl,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    workers("w1")
    dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))
    with target.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE dm_meta")
        for table in ("t1_syncer_checkpoint", "t1_syncer_marker", "t1_loader_progress", "t2_syncer_checkpoint"):
            cursor.execute(f"CREATE TABLE dm_meta.{table} (id INT)")
        assert dmctl("start-task", task_file(tmp_path, target, "s1"), "--remove-meta")["result"]
        cursor.execute("SHOW TABLES FROM dm_meta")
        assert [row[0] for row in cursor.fetchall()] == ["t2_syncer_checkpoint"]


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
    assert "code=46005" in dmctl("offline-member", "--worker", "--name", "w1")["msg"]
    assert "code=46004" in dmctl("offline-member", "--worker", "--name", "nobody")["msg"]
    assert "code=38048" in dmctl("offline-member", "--master", "--name", "nobody")["msg"]

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


def test_a_worker_that_dies_is_told_by_its_source(
    dmctl: Dmctl, master: DMMaster, workers: Callable[[str], FakeWorker], upstream: MariaDBServer, tmp_path: Path
) -> None:
    worker = workers("w1")
    dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))
    worker.stop()
    wait_until(lambda: stage_of(master, "w1") == "offline", "the worker is offline")
    [answer] = dmctl("query-status", "-s", "s1")["sources"]
    assert answer["result"] is False
    assert answer["sourceStatus"]["worker"] == "source not bound"


# --- the process ---


def test_a_raw_newline_does_no_harm(master: DMMaster, dmctl: Dmctl) -> None:
    with socket.create_connection(("127.0.0.1", master.port)) as raw:
        raw.sendall(b"\n")
    assert dmctl("list-member", "--leader")["result"]


@pytest.fixture
def own_master(tmp_path: Path) -> Iterator[DMMaster]:
    server = DMMaster(tmp_path)
    server.start()
    yield server
    server.stop(seconds=15)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_end_it_in_order(own_master: DMMaster, number: signal.Signals) -> None:
    os.kill(own_master.pid, number)
    wait_until(lambda: not own_master.running(), "the master ended")
    assert own_master.stop() == 0
    wait_until(lambda: _refused(own_master.etcd_port), "its etcd ended")


def test_a_master_that_waits_for_the_others_of_a_new_cluster_can_be_ended(tmp_path: Path) -> None:
    nobody = free_port()
    waiting = DMMaster(tmp_path)
    own = f"http://127.0.0.1:{waiting.peer_port}"
    with waiting.config.open("a") as config:
        config.write(f'initial-cluster = "master1={own},master2=http://127.0.0.1:{nobody}"\n')
    waiting.start(wait=False)
    try:
        wait_until(lambda: not _refused(waiting.etcd_port) or not _refused(waiting.peer_port), "its etcd runs")
        # Killed after that time, it would end with another code.
        assert waiting.stop(seconds=60) == 0
        wait_until(lambda: _refused(waiting.peer_port), "its etcd ended")
    finally:
        waiting.kill()


def _refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_what_was_stored_survives_a_hard_kill(own_master: DMMaster, upstream: MariaDBServer, tmp_path: Path) -> None:
    assert json.loads(call(own_master, "operate-source", "create", source_file(tmp_path, upstream, "s1")))["result"]
    own_master.kill()
    wait_until(lambda: _refused(own_master.etcd_port), "etcd died with it")
    own_master.start()

    def shown() -> bool:
        answer = json.loads(call(own_master, "operate-source", "show"))
        return bool(answer["result"] and [one["source"] for one in answer["sources"]] == ["s1"])

    # The dead master's lease must run out first.
    wait_until(shown, "the source is back", 90, step=0.5)


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


def test_tls_covers_the_master_its_etcd_and_dmctl(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, client = authority.issue("master"), authority.issue("dmctl")

    def flags(security: SecurityConfig) -> list[str]:
        return ["--ssl-ca", security.ssl_ca, "--ssl-cert", security.ssl_cert, "--ssl-key", security.ssl_key]

    (tmp_path / "key").write_text(KEY)
    extra = f'ssl-ca = "{own.ssl_ca}"\nssl-cert = "{own.ssl_cert}"\nssl-key = "{own.ssl_key}"\n'
    extra += f'secret-key-path = "{tmp_path}/key"\n'
    server = DMMaster(tmp_path, extra=extra)
    config = server.config.read_text()
    server.config.write_text(config.replace("http://", "https://"))
    server.start(wait=False)
    try:

        def leads() -> bool:
            done = subprocess.run(
                program("dmctl.cli", "--master-addr", server.address, "list-member", *flags(client)),
                capture_output=True,
                text=True,
                env=environment(),
                check=False,
                timeout=60,
            )
            return '"name": "master1"' in done.stdout and '"alive": true' in done.stdout

        wait_until(leads, "the master answers over TLS", 90, step=0.3)
        with open_channel(f"localhost:{server.port}", client) as channel:
            stub = dmmaster_pb2_grpc.MasterStub(channel)  # type: ignore[no-untyped-call]
            joined = stub.RegisterWorker(dmmaster_pb2.RegisterWorkerRequest(name="w1", address="w1:8262"), timeout=60)
        assert joined.secretKey == bytes.fromhex(KEY), "both sides have shown certificates"
        plain = subprocess.run(
            program("dmctl.cli", "--master-addr", server.address, "--rpc-timeout", "3s", "list-member"),
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
            timeout=60,
        )
        assert (plain.returncode, plain.stdout) == (1, "")
    finally:
        server.stop(seconds=15)


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["--nonsense"], 2, "38010"),
        (["-master-addr"], 2, "38010"),
        (["--config", "absent.toml"], 2, "absent.toml"),
        (["-master-addr", "nonsense"], 2, "38035"),
    ],
)
def test_bad_settings_are_refused(argv: list[str], code: int, text: str) -> None:
    done = subprocess.run(
        program("dm_master.cli", *argv), capture_output=True, text=True, env=environment(), check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr


def test_texts_instead_of_running() -> None:
    def text(flag: str) -> str:
        done = subprocess.run(
            program("dm_master.cli", flag), capture_output=True, text=True, env=environment(), check=True, timeout=60
        )
        return done.stdout

    assert text("-V").startswith("Release Version: v")
    assert "master-addr" in text("--print-sample-config")
    assert "-master-addr" in text("-h")


def test_a_port_in_use_ends_the_start_with_its_code(master: DMMaster, tmp_path: Path) -> None:
    second = DMMaster(tmp_path)
    config = second.config.read_text().replace(f":{second.port}", f":{master.port}")
    second.config.write_text(config)
    done = subprocess.run(
        second.command(), capture_output=True, text=True, env=environment(), check=False, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "code=38017" in done.stderr
    assert _refused(second.etcd_port)
