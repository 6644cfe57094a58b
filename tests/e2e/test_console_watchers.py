"""Hazard: people who watch a task in their browsers make it slower, or one of them stops the pages of the others."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.harness.cputime import cpu_seconds
from tests.harness.watchers import watching

TASK = """\
name: watched
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:
  - {{source-id: s1, block-allow-list: mine}}
block-allow-list: {{mine: {{do-dbs: [watched]}}}}
"""
#: Seconds of a turn, and how many turns without and with browsers.
TURN, TURNS = 12.0, 2
#: Browsers that read, that never read, and that leave again and again.
READING, DEAF, LEAVING = 40, 5, 5
#: Seconds between two changes, each of which is a probe, and its rows.
_PAUSE, _ROWS = 0.05, 20


@dataclass
class _Turn:
    """``lags``: seconds from a commit to its row at the target. ``connections``: of the cluster to the upstream.
    ``cpu``: of the master."""

    lags: list[float] = field(default_factory=list)
    changes: int = 0
    connections: int = 0
    cpu: float = 0.0

    def line(self, name: str) -> str:
        lag = statistics.median(self.lags)
        return (
            f"{name}: median lag {lag:.3f} s, {self.changes} changes, {self.connections} connections to the upstream, "
            f"{self.cpu:.2f} s of the master's CPU"
        )


class _Scene:
    def __init__(self, cluster: Cluster, upstream: MariaDBServer, target: MariaDBServer) -> None:
        self.cluster, self.upstream, self.target = cluster, upstream, target
        self._committed: dict[int, float] = {}
        self._number = 0

    def start(self) -> None:
        self.upstream.execute(
            "CREATE DATABASE watched",
            "CREATE TABLE watched.probe (id INT PRIMARY KEY)",
            "CREATE TABLE watched.t (id INT AUTO_INCREMENT PRIMARY KEY, probe INT, v VARCHAR(100))",
        )
        self.cluster.add_source(self.upstream, "s1")
        self.cluster.ok("start-task", self.cluster.write_task(TASK.format(port=self.target.port)))
        self.cluster.wait_stage("watched", "Running", unit="Sync")

    def _connections(self) -> int:
        """Those that the upstream has accepted; this question is one."""
        return int(self.upstream.execute("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])

    def turn(self) -> _Turn:
        found = _Turn()
        before, cpu = self._connections(), cpu_seconds(self.cluster.master.pid)
        with self._seeing(found):
            end = time.monotonic() + TURN
            with self.upstream.connect() as conn, conn.cursor() as cursor:
                while time.monotonic() < end:
                    self._number += 1
                    rows = ", ".join([f"({self._number}, REPEAT('v', 100))"] * _ROWS)
                    cursor.execute("BEGIN")
                    cursor.execute(f"INSERT INTO watched.t (probe, v) VALUES {rows}")
                    cursor.execute(f"INSERT INTO watched.probe VALUES ({self._number})")
                    cursor.execute("COMMIT")
                    self._committed[self._number] = time.monotonic()
                    found.changes += 1
                    time.sleep(_PAUSE)
        # Without the writer's and this question's.
        found.connections = self._connections() - before - 2
        found.cpu = cpu_seconds(self.cluster.master.pid) - cpu
        return found

    @contextmanager
    def _seeing(self, found: _Turn) -> Iterator[None]:
        """Looks at the target until all changes of the block are there."""
        done, newest = threading.Event(), self._number

        def look() -> None:
            seen = newest
            with self.target.connect() as conn, conn.cursor() as cursor:
                while not (done.is_set() and seen == self._number):
                    cursor.execute(f"SELECT id FROM watched.probe WHERE id > {seen}")
                    rows, now = cursor.fetchall(), time.monotonic()
                    # A row may be at the target before its writer has noted the commit.
                    found.lags += [max(0.0, now - self._committed.get(one, now)) for (one,) in rows]
                    seen = max([seen, *(one for (one,) in rows)])
                    time.sleep(0.01)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        yield
        done.set()
        looking.join(WAIT_TIMEOUT)
        assert not looking.is_alive(), "not all changes have reached the target"


@pytest.fixture
def scene(free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer) -> _Scene:
    scene = _Scene(free_cluster, mariadb_upstream, target)
    scene.start()
    return scene


def test_fifty_browsers_do_not_raise_the_lag_of_the_task_that_they_watch(scene: _Scene) -> None:
    port, page = scene.cluster.master.port, "task%3Fname%3Dwatched"
    scene.turn()
    alone, watched = [], []
    for _ in range(TURNS):
        alone.append(scene.turn())
        with watching(port, page, reading=READING, deaf=DEAF, leaving=LEAVING) as browsers:
            wait_until(lambda: browsers.least() > 0, "all browsers that read have the page", WAIT_TIMEOUT)
            begun = list(browsers.events)
            watched.append(scene.turn())
            came = [now - before for now, before in zip(browsers.events, begun, strict=True)]
        # Those that do not read, or leave, hold up none of the others: a look each two seconds, also on a busy machine.
        assert min(came) >= TURN / 2 / 3, came
    for name, turns in (("alone", alone), ("watched", watched)):
        for one in turns:
            print(one.line(name))
    # One look at the cluster for all of them: it asks the upstream once.
    looks = max(one.connections for one in watched) - min(one.connections for one in alone)
    assert looks <= TURN / 2 + 5, [one.connections for one in (*alone, *watched)]
    without, beside = (statistics.median([lag for one in turns for lag in one.lags]) for turns in (alone, watched))
    assert beside <= 2 * without + 0.5, (without, beside)
    # A second of the master's CPU per browser and minute would be too much.
    assert max(one.cpu for one in watched) - min(one.cpu for one in alone) <= READING * TURN / 60
