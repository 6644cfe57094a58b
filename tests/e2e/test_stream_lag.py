"""Hazard: an operator looks for the slow part at the wrong end: the reader of the binlog, or the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.e2e.scrape import Scrape, address_of
from tests.harness.proxy import CountingProxy

TASK = """\
name: two_lags
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances:
  - {{source-id: streaming, block-allow-list: mine}}
block-allow-list: {{mine: {{do-dbs: [two_lags]}}}}
"""
SOURCE = """\
source-id: streaming
enable-gtid: false
from: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
"""


class _Scene:
    """A task whose upstream is behind ``link``."""

    def __init__(self, cluster: Cluster, upstream: MariaDBServer, target: MariaDBServer) -> None:
        self.cluster, self.upstream, self.target = cluster, upstream, target
        self.link = CountingProxy(upstream.port)

    def start(self) -> None:
        self.upstream.execute("CREATE DATABASE two_lags", "CREATE TABLE two_lags.t (id INT PRIMARY KEY, v TEXT)")
        self.upstream.execute("INSERT INTO two_lags.t VALUES (1, '')")
        path = self.cluster.dir / "streaming.yaml"
        path.write_text(SOURCE.format(port=self.link.port))
        self.cluster.ok("operate-source", "create", str(path))
        self.cluster.ok("start-task", self.cluster.write_task(TASK.format(port=self.target.port)))
        self.cluster.wait_stage("two_lags", "Running", unit="Sync")

    def change(self) -> None:
        self.upstream.execute("UPDATE two_lags.t SET v = CONCAT(v, REPEAT('x', 1000)) WHERE id = 1")

    def sync(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.subtask("two_lags", "streaming")["sync"]
        # JSON has 64-bit numbers as strings.
        return found | {
            name: int(found[name]) for name in ("secondsBehindMaster", "bytesBehind", *_STREAM) if name in found
        }

    def relay(self) -> dict[str, Any]:
        (answer,) = self.cluster.dmctl("query-status", "-s", "streaming")["sources"]
        found: dict[str, Any] = answer["sourceStatus"]["relayStatus"]
        return found | {name: int(found[name]) for name in ("secondsBehind", "bytesBehind")}

    def metrics(self) -> dict[str, float]:
        wanted = ("dm_syncer_stream_lag_seconds", "dm_syncer_stream_bytes_behind")
        samples = [one for worker in self.cluster.workers for one in Scrape(address_of(worker)).samples]
        return {one.name: one.value for one in samples if one.name in wanted}

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        wait_until(ready, lambda: f"{what}: {self.sync()}", WAIT_TIMEOUT)

    def wait_idle(self) -> None:
        def idle() -> bool:
            sync = self.sync()
            lags = [sync[name] for name in ("secondsBehindMaster", "bytesBehind", *_STREAM)]
            return lags == [0, 0, 0, 0] and sync["streamLagReason"] == "source_idle"

        self.wait(idle, "all is read and applied")


_STREAM = ("streamSecondsBehind", "streamBytesBehind")


@pytest.fixture
def scene(free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer) -> Iterator[_Scene]:
    scene = _Scene(free_cluster, mariadb_upstream, target)
    try:
        scene.start()
        yield scene
    finally:
        scene.link.refusing = False
        scene.cluster.ok("stop-task", "two_lags")
        scene.link.close()


def test_the_stream_has_a_lag_of_its_own(scene: _Scene) -> None:
    """One test, because a cluster takes long to prepare."""
    scene.wait_idle()
    assert scene.metrics() == {"dm_syncer_stream_lag_seconds": 0, "dm_syncer_stream_bytes_behind": 0}
    _the_target_is_locked(scene)
    _the_task_is_paused(scene)
    _the_relay_is_paused(scene)
    _the_upstream_is_away(scene)


def _the_target_is_locked(scene: _Scene) -> None:
    """All is read, and nothing is applied."""
    conn = scene.target.connect(autocommit=False)
    try:
        with conn.cursor() as cursor:
            cursor.execute("SELECT * FROM two_lags.t WHERE id = 1 FOR UPDATE")
        scene.change()
        scene.wait(lambda: scene.sync()["secondsBehindMaster"] >= 3, "the oldest commit ages")
        sync = scene.sync()
        assert [sync[name] for name in _STREAM] == [0, 0]
        assert sync["bytesBehind"] > 0
    finally:
        conn.close()
    scene.wait_idle()


def _the_task_is_paused(scene: _Scene) -> None:
    scene.cluster.ok("pause-task", "two_lags")
    scene.cluster.wait_stage("two_lags", "Paused")
    scene.change()
    scene.upstream.execute("FLUSH BINARY LOGS")
    scene.wait(lambda: scene.sync()["streamBytesBehind"] > 1000, "the upstream has written")
    sync = scene.sync()
    assert sync["streamLagReason"] == "stopped"
    assert sync["streamSecondsBehind"] == sync["secondsBehindMaster"] != 0
    assert sync["streamBytesBehind"] == sync["bytesBehind"]
    scene.cluster.ok("resume-task", "two_lags")
    scene.wait_idle()


def _the_relay_is_paused(scene: _Scene) -> None:
    scene.cluster.ok("start-relay", "-s", "streaming")
    scene.wait(lambda: scene.sync()["binlogType"] == "local", "the task reads the relay log")
    scene.wait_idle()
    wait_until(lambda: scene.relay()["lagReason"] == "source_idle", lambda: str(scene.relay()), WAIT_TIMEOUT)
    relay = scene.relay()
    assert (relay["secondsBehind"], relay["bytesBehind"]) == (0, 0)
    scene.cluster.ok("pause-relay", "-s", "streaming")
    scene.change()
    scene.wait(lambda: scene.sync()["streamSecondsBehind"] >= 2, "the relay log has no more")
    sync = scene.sync()
    assert sync["streamLagReason"] == "relay"
    assert sync["streamBytesBehind"] > 1000
    wait_until(lambda: scene.relay()["bytesBehind"] > 1000, lambda: str(scene.relay()), WAIT_TIMEOUT)
    assert scene.relay()["lagReason"] == "stopped"
    scene.cluster.ok("resume-relay", "-s", "streaming")
    scene.wait_idle()
    scene.cluster.ok("stop-relay", "-s", "streaming")


def _the_upstream_is_away(scene: _Scene) -> None:
    scene.wait(lambda: scene.sync()["binlogType"] == "remote", "the task reads the upstream")
    scene.wait_idle()
    scene.link.refusing = True
    scene.link.cut()
    scene.wait(lambda: scene.sync()["streamLagReason"] in ("retry", "upstream_away"), "the upstream is away")
    sync = scene.sync()
    assert [sync[name] for name in ("bytesBehind", *_STREAM)] == [-1, -1, -1]
    assert scene.metrics() == {}
    scene.link.refusing = False
    scene.wait_idle()
