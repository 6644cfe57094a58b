"""One relay for two tasks, operated by dmctl: files of the upstream's bytes, and no row lost or doubled on the way."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from tests.harness.cluster import Cluster
from tests.harness.mysql import MariaDBServer
from tests.harness.relayed import Relayed


def test_operators_drive_it(mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path) -> None:
    """One test, because a cluster takes long to start."""
    with Cluster(1, base=tmp_path, worker_extra=f'relay-dir = "{tmp_path}/relay"') as cluster:
        relayed = Relayed(cluster, mariadb_upstream, target, tmp_path / "relay" / "worker1")
        relayed.start()
        _start_pause_and_stop(relayed)
        _purge_keeps_what_tasks_need(relayed)


def _start_pause_and_stop(relayed: Relayed) -> None:
    cluster = relayed.cluster
    relayed.wait_read_from("local")
    relayed.write()
    relayed.upstream.execute("FLUSH BINARY LOGS")
    relayed.write()
    relayed.check_rows()
    relayed.check_files()
    # Said only when the upstream answers within half a second.
    relayed.wait(lambda: relayed.relay()["relayCatchUpMaster"], "the relay has caught up")
    status = relayed.relay()
    assert (status["stage"], status["result"]) == ("Running", None)
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{cluster.workers[0].port}/metrics", timeout=60).read().decode()
    assert f'dm_relay_binlog_file{{node="relay"}} {int(status["relayBinlog"][11:17])}' in metrics
    assert 'dm_relay_space{type="available"}' in metrics
    assert "dm_relay_data_corruption 0" in metrics
    for name in ("read_binlog_duration", "read_transform_duration", "write_duration", "write_size"):
        assert re.search(rf"^dm_relay_{name}_count [1-9]", metrics, re.MULTILINE), name

    # Paused: tasks wait at its end.
    cluster.ok("pause-relay", "-s", "s1")
    assert relayed.relay()["stage"] == "Paused"
    relayed.write()
    statuses = {task["taskName"]: task["taskStatus"] for task in cluster.dmctl("query-status")["tasks"]}
    assert statuses["relay_a"].startswith("Error - Relay status is Paused.")
    cluster.ok("resume-relay", "-s", "s1")
    relayed.check_rows()

    # Stopped: tasks go on with the upstream itself; started again, they come back.
    cluster.ok("stop-relay", "-s", "s1")
    relayed.write()
    relayed.check_rows()
    relayed.wait_read_from("remote")
    assert relayed.source_status()["relayStatus"] is None
    assert "46012" in cluster.dmctl("pause-relay", "-s", "s1")["msg"]
    cluster.ok("start-relay", "-s", "s1")
    assert "46030" in cluster.dmctl("start-relay", "-s", "s1", "worker1")["msg"]
    relayed.write()
    relayed.wait_read_from("local")
    relayed.write()
    relayed.check_rows()
    relayed.check_files()


def _purge_keeps_what_tasks_need(relayed: Relayed) -> None:
    cluster = relayed.cluster
    relayed.wait_read_from("local")
    cluster.ok("pause-task", "relay_b")
    needed, _ = relayed.end()
    for _ in range(2):
        relayed.write(5)
        relayed.upstream.execute("FLUSH BINARY LOGS")
    newest, _ = relayed.end()
    relayed.wait(lambda: newest in relayed.relay()["relayBinlog"], "the relay in the newest file")
    answer = cluster.dmctl("purge-relay", "-s", "s1", "-f", newest)
    assert "30042" in answer["sources"][0]["msg"], answer
    assert needed in relayed.files()[1]
    cluster.ok("resume-task", "relay_b")
    relayed.check_rows()
    cluster.ok("purge-relay", "-s", "s1", "-f", newest)
    assert relayed.files()[1] == [newest]
    relayed.write(5)
    relayed.check_rows()
