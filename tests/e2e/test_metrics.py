"""Hazard: a dashboard shows wrong values. Each value is compared with the work of a real migration."""

from __future__ import annotations

import re

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from tests.e2e.scrape import Scrape, address_of, scraped

TASK = """\
name: seen
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: s1, block-allow-list: mine}}]
block-allow-list: {{mine: {{do-dbs: [seen]}}}}
"""
COPIED, INSERTED, DELETED, UPDATES = 400, 90, 20, 4
#: Row changes of the table with a key, and of the one without a key.
KEYED, KEYLESS = INSERTED + 10 * UPDATES + DELETED, 7
CHANGES = KEYED + KEYLESS
#: Bytes at the end of each event.
CHECKSUM = 4


def test_what_a_migration_did_is_what_its_metrics_say(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    cluster, upstream = free_cluster, mariadb_upstream
    upstream.execute(
        "CREATE DATABASE seen",
        "USE seen",
        "CREATE TABLE seen.t (id INT PRIMARY KEY, v VARCHAR(100))",
        "CREATE TABLE seen.k (v INT)",
        "CREATE TABLE seen.u (id INT PRIMARY KEY, v INT UNIQUE)",
        "INSERT INTO seen.u VALUES (1, 1), (2, 2)",
        f"INSERT INTO seen.t SELECT seq, REPEAT('x', 100) FROM seq_1_to_{COPIED}",
    )
    # The workers have run other tests' tasks, some of which end in a failed job.
    earlier = {one.member: Scrape(address_of(one)) for one in cluster.workers}
    cluster.add_source(upstream, "s1")
    cluster.ok("start-task", cluster.write_task(TASK.format(port=target.port)))
    cluster.wait_stage("seen", "Running", unit="Sync")
    cluster.wait_synced("seen")
    began = int(upstream.binlog_status()[1])
    upstream.execute("USE seen", f"INSERT INTO t SELECT 10000 + seq, 'y' FROM seq_1_to_{INSERTED}")
    upstream.execute(
        "USE seen", "BEGIN", *[f"UPDATE seen.t SET v = 'z{n}' WHERE id <= 10" for n in range(UPDATES)], "COMMIT"
    )
    upstream.execute("ALTER TABLE seen.t ADD COLUMN w INT")
    upstream.execute(f"DELETE FROM seen.t WHERE id > 10000 LIMIT {DELETED}")
    upstream.execute("INSERT INTO seen.k VALUES (1), (1), (1), (2), (3)", "DELETE FROM seen.k WHERE v = 1 LIMIT 2")
    upstream.execute(  # not of this task
        "CREATE DATABASE unseen", "CREATE TABLE unseen.t (id INT PRIMARY KEY)", "INSERT INTO unseen.t VALUES (1)"
    )
    cluster.wait_synced("seen")

    [worker] = [one for one in cluster.workers if re.search("seen", scraped(address_of(one)))]
    wait_until(
        lambda: (
            (now := Scrape(address_of(worker))).by("dm_syncer_lag_reason", "reason")["source_idle"] == 1
            # The first scrape of a run finds no lag yet.
            and now.value("dm_syncer_replication_lag_count") > 0
        ),
        "nothing to wait for but the source, and a lag was seen",
        WAIT_TIMEOUT,
        step=0.3,
    )
    seen = Scrape(address_of(worker))
    _jobs(seen)
    _batches(seen, upstream, began)
    _positions(seen, upstream, worker.member)
    _resources(seen, earlier[worker.member])
    _answer(cluster, seen)
    _master(cluster, worker.member)
    _conflicts(cluster, address_of(worker), upstream)
    _errors(cluster, address_of(worker), upstream, target)


def _jobs(seen: Scrape) -> None:
    expected = {"insert": INSERTED, "update": 10 * UPDATES, "delete": DELETED}
    for name in ("dm_syncer_added_jobs", "dm_syncer_finished_jobs"):
        for kind, count in expected.items():
            # The copy's rows are not counted.
            assert seen.value(name, target_schema="seen", target_table="t", type=kind) == count
        assert seen.value(name, target_table="k", type="insert") == 5
        assert seen.value(name, target_table="k", type="delete") == 2
        assert seen.value(name, type="ddl") == 1
        assert seen.value(name) == CHANGES + 1
    assert seen.value("dm_syncer_finished_transaction", task="seen") == 5
    assert seen.value("dm_syncer_row_changes", task="seen") == CHANGES
    assert (seen.value("dm_syncer_conflict_sets"), seen.value("dm_syncer_conflict_rows")) == (0, 0)
    # The updates of a row came in one transaction, and so in one batch: only the last one is written.
    assert seen.value("dm_syncer_compacted_rows") == 10 * (UPDATES - 1)
    assert seen.value("dm_syncer_written_rows") == CHANGES - 10 * (UPDATES - 1)


def _rows_events(upstream: MariaDBServer, began: int) -> list[int]:
    """The sizes, without checksums, of the task's rows events from ``began`` in the binlog on, by the server itself."""
    sizes, mine = [], False
    for _, pos, kind, _, end, info in upstream.execute("SHOW BINLOG EVENTS"):
        if kind == "Table_map":
            mine = "(seen." in info
        elif kind.startswith(("Write_rows", "Update_rows", "Delete_rows")) and mine and pos >= began:
            sizes.append(end - pos - CHECKSUM)
    return sizes


def _batches(seen: Scrape, upstream: MariaDBServer, began: int) -> None:
    batches = seen.value("dm_syncer_batches", task="seen")
    assert 1 <= batches <= 5
    assert seen.value("dm_syncer_binlog_event_row_sum") == CHANGES
    sizes = _rows_events(upstream, began)
    assert seen.value("dm_syncer_binlog_event_row_count") == len(sizes)
    assert seen.value("dm_syncer_binlog_event_size_count") == len(sizes)
    assert seen.value("dm_syncer_binlog_event_size_sum") == sum(sizes)
    assert seen.value("dm_syncer_stage_bytes", stage="decode") == sum(sizes)
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
    # One for each time that the checkpoint skips events of other tasks.
    skipped = seen.value("dm_syncer_skip_binlog_duration_count")
    assert skipped >= 1
    # All that was read was planned; batches, skips and statements, also those of other schemas, were passed on.
    read = seen.value("dm_syncer_read_binlog_duration_count")
    assert seen.value("dm_syncer_dispatch_binlog_duration_count") == read > 0
    assert seen.value("dm_syncer_add_job_duration_count", type="dml") == batches + skipped
    assert seen.value("dm_syncer_add_job_duration_count", type="ddl") == 3
    # At least one for each table.
    assert seen.value("dm_syncer_query_duration_time_count") >= 2


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


def _resources(seen: Scrape, earlier: Scrape) -> None:
    ended, ended_before = (one.by("dm_worker_spark_jobs", "result") for one in (seen, earlier))
    # A dump, a load, and each batch that the worker did not apply itself.
    jobs = seen.value("dm_syncer_batches") - seen.value("dm_syncer_batches", size="tiny")
    assert ended["ok"] - ended_before["ok"] >= 2 + jobs
    assert ended["failed"] == ended_before["failed"]
    assert seen.value("dm_worker_spark_jobs_running") == 0
    memory = seen.by("dm_worker_memory_bytes", "part")
    assert {part for part, size in memory.items() if size > 10 << 20} == {"worker", "jvm", "tasks"}


def _answer(cluster: Cluster, seen: Scrape) -> None:
    [status] = cluster.subtasks("seen").values()
    assert int(status["sync"]["ioTotalBytes"]) >= seen.value("dm_syncer_binlog_event_size_sum")
    assert int(status["sync"]["dumpIOTotalBytes"]) >= COPIED * 100
    profile = cluster.dmctl_text("query-status", "seen", "--profile")
    assert f"{CHANGES:,} row changes" in profile, profile
    assert re.search(r"write to the target +\d+\.\d %", profile), profile


def _master(cluster: Cluster, worker: str) -> None:
    shown = Scrape(cluster.master.address)
    assert shown.by("dm_master_worker_state", "worker")[worker] == 2
    assert shown.value("dm_master_start_leader_counter") == 1
    assert shown.value("etcd_server_has_leader") == 1
    assert shown.value("etcd_disk_wal_fsync_duration_seconds_count") > 0


def _conflicts(cluster: Cluster, worker: str, upstream: MariaDBServer) -> None:
    """Makes two rows exchange a unique value."""
    upstream.execute(
        "BEGIN",
        "UPDATE seen.u SET v = NULL WHERE id = 1",
        "UPDATE seen.u SET v = 1 WHERE id = 2",
        "UPDATE seen.u SET v = 2 WHERE id = 1",
        "COMMIT",
    )
    cluster.wait_synced("seen")
    seen = Scrape(worker)
    assert seen.value("dm_syncer_finished_jobs", target_table="u", type="update") == 3
    assert seen.value("dm_syncer_conflict_sets") == 1
    assert seen.value("dm_syncer_conflict_rows") == 2
    assert seen.value("dm_syncer_conflict_detect_duration_count") >= 1


def _errors(cluster: Cluster, worker: str, upstream: MariaDBServer, target: MariaDBServer) -> None:
    """A replication and a load that end with an error: their metrics remain."""
    target.execute("DELETE FROM seen.t WHERE id = 1", "INSERT INTO seen.t (id, v) VALUES (77777, 'in the way')")
    upstream.execute("INSERT INTO seen.t (id, v) VALUES (77777, 'upstream')")
    cluster.wait_stage("seen", "Paused", unit="Sync")
    seen = Scrape(worker)
    assert seen.value("dm_syncer_exit_with_error_count", source_id="s1", task="seen", resumable_err="false") == 1
    assert seen.value("dm_worker_task_state", task="seen") == 3
    cluster.ok("stop-task", "seen")
    target.execute(
        "DROP TABLE seen.t", "DROP TABLE seen.k", "TRUNCATE TABLE seen.u", "INSERT INTO seen.u VALUES (2, 9)"
    )
    path = cluster.write_task(TASK.format(port=target.port))
    cluster.ok("start-task", "--remove-meta", path)
    cluster.wait_stage("seen", "Paused", unit="Load")
    seen = Scrape(worker)
    assert seen.value("dm_loader_exit_with_error_count", source_id="s1", task="seen") == 1
    total = seen.value("dm_loader_total_bytes", task="seen")
    assert 0 <= seen.value("dm_loader_finished_bytes", task="seen") < total
    assert 0 <= seen.value("dm_loader_progress", task="seen") < 1
