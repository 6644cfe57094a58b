"""A cluster with one source whose relay two tasks read."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.harness.certified import certify, validated

TASK = """\
name: {name}
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:
  - {{source-id: s1, block-allow-list: mine, route-rules: [mine]}}
routes:
  mine: {{schema-pattern: relayed, target-schema: {name}}}
block-allow-list:
  mine: {{do-dbs: [relayed]}}
"""
TASKS = ("relay_a", "relay_b")


class Relayed:
    """Replicates ``upstream``'s table ``relayed.t`` to ``target``, through the relay in ``folder``.

    ``cluster`` has one worker, whose relay-dir is ``folder``'s parent.
    """

    def __init__(self, cluster: Cluster, upstream: MariaDBServer, target: MariaDBServer, folder: Path) -> None:
        self.cluster = cluster
        self.upstream = upstream
        self.target = target
        self.folder = folder
        self._rows = 0

    def start(self, *, enable_relay: bool = True, worker: str = "") -> None:
        """Creates table, source and tasks; returns when both tasks are in Sync. ``worker`` serves it."""
        self.upstream.execute("CREATE DATABASE relayed", "CREATE TABLE relayed.t (id INT PRIMARY KEY, v TEXT)")
        path = self.cluster.dir / "s1.yaml"
        path.write_text(
            f"source-id: s1\nenable-gtid: true\nenable-relay: {str(enable_relay).lower()}\n"
            "checker: {check-interval: 1s}\n"
            f"from: {{host: 127.0.0.1, port: {self.upstream.port}, user: root, password: ''}}\n"
        )
        self.cluster.ok("operate-source", "create", str(path), *(["-w", worker] if worker else []))
        self.write()
        for task in TASKS:
            text = validated(TASK.format(name=task, port=self.target.port))
            self.cluster.ok("start-task", self.cluster.write_task(text, f"{task}.yaml"))
        for task in TASKS:
            self.cluster.wait_stage(task, "Running", unit="Sync")

    def end(self) -> tuple[str, int]:
        """The end of the upstream's binlog."""
        name, pos, *_ = self.upstream.binlog_status()
        return str(name), int(pos)

    def files(self) -> tuple[Path, list[str]]:
        """The current sub-folder, and its binlog files."""
        subdir = self.folder / (self.folder / "server-uuid.index").read_text().split()[-1]
        return subdir, sorted(path.name for path in subdir.glob("mysql-bin.*"))

    def write(self, rows: int = 20) -> None:
        for _ in range(rows):
            self._rows += 1
            self.upstream.execute(f"INSERT INTO relayed.t VALUES ({self._rows}, REPEAT('x', 500))")

    def source_status(self) -> dict[str, Any]:
        (source,) = self.cluster.dmctl("query-status", "-s", "s1")["sources"]
        status: dict[str, Any] = source["sourceStatus"]
        return status

    def relay(self) -> dict[str, Any]:
        status: dict[str, Any] = self.source_status()["relayStatus"]
        return status

    def wait(self, ready: Callable[[], bool], what: str | Callable[[], str]) -> None:
        wait_until(ready, what, WAIT_TIMEOUT, step=0.3)

    def wait_read_from(self, kind: str) -> None:
        """Waits until both tasks read the binlog from ``kind``."""

        def reads() -> bool:
            states = [self.cluster.subtask(task, "s1") for task in TASKS]
            return all(state.get("sync", {}).get("binlogType") == kind for state in states)

        self.wait(reads, f"tasks read from {kind}")

    def check_rows(self) -> None:
        for task in TASKS:
            self.cluster.wait_synced(task)
            assert self.target.execute(f"SELECT COUNT(*), SUM(id) FROM {task}.t") == [
                (self._rows, self._rows * (self._rows + 1) // 2)
            ]

    def certify(self) -> None:
        """Asserts that the product finds both tasks' rows equal too, after :meth:`check_rows`."""
        for task in TASKS:
            certify(self.cluster, task)

    def check_files(self) -> None:
        """Asserts that every relay file has the same bytes as the upstream's."""
        end = [self.end()]

        def caught_up() -> bool:
            # Read each time, because MariaDB adds checkpoint events on its own.
            end[:] = [self.end()]
            return bool(self.relay()["relayBinlog"] == "({}, {})".format(*end[0]))

        self.wait(caught_up, "the relay at the upstream's end")
        ((name, pos),) = end
        subdir, files = self.files()
        assert files[-1] == name
        same, _, _ = filecmp.cmpfiles(self.upstream.data, subdir, files[:-1], shallow=False)
        assert same == files[:-1]
        relayed = (subdir / name).read_bytes()
        assert len(relayed) >= pos
        written = (self.upstream.data / name).read_bytes()[: len(relayed)]
        # Without the flag "in use", which the server clears when it closes the file.
        assert relayed[:21] + relayed[23:] == written[:21] + written[23:]
