"""Workers that `start-relay` names: each pulls a copy of the relay log, and a failover continues from one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from tests.harness.relayed import TASKS, Relayed

#: Short, because a failover waits for it.
KEEPALIVE_TTL = 12


def test_idle_workers_keep_copies(mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path) -> None:
    """One test, because a cluster takes long to start."""
    extra = f'relay-dir = "{tmp_path}/relay"'
    with Cluster(2, base=tmp_path, keepalive_ttl=KEEPALIVE_TTL, worker_extra=extra) as cluster:
        copies = Copies(Relayed(cluster, mariadb_upstream, target, tmp_path / "relay" / "worker1"))
        copies.relayed.start(enable_relay=False, worker="worker1")
        _are_started_shown_and_paused(copies)
        _are_exported(copies, tmp_path / "export")
        _are_continued_from_after_a_failover(copies)
        _are_stopped_one_by_one(copies)
        copies.relayed.certify()


class Copies:
    """The relay logs of source s1 on worker1 and worker2."""

    def __init__(self, relayed: Relayed) -> None:
        self.relayed = relayed
        self.cluster = relayed.cluster
        self.folder = relayed.folder.parent

    def statuses(self) -> dict[str, dict[str, Any]]:
        """`query-status -s s1`: worker → its answer, in the answer's order."""
        answers = self.cluster.dmctl("query-status", "-s", "s1")["sources"]
        return {answer["sourceStatus"]["worker"]: answer for answer in answers}

    def relays(self) -> dict[str, dict[str, Any] | None]:
        return {worker: answer["sourceStatus"]["relayStatus"] for worker, answer in self.statuses().items()}

    def stages(self) -> dict[str, tuple[str, str]]:
        (listed,) = self.cluster.dmctl("list-member", "--worker")["members"]
        return {one["name"]: (one["stage"], one["source"]) for one in listed["worker"]["workers"]}

    def wait_pulled(self, *workers: str) -> None:
        """Waits until the relays of ``workers`` are at the upstream's end."""

        def at_the_end() -> bool:
            end = "({}, {})".format(*self.relayed.end())
            relays = self.relays()
            return all((relays.get(worker) or {}).get("relayBinlog") == end for worker in workers)

        self.relayed.wait(at_the_end, f"{workers} have pulled all")

    def files(self, worker: str) -> dict[str, tuple[int, int]]:
        """The binlog files of a copy: name → (inode, time of the last change)."""
        found = sorted((self.folder / worker).glob("*/mysql-bin.*"))
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def _are_started_shown_and_paused(copies: Copies) -> None:
    cluster = copies.cluster
    answer = cluster.ok("start-relay", "-s", "s1", "worker1", "worker2")
    assert [(one["worker"], one["source"], one["result"]) for one in answer["sources"]] == [
        ("worker1", "s1", True),
        ("worker2", "s1", True),
    ]
    assert copies.stages() == {"worker1": ("bound", "s1"), "worker2": ("relay", "s1")}
    copies.relayed.write()
    copies.relayed.upstream.execute("FLUSH BINARY LOGS")
    copies.relayed.write()
    copies.wait_pulled("worker1", "worker2")
    copies.relayed.check_rows()

    statuses = copies.statuses()
    assert list(statuses) == ["worker1", "worker2"], "the worker that serves the source comes first"
    assert sorted(one["name"] for one in statuses["worker1"]["subTaskStatus"]) == sorted(TASKS)
    assert statuses["worker2"]["subTaskStatus"] == []
    assert statuses["worker2"]["result"] is True
    assert "tasks" in cluster.dmctl("query-status"), "without -s, relay workers are not asked: a summary stays one"

    for command, stage in (("pause-relay", "Paused"), ("resume-relay", "Running")):
        answer = cluster.ok(command, "-s", "s1")
        assert [one["worker"] for one in answer["sources"]] == ["worker1", "worker2"]
        assert {relay["stage"] for relay in copies.relays().values() if relay} == {stage}

    for arguments, code in (
        (("start-relay", "-s", "s1"), "46028"),
        (("stop-relay", "-s", "s1"), "46029"),
        (("operate-source", "stop", "s1"), "46010"),
    ):
        assert code in cluster.dmctl(*arguments)["msg"]


def _are_exported(copies: Copies, folder: Path) -> None:
    copies.cluster.dmctl_text("config", "export", "--dir", str(folder))
    assert json.loads((folder / "relay_workers.json").read_text()) == {"s1": ["worker1", "worker2"]}


def _are_continued_from_after_a_failover(copies: Copies) -> None:
    """The upstream purges events that the killed worker has not applied: only the other worker's copy has them."""
    relayed, cluster = copies.relayed, copies.cluster
    for task in TASKS:
        cluster.ok("pause-task", task)
    relayed.write()
    relayed.upstream.execute("FLUSH BINARY LOGS")
    relayed.write()
    copies.wait_pulled("worker2")
    cluster.workers[0].kill()
    newest, _ = relayed.end()
    relayed.wait(lambda: copies.stages()["worker1"][0] == "offline", "worker1 is lost")
    relayed.upstream.execute(f"PURGE BINARY LOGS TO '{newest}'")
    before = copies.files("worker2")
    assert len(before) > 1
    relayed.wait(lambda: copies.stages()["worker2"] == ("bound", "s1"), "worker2 serves s1")
    for task in TASKS:
        cluster.ok("resume-task", task)
    relayed.wait_read_from("local")
    relayed.write()
    relayed.check_rows()
    after = copies.files("worker2")
    assert {name: after[name] for name in before if name != newest} == {
        name: state for name, state in before.items() if name != newest
    }, "files were pulled again"
    # The restarted worker pulls a copy again.
    cluster.workers[0].start()
    relayed.wait(lambda: copies.stages() == {"worker1": ("relay", "s1"), "worker2": ("bound", "s1")}, "worker1 is back")
    relayed.write()
    copies.wait_pulled("worker1", "worker2")
    # A new leader reads all of this from etcd.
    cluster.master.stop()
    cluster.master.start()
    copies.wait_pulled("worker1", "worker2")
    assert copies.stages() == {"worker1": ("relay", "s1"), "worker2": ("bound", "s1")}
    cluster.ok("transfer-source", "s1", "worker1")
    relayed.wait(lambda: copies.stages() == {"worker1": ("bound", "s1"), "worker2": ("relay", "s1")}, "s1 was moved")
    relayed.write()
    relayed.wait_read_from("local")
    relayed.check_rows()
    copies.wait_pulled("worker1", "worker2")


def _are_stopped_one_by_one(copies: Copies) -> None:
    cluster, relayed = copies.cluster, copies.relayed
    relayed.upstream.execute("FLUSH BINARY LOGS")
    relayed.write()
    newest, _ = relayed.end()
    relayed.check_rows()
    copies.wait_pulled("worker1", "worker2")
    answer = cluster.ok("purge-relay", "-s", "s1", "-f", newest)
    assert [one["worker"] for one in answer["sources"]] == ["worker1", "worker2"]
    assert list(copies.files("worker2")) == [newest]

    answer = cluster.ok("stop-relay", "-s", "s1", "worker2")
    assert [one["worker"] for one in answer["sources"]] == ["worker2"]
    assert copies.stages() == {"worker1": ("bound", "s1"), "worker2": ("free", "")}
    assert list(copies.statuses()) == ["worker1"]
    assert copies.relays()["worker1"] is not None
    assert cluster.dmctl("stop-relay", "-s", "s1", "worker2")["result"] is True, "it pulls nothing, as DM answers"
    cluster.ok("stop-relay", "-s", "s1", "worker1")
    assert copies.relays() == {"worker1": None}
    relayed.write()
    relayed.wait_read_from("remote")
    relayed.check_rows()
    # The other form: the relay follows the source.
    cluster.ok("start-relay", "-s", "s1")
    for command, code in (("start-relay", "46030"), ("stop-relay", "46031")):
        assert code in cluster.dmctl(command, "-s", "s1", "worker2")["msg"]
