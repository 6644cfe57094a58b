"""One relay for two tasks, operated by dmctl: its files have the upstream's bytes, and no row is lost or doubled."""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from pkg.binlog.position import parse_position
from tests.e2e.scrape import Scrape, address_of
from tests.harness.relayed import Relayed


def test_operators_drive_it(mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path) -> None:
    """One test, because a cluster takes long to start."""
    with Cluster(1, base=tmp_path, worker_extra=f'relay-dir = "{tmp_path}/relay"') as cluster:
        relayed = Relayed(cluster, mariadb_upstream, target, tmp_path / "relay" / "worker1")
        relayed.start()
        _start_pause_and_stop(relayed)
        _purge_keeps_what_tasks_need(relayed)
        relayed.certify()


def _start_pause_and_stop(relayed: Relayed) -> None:
    cluster = relayed.cluster
    relayed.wait_read_from("local")
    relayed.write()
    relayed.upstream.execute("FLUSH BINARY LOGS")
    relayed.write()
    relayed.check_rows()
    relayed.check_files()
    # Reported only if the upstream answers within half a second.
    relayed.wait(lambda: relayed.relay()["relayCatchUpMaster"], "the relay has caught up")
    status = relayed.relay()
    assert (status["stage"], status["result"]) == ("Running", None)
    _check_metrics(relayed)

    # Paused: tasks wait at the relay log's end.
    cluster.ok("pause-relay", "-s", "s1")
    assert relayed.relay()["stage"] == "Paused"
    relayed.write()
    statuses = {task["taskName"]: task["taskStatus"] for task in cluster.dmctl("query-status")["tasks"]}
    assert statuses["relay_a"].startswith("Error - Relay status is Paused.")
    cluster.ok("resume-relay", "-s", "s1")
    relayed.check_rows()

    # Stopped: tasks continue from the upstream itself; after a new start they return to the relay.
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


def _check_metrics(relayed: Relayed) -> None:
    """Compares each value with the files, the disk and the status."""
    # MariaDB adds events on its own: files and metrics are read until they are from the same moment.
    relayed.wait(lambda: not _differences(relayed), lambda: str(_differences(relayed)))


def _differences(relayed: Relayed) -> dict[str, tuple[float, float]]:
    """Name → the metric's value and the expected one, where they differ."""
    status, (folder, files) = relayed.relay(), relayed.files()
    seen = Scrape(address_of(relayed.cluster.workers[0]))
    file, pos = parse_position(status["relayBinlog"]).sort_key()
    written = sum((folder / name).stat().st_size for name in files)
    uuid, _, number = folder.name.rpartition(".")
    blocks = seen.value("dm_relay_write_duration_count")
    compared = {
        "file": (seen.value("dm_relay_binlog_file", node="relay"), file),
        "pos": (seen.value("dm_relay_binlog_pos", node="relay"), pos),
        "file of the upstream": (seen.value("dm_relay_binlog_file", node="master"), file),
        "pos of the upstream": (seen.value("dm_relay_binlog_pos", node="master"), pos),
        "sub-folder": (seen.value("dm_relay_sub_dir_index", node="relay", uuid=uuid), int(number)),
        "disk": (seen.value("dm_relay_space", type="capacity"), shutil.disk_usage(folder).total),
        "written bytes": (seen.value("dm_relay_write_size_sum"), written),
        "written blocks": (seen.value("dm_relay_write_size_count"), blocks),
        "corruption": (seen.value("dm_relay_data_corruption"), 0),
        "write errors": (seen.value("dm_relay_write_error_count"), 0),
        "read errors": (seen.value("dm_relay_read_error_count"), 0),
        # All received blocks were checked, also those with nothing to write.
        "checked blocks": (min(seen.value("dm_relay_read_transform_duration_count"), blocks), blocks),
    }
    assert 0 < seen.value("dm_relay_space", type="available") < seen.value("dm_relay_space", type="capacity")
    assert seen.value("dm_relay_read_binlog_duration_count") >= 1
    return {name: pair for name, pair in compared.items() if pair[0] != pair[1]}


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
