"""Files, commands and requests for tests of a dm-master process."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.local.cluster import DMMaster, environment, program
from deploy.local.mysql import MariaDBServer
from tests.harness.fake_worker import FakeWorker

KEY = "0123456789abcdef" * 4


PASSWORD = "S3cret-of-the-upstream"


Dmctl = Callable[..., dict[str, Any]]


def call(master: DMMaster, *argv: str, refused: bool = False) -> str:
    """One dmctl command; its output. It must end well and say nothing on standard error, or be ``refused`` (code 1)."""
    done = subprocess.run(
        program("dmctl.cli", "--master-addr", master.address, *argv),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
        timeout=60,
    )
    assert (done.returncode, bool(done.stderr)) == (int(refused), refused), done.stdout + done.stderr
    return done.stdout


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


def started_worker(dmctl: Dmctl, workers: Callable[[str], FakeWorker], source: str, task: str) -> FakeWorker:
    """The worker ``w1``, which runs ``task`` for ``source``."""
    worker = workers("w1")
    assert dmctl("operate-source", "create", source)["result"]
    assert dmctl("start-task", task)["result"]
    return worker


def refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
