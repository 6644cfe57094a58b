"""A cluster of real processes: dm-master, dm-workers, and dmctl to control them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deploy.local.mysql import SQLServer
from deploy.local.process import WAIT_TIMEOUT, HarnessError, Process, free_port, wait_until
from dmctl.cli import main as dmctl_main

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that a worker may not answer on a busy machine: one without its lease stops its subtasks and restarts them.
KEEPALIVE_TTL = 30
#: dmctl's answer when a request is stored but the workers have not followed within 10 s, DM's limit; then the stage to
#: wait for (None: the subtask is gone). Tests that start or resume a task wait for a stage anyway.
_LATE = "code=38045"
_FOLLOWED = {"pause-task": "Paused", "stop-task": None}
_BEGUN = ("start-task", "resume-task")
#: All threads share standard output: one command at a time may use it.
_COMMAND = threading.Lock()


def program(module: str, *args: str) -> list[str]:
    """The command line of one of the project's programs, run from this checkout."""
    return [sys.executable, "-m", module, *args]


def environment(code: Path = ROOT) -> dict[str, str]:
    """The environment of the project's programs, whose packages are in ``code``."""
    return {**os.environ, "PYTHONPATH": str(code), "PYTHONUNBUFFERED": "1"}


class DMMaster(Process):
    """One dm-master with its own etcd member (or external ``etcd_endpoints``)."""

    name = "dm-master"
    #: Where the code is that it runs.
    code = ROOT

    def __init__(self, base: Path, *, member: str = "master1", extra: str = "") -> None:
        super().__init__(base)
        self.member = member
        self.port = free_port()
        self.peer_port = free_port()
        self.etcd_port = free_port()
        self.config = self.dir / "dm-master.toml"
        lines = [
            f'name = "{member}"',
            f'master-addr = "127.0.0.1:{self.port}"',
            f'advertise-addr = "127.0.0.1:{self.port}"',
            f'data-dir = "{self.dir}/data"',
            f'log-file = "{self.dir}/dm-master.log"',
        ]
        if "etcd-endpoints" not in extra:
            lines += [
                f'peer-urls = "http://127.0.0.1:{self.peer_port}"',
                f'etcd-client-urls = "http://127.0.0.1:{self.etcd_port}"',
            ]
        self.config.write_text("\n".join([*lines, extra, ""]))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        return program("dm_master.cli", "--config", str(self.config))

    def environment(self) -> Mapping[str, str]:
        return environment(self.code)

    def ready(self) -> bool:
        return http_ok(f"http://{self.address}/health")


class DMWorker(Process):
    """One dm-worker."""

    name = "dm-worker"
    #: Where the code is that it runs, and its module.
    code = ROOT
    module = "dm_worker.cli"
    #: Further variables of its environment.
    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, base: Path, *, member: str, join: str, keepalive_ttl: int = KEEPALIVE_TTL, extra: str = ""
    ) -> None:
        super().__init__(base)
        self.member = member
        self.port = free_port()
        self.temporary = self.dir / "tmp"
        self.temporary.mkdir()
        self.config = self.dir / "dm-worker.toml"
        lines = [
            f'name = "{member}"',
            f'worker-addr = "127.0.0.1:{self.port}"',
            f'advertise-addr = "127.0.0.1:{self.port}"',
            f'join = "{join}"',
            f"keepalive-ttl = {keepalive_ttl}",
            f'log-file = "{self.dir}/dm-worker.log"',
            extra,
        ]
        self.config.write_text("\n".join([*lines, ""]))

    def command(self) -> Sequence[str]:
        return program(self.module, "--config", str(self.config))

    def environment(self) -> Mapping[str, str]:
        return {**environment(self.code), "TMPDIR": str(self.temporary), **self.variables}

    def ready(self) -> bool:
        return http_ok(f"http://127.0.0.1:{self.port}/status")


class Cluster:
    """One master and some workers in their own folder; ``close`` ends and removes all of them.

    ``master_extra`` and ``worker_extra`` are additional lines of their configuration files.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        base: Path | None = None,
        keepalive_ttl: int = KEEPALIVE_TTL,
        master_extra: str = "",
        worker_extra: str = "",
    ) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="dm-cluster-", dir=base))
        self.master = DMMaster(self.dir, extra=master_extra)
        self.workers = [
            DMWorker(
                self.dir,
                member=f"worker{i + 1}",
                join=self.master.address,
                keepalive_ttl=keepalive_ttl,
                extra=worker_extra,
            )
            for i in range(workers)
        ]

    def run_from(self, code: Path) -> None:
        """Each process of the cluster runs the code in ``code`` from its next start on."""
        self.master.code = code
        for worker in self.workers:
            worker.code = code

    def start(self) -> None:
        """Starts the processes that do not run. Returns when the master knows all workers."""
        if not self.master.running():
            self.master.start()
        stopped = [worker for worker in self.workers if not worker.running()]
        for worker in stopped:
            worker.start(wait=False)
        for worker in stopped:
            worker.wait_ready()
        self._wait(self._is_complete, "all workers are online", WAIT_TIMEOUT)

    def _is_complete(self) -> bool:
        (listed,) = self.dmctl("list-member", "--worker")["members"]
        online = {worker["name"] for worker in listed["worker"]["workers"] or [] if worker["stage"] != "offline"}
        return online >= {worker.member for worker in self.workers}

    def close(self) -> None:
        with ThreadPoolExecutor(max(1, len(self.workers))) as pool:
            list(pool.map(lambda worker: worker.stop(seconds=15), self.workers))
        self.master.stop(seconds=15)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def logs(self) -> str:
        """The last log lines of every process, for a failing test's report."""
        return "\n\n".join(f"== {p.name} {p.dir.name}\n{p.tail()}" for p in (self.master, *self.workers))

    # dmctl

    def dmctl_text(self, *args: str, timeout: float = 120) -> str:
        """One dmctl call as a process; its standard output. Raises ``HarnessError`` on a non-zero exit."""
        command = program("dmctl.cli", "--master-addr", self.master.address, *args)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment(), cwd=self.dir, check=False
        )
        if done.returncode:
            raise HarnessError(f"dmctl {' '.join(args)} exited {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def dmctl(self, *args: str) -> dict[str, Any]:
        """dmctl's answer, from its code in this process. Raises ``HarnessError`` where dmctl would exit with 1.

        A new Python process for each command would take CPU time from the cluster.
        """
        out, err = io.StringIO(), io.StringIO()
        command = ["--master-addr", self.master.address, "--rpc-timeout", "120s", *args]
        with _COMMAND, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = dmctl_main(command)
        if code:
            raise HarnessError(f"dmctl {' '.join(args)} gave {code}:\n{out.getvalue()}{err.getvalue()}")
        return _answer(escape_check_text(out.getvalue()), args)

    def ok(self, *args: str) -> dict[str, Any]:
        """One dmctl call that must succeed, for every source too; waits on where the master's own wait timed out."""
        answer = self.dmctl(*args)
        failed = [source for source in answer.get("sources", []) if not source["result"]]
        may_be_late = args[0] in _FOLLOWED or args[0] in _BEGUN
        if not answer["result"] or not all(may_be_late and _LATE in source["msg"] for source in failed):
            raise HarnessError(f"dmctl {' '.join(args)} failed:\n{json.dumps(answer, indent=2)}\n{self.logs()}")
        late = [source["source"] for source in failed if args[0] in _FOLLOWED]
        self._wait(
            lambda: all(self._is_done(*args, source=one) for one in late), f"{' '.join(args)} is done", WAIT_TIMEOUT
        )
        return answer

    def _is_done(self, command: str, task: str, *_: str, source: str) -> bool:
        """Whether the worker of ``source`` has carried out a command of :data:`_FOLLOWED` on its subtask."""
        (answer,) = self.dmctl("query-status", "-s", source)["sources"]
        stages = {one["name"]: one["stage"] for one in answer["subTaskStatus"] or []}
        return bool(answer["result"]) and stages.get(task) == _FOLLOWED[command]

    def add_source(self, server: SQLServer, source_id: str, *, gtid: bool = False, relay: bool = False) -> None:
        path = self.dir / f"{source_id}.yaml"
        path.write_text(
            f"source-id: {source_id}\nenable-gtid: {str(gtid).lower()}\nenable-relay: {str(relay).lower()}\n"
            f"from:\n  host: 127.0.0.1\n  port: {server.port}\n  user: root\n  password: ''\n"
        )
        self.ok("operate-source", "create", str(path))

    def write_task(self, text: str, name: str = "task.yaml") -> str:
        path = self.dir / name
        path.write_text(text)
        return str(path)

    def subtasks(self, task: str) -> dict[str, dict[str, Any]]:
        """``query-status task``: source → its subtask's status; none while a source's worker does not answer."""
        sources = self.dmctl("query-status", task)["sources"]
        if not all(source["subTaskStatus"] for source in sources):
            return {}
        return {source["sourceStatus"]["source"]: status for source in sources for status in source["subTaskStatus"]}

    def subtask(self, task: str, source: str) -> dict[str, Any]:
        """The status of one subtask, as soon as the workers answer."""
        found: dict[str, dict[str, Any]] = {}

        def told() -> bool:
            found.update(self.subtasks(task))
            return source in found

        self._wait(told, f"{source} tells of {task}", WAIT_TIMEOUT)
        return found[source]

    def worker_of(self, source: str) -> DMWorker:
        """The worker that serves a source."""
        (answer,) = self.dmctl("query-status", "-s", source)["sources"]
        return next(worker for worker in self.workers if worker.member == answer["sourceStatus"]["worker"])

    def wait_stage(self, task: str, stage: str, *, unit: str = "", seconds: float = WAIT_TIMEOUT) -> None:
        """Waits until every subtask is in ``stage`` (and ``unit``)."""

        def reached() -> bool:
            states = self.subtasks(task)
            broken = [s for s in states.values() if s["stage"] == "Paused" and (s["result"] or {}).get("errors")]
            if broken and stage != "Paused":
                raise HarnessError(f"task {task} met an error:\n{json.dumps(broken, indent=2)}\n{self.logs()}")
            return bool(states) and all(s["stage"] == stage and unit in ("", s["unit"]) for s in states.values())

        self._wait(reached, f"task {task} in {stage} {unit}", seconds)

    def wait_synced(self, task: str, *, seconds: float = WAIT_TIMEOUT) -> None:
        """Waits until every subtask's checkpoint reached the end of its upstream's binlog."""

        def synced() -> bool:
            states = self.subtasks(task)
            broken = [s for s in states.values() if (s["result"] or {}).get("errors")]
            if broken:
                raise HarnessError(f"task {task} met an error:\n{json.dumps(broken, indent=2)}\n{self.logs()}")
            return bool(states) and all(s.get("sync", {}).get("synced") for s in states.values())

        self._wait(synced, f"task {task} synced", seconds)

    def _wait(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        try:
            wait_until(ready, what, seconds, step=0.3)
        except HarnessError as exc:
            raise HarnessError(f"{exc}\n{self.dmctl_text('query-status', '--more')}\n{self.logs()}") from None


def _answer(text: str, args: Sequence[str]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError:
        raise HarnessError(f"dmctl {' '.join(args)} printed no JSON:\n{text}") from None
    return answer


def escape_check_text(text: str) -> str:
    """Like DM, dmctl prints a precheck's details unescaped in the answer, to be readable; this makes it JSON again."""
    return re.sub(
        r'(?s)"(msg|checkResult)": "((?:\[code=26005[^"]*?)?fail to check|pre-check is passed\.)'
        r'(.*?)"(,?\n    "|\n}\s*$)',
        lambda m: f'"{m[1]}": {json.dumps(m[2] + m[3])}{m[4]}',
        text,
    )


def http_ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
