"""Hazard: a dashboard shows what did not happen. Each value is compared with what a real migration did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.harness.cluster import Cluster, DMWorker
from tests.harness.mysql import MariaDBServer
from tests.harness.process import WAIT_TIMEOUT, wait_until

TASK = """\
name: seen
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: s1, block-allow-list: mine}}]
block-allow-list: {{mine: {{do-dbs: [seen]}}}}
"""
COPIED, INSERTED, DELETED, UPDATES = 400, 90, 20, 4
#: Row changes of the table with a key, and of the one without.
KEYED, KEYLESS = INSERTED + 10 * UPDATES + DELETED, 7


def scraped(address: str) -> str:
    with urlopen(f"http://{address}/metrics", timeout=WAIT_TIMEOUT) as answer:
        return answer.read().decode()  # type: ignore[no-any-return]


def _address(worker: DMWorker) -> str:
    return f"127.0.0.1:{worker.port}"


class Scrape:
    """The series of a process, by the client library's own parser."""

    def __init__(self, address: str) -> None:
        families = text_string_to_metric_families(scraped(address))
        self.samples = [sample for family in families for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum of all series of that name with these labels."""
        found = [one.value for one in self.samples if _name(one.name) == name and labels.items() <= one.labels.items()]
        assert found, f"no series {name} with {labels}"
        return sum(found)

    def by(self, name: str, label: str) -> Mapping[str, float]:
        return {one.labels[label]: one.value for one in self.samples if _name(one.name) == name}


def _name(parsed: str) -> str:
    """The parser adds ``_total`` to counters without it; the names here have it only where the text does."""
    return parsed.removesuffix("_total")


def test_what_a_migration_did_is_what_its_metrics_say(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    cluster, upstream = free_cluster, mariadb_upstream
    upstream.execute(
        "CREATE DATABASE seen",
        "USE seen",
        "CREATE TABLE seen.t (id INT PRIMARY KEY, v VARCHAR(100))",
        "CREATE TABLE seen.k (v INT)",
        f"INSERT INTO seen.t SELECT seq, REPEAT('x', 100) FROM seq_1_to_{COPIED}",
    )
    cluster.add_source(upstream, "s1")
    cluster.ok("start-task", cluster.write_task(TASK.format(port=target.port)))
    cluster.wait_stage("seen", "Running", unit="Sync")
    cluster.wait_synced("seen")
    upstream.execute("USE seen", f"INSERT INTO t SELECT 10000 + seq, 'y' FROM seq_1_to_{INSERTED}")
    upstream.execute(
        "USE seen", "BEGIN", *[f"UPDATE seen.t SET v = 'z{n}' WHERE id <= 10" for n in range(UPDATES)], "COMMIT"
    )
    upstream.execute("ALTER TABLE seen.t ADD COLUMN w INT")
    upstream.execute(f"DELETE FROM seen.t WHERE id > 10000 LIMIT {DELETED}")
    upstream.execute("INSERT INTO seen.k VALUES (1), (1), (1), (2), (3)", "DELETE FROM seen.k WHERE v = 1 LIMIT 2")
    cluster.wait_synced("seen")

    [worker] = [one for one in cluster.workers if re.search("seen", scraped(_address(one)))]
    wait_until(
        lambda: Scrape(_address(worker)).by("dm_syncer_lag_reason", "reason")["source_idle"] == 1,
        "nothing to wait for but the source",
        WAIT_TIMEOUT,
        step=0.3,
    )
    seen = Scrape(_address(worker))
    _jobs(seen)
    _batches(seen)
    _positions(seen, upstream, worker.member)
    _resources(seen)
    _answer(cluster, seen)
    _master(cluster, worker.member)


def _jobs(seen: Scrape) -> None:
    expected = {"insert": INSERTED, "update": 10 * UPDATES, "delete": DELETED}
    for name in ("dm_syncer_added_jobs", "dm_syncer_finished_jobs"):
        for kind, count in expected.items():
            # What the copy wrote is not counted.
            assert seen.value(name, target_schema="seen", target_table="t", type=kind) == count
        assert seen.value(name, target_table="k", type="insert") == 5
        assert seen.value(name, target_table="k", type="delete") == 2
        assert seen.value(name, type="ddl") == 1
        assert seen.value(name) == KEYED + KEYLESS + 1
    assert seen.value("dm_syncer_finished_transaction", task="seen") == 5
    changes = KEYED + KEYLESS
    assert seen.value("dm_syncer_row_changes", task="seen") == changes
    # The updates of a row came in one transaction, and so in one batch: all but the last one go without a write.
    assert seen.value("dm_syncer_compacted_rows") == 10 * (UPDATES - 1)
    assert seen.value("dm_syncer_written_rows") == changes - 10 * (UPDATES - 1)


def _batches(seen: Scrape) -> None:
    batches = seen.value("dm_syncer_batches", task="seen")
    assert 1 <= batches <= 5
    rows = KEYED + KEYLESS
    assert seen.value("dm_syncer_binlog_event_row_sum") == rows
    events = seen.value("dm_syncer_binlog_event_row_count")
    assert seen.value("dm_syncer_binlog_event_size_count") == events >= 4 + UPDATES
    size = seen.value("dm_syncer_binlog_event_size_sum")
    assert seen.value("dm_syncer_stage_bytes", stage="decode") == size > rows * 3
    for stage in ("decode", "shuffle", "compact", "write"):
        spent = seen.value("dm_syncer_stage_seconds", stage=stage)
        assert spent == seen.value("dm_syncer_binlog_transform_cost_sum", stage=stage) > 0
        assert seen.value("dm_syncer_binlog_transform_cost_count", stage=stage) == batches
    job = seen.value("dm_syncer_job_seconds")
    assert 0 < seen.value("dm_syncer_busy_seconds") <= job
    written = seen.value("dm_syncer_replication_transaction_batch_sum", type="rows")
    assert written == seen.value("dm_syncer_written_rows")
    transactions = seen.value("dm_syncer_txn_duration_time_count")
    assert transactions == seen.value("dm_syncer_stmt_duration_time_count", type="commit")
    assert 0 < seen.value("dm_syncer_txn_duration_time_sum") < 4 * job
    statements = seen.value("dm_syncer_replication_transaction_batch_sum", type="statements")
    assert seen.value("dm_syncer_stmt_duration_time_count", type="stmt") == statements > 0
    assert seen.value("dm_syncer_flush_checkpoints_time_interval_count") >= batches
    assert seen.value("dm_syncer_ideal_qps") > 0
    for name in ("read_binlog_duration", "dispatch_binlog_duration", "query_duration_time", "add_job_duration"):
        assert seen.value(f"dm_syncer_{name}_count") > 0, name


def _positions(seen: Scrape, upstream: MariaDBServer, worker: str) -> None:
    name, pos, *_ = upstream.binlog_status()
    for node in ("master", "syncer"):
        assert seen.value("dm_syncer_binlog_pos", node=node, task="seen") == pos
        assert seen.value("dm_syncer_binlog_file", node=node, task="seen") == int(str(name).rpartition(".")[2])
    assert seen.value("dm_syncer_replication_lag_gauge", task="seen", worker=worker, source_id="s1") == 0
    assert seen.value("dm_syncer_replication_lag_count") > 0
    assert seen.value("dm_syncer_queue_size") == 0
    assert seen.value("dm_syncer_held_bytes") == 0
    assert seen.value("dm_worker_task_state", task="seen") == 2
    assert sum(seen.by("dm_syncer_lag_reason", "reason").values()) == 1
    assert seen.value("dm_syncer_shard_lock_resolving", task="seen") == 0


def _resources(seen: Scrape) -> None:
    # A dump, a load, and each batch.
    assert seen.value("dm_worker_spark_jobs", result="ok") >= 2 + seen.value("dm_syncer_batches")
    assert seen.value("dm_worker_spark_jobs", result="failed") == 0
    assert seen.value("dm_worker_spark_jobs_running") == 0
    memory = seen.by("dm_worker_memory_bytes", "part")
    assert {part for part, size in memory.items() if size > 10 << 20} == {"worker", "jvm", "tasks"}


def _answer(cluster: Cluster, seen: Scrape) -> None:
    [status] = cluster.subtasks("seen").values()
    assert int(status["sync"]["ioTotalBytes"]) >= seen.value("dm_syncer_binlog_event_size_sum")
    assert int(status["sync"]["dumpIOTotalBytes"]) >= COPIED * 100
    profile = cluster.dmctl_text("query-status", "seen", "--profile")
    assert f"{KEYED + KEYLESS:,} row changes" in profile, profile
    assert re.search(r"write to the target +\d+\.\d %", profile), profile


def _master(cluster: Cluster, worker: str) -> None:
    shown = Scrape(cluster.master.address)
    assert shown.by("dm_master_worker_state", "worker")[worker] == 2
    assert shown.value("dm_master_start_leader_counter") == 1
    assert shown.value("etcd_server_has_leader") == 1
    assert shown.value("etcd_disk_wal_fsync_duration_seconds_count") > 0
