"""Grafana's dashboards for a cluster, a task and a worker, as tables of panels. ``make dashboards`` writes their JSON.

What may have no series (errors, locks, relays) is shown as 0 or left out by the query itself, so that an empty panel
means that something is wrong with the monitoring.
"""

from __future__ import annotations

from pathlib import Path

from deploy.monitoring.grafana_json import Dashboard, Panel, Query, as_json

FOLDER = Path(__file__).parent / "grafana" / "dashboards"
_TASK = 'task=~"$task",source_id=~"$source"'
_HERE = 'instance=~"$instance"'


def _rate(metric: str, labels: str = _TASK, by: str = "task, source_id") -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def _mean(histogram: str, labels: str = _TASK, by: str = "task, source_id") -> str:
    """The mean of a histogram's values; nothing while there are none."""
    return f"{_rate(histogram + '_sum', labels, by)} / ({_rate(histogram + '_count', labels, by)} > 0)"


def _quantile(histogram: str, quantile: float, labels: str = _TASK) -> str:
    return f"histogram_quantile({quantile}, sum by (le) (rate({histogram}_bucket{{{labels}}}[$__rate_interval])))"


def _stat(title: str, expr: str, unit: str = "none", text: str = "") -> Panel:
    return Panel(title, unit, (Query(expr),), text, kind="stat", width=4)


_TABLE_LABELS = "target_schema, target_table"
_ROWS = _TASK + ',type!="ddl"'
_BUSIEST = f"topk(10, {_rate('dm_syncer_finished_jobs_total', _ROWS, _TABLE_LABELS)})"
_SPARKS_SHARE = (
    f"1 - {_rate('dm_syncer_busy_seconds_total')} / ({_rate('dm_syncer_job_seconds_total')} > 0) or vector(0)"
)

OVERVIEW = Dashboard(
    "dm-overview",
    "DM: overview",
    (),
    (
        (
            "Now",
            (
                _stat("Masters that answer", "count(dm_master_start_leader_counter)"),
                _stat("Leaders", "sum(dm_master_start_leader_counter)"),
                _stat("Workers with a source", "count(dm_master_worker_state == 2) or vector(0)"),
                _stat("Workers offline", "count(dm_master_worker_state == 0) or vector(0)"),
                _stat("Tasks paused", "count(dm_worker_task_state == 3) or vector(0)", text="By task and source."),
                _stat("Greatest lag", "max(dm_syncer_replication_lag_gauge)", "s"),
            ),
        ),
        (
            "Tasks",
            (
                Panel(
                    "Lag",
                    "s",
                    (Query("max by (task, source_id) (dm_syncer_replication_lag_gauge)", "{{task}} {{source_id}}"),),
                ),
                Panel(
                    "Row changes",
                    "ops",
                    (Query(_rate("dm_syncer_row_changes_total", ""), "{{task}} {{source_id}}"),),
                    "Of the upstream, applied per second.",
                ),
                Panel(
                    "Stage of tasks",
                    "none",
                    (Query("max by (task, source_id) (dm_worker_task_state)", "{{task}} {{source_id}}"),),
                    "2 running, 3 paused, 5 finished.",
                ),
                Panel(
                    "What tasks wait for",
                    "none",
                    (Query("sum by (reason) (dm_syncer_lag_reason)", "{{reason}}"),),
                    "How many tasks wait for each; source_idle is nothing to do.",
                    stacked=True,
                ),
                Panel(
                    "Errors in the last 30 minutes",
                    "none",
                    (
                        Query("sum(increase(dm_dumpling_exit_with_error_count[30m])) or vector(0)", "dump"),
                        Query("sum(increase(dm_loader_exit_with_error_count[30m])) or vector(0)", "load"),
                        Query("sum(increase(dm_syncer_exit_with_error_count[30m])) or vector(0)", "sync"),
                        Query("sum(increase(dm_relay_exit_with_error_count[30m])) or vector(0)", "relay"),
                    ),
                ),
                Panel(
                    "Locks of shard DDL",
                    "none",
                    (Query("sum by (task, type) (dm_master_ddl_state_number) or vector(0)", "{{task}} {{type}}"),),
                ),
            ),
        ),
        (
            "Masters and etcd",
            (
                Panel("CPU of masters", "percent", (Query("dm_master_cpu_usage", "{{instance}}"),)),
                Panel("etcd has a leader", "none", (Query("etcd_server_has_leader", "{{instance}}"),)),
                Panel(
                    "etcd: 99 % of writes to disk take less than",
                    "s",
                    (
                        Query(
                            "histogram_quantile(0.99, sum by (instance, le)"
                            " (rate(etcd_disk_wal_fsync_duration_seconds_bucket[$__rate_interval])))",
                            "{{instance}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)

TASK = Dashboard(
    "dm-task",
    "DM: task",
    (
        ("task", "label_values(dm_worker_task_state, task)"),
        ("source", 'label_values(dm_worker_task_state{task=~"$task"}, source_id)'),
    ),
    (
        (
            "Replication",
            (
                Panel(
                    "Lag",
                    "s",
                    (Query(f"max by (task, source_id) (dm_syncer_replication_lag_gauge{{{_TASK}}})", "{{source_id}}"),),
                ),
                Panel(
                    "What it waits for",
                    "none",
                    (Query(f"sum by (reason) (dm_syncer_lag_reason{{{_TASK}}})", "{{reason}}"),),
                    stacked=True,
                ),
                Panel(
                    "Time until the upstream's end",
                    "s",
                    (
                        Query(
                            f"max by (source_id) (dm_syncer_remaining_time{{{_TASK}}}) or vector(0)",
                            "{{source_id}}",
                        ),
                    ),
                ),
                Panel(
                    "Row changes by kind",
                    "ops",
                    (Query(_rate("dm_syncer_finished_jobs_total", by="type"), "{{type}}"),),
                    stacked=True,
                ),
                Panel(
                    "Row changes by table",
                    "ops",
                    (
                        Query(
                            _BUSIEST,
                            "{{target_schema}}.{{target_table}}",
                        ),
                    ),
                    "The ten busiest target tables.",
                ),
                Panel(
                    "Changes and written rows",
                    "ops",
                    (
                        Query(_rate("dm_syncer_row_changes_total"), "changes {{source_id}}"),
                        Query(_rate("dm_syncer_written_rows_total"), "written {{source_id}}"),
                        Query(_rate("dm_syncer_compacted_rows_total"), "compacted {{source_id}}"),
                    ),
                ),
                Panel(
                    "Binlog file",
                    "none",
                    (Query(f"max by (node, source_id) (dm_syncer_binlog_file{{{_TASK}}})", "{{node}} {{source_id}}"),),
                    "Of the upstream (master) and of the checkpoint (syncer).",
                ),
                Panel(
                    "Transactions of the upstream",
                    "ops",
                    (Query(_rate("dm_syncer_finished_transaction_total"), "{{source_id}}"),),
                ),
                Panel(
                    "Held back for shard DDL",
                    "none",
                    (
                        Query(f"max by (source_id) (dm_syncer_held_rows{{{_TASK}}})", "rows {{source_id}}"),
                        Query(f"max by (source_id) (dm_syncer_shard_lock_resolving{{{_TASK}}})", "waits {{source_id}}"),
                    ),
                ),
            ),
        ),
        (
            "Where the time goes",
            (
                Panel(
                    "Main loop",
                    "percentunit",
                    (Query(_rate("dm_syncer_thread_seconds_total", _TASK + ',thread="main"', "stage"), "{{stage}}"),),
                    stacked=True,
                ),
                Panel(
                    "Reader",
                    "percentunit",
                    (Query(_rate("dm_syncer_thread_seconds_total", _TASK + ',thread="reader"', "stage"), "{{stage}}"),),
                    stacked=True,
                ),
                Panel(
                    "Stages of batches",
                    "s",
                    (Query(_rate("dm_syncer_stage_seconds_total", by="stage"), "{{stage}}"),),
                    "Seconds of all tasks per second: several tasks work side by side.",
                    stacked=True,
                ),
                Panel("Bytes by stage", "Bps", (Query(_rate("dm_syncer_stage_bytes_total", by="stage"), "{{stage}}"),)),
                Panel(
                    "Spark's own part of the jobs",
                    "percentunit",
                    (
                        Query(
                            _SPARKS_SHARE,
                            "{{source_id}}",
                        ),
                    ),
                ),
                Panel(
                    "Batches",
                    "ops",
                    (
                        Query(_rate("dm_syncer_batches_total", by="size"), "{{size}}"),
                        Query(_rate("dm_syncer_batch_retries_total", by="task"), "tried again"),
                    ),
                ),
            ),
        ),
        (
            "Target",
            (
                Panel(
                    "Transactions at the target",
                    "s",
                    (
                        Query(_quantile("dm_syncer_txn_duration_time", 0.5), "half take less than"),
                        Query(_quantile("dm_syncer_txn_duration_time", 0.99), "99 % take less than"),
                    ),
                ),
                Panel(
                    "Statements",
                    "s",
                    (
                        Query(
                            _mean("dm_syncer_stmt_duration_time", 'task=~"$task"', "type") + " or vector(0)", "{{type}}"
                        ),
                    ),
                    "Mean duration.",
                ),
                Panel(
                    "Rows and statements of a transaction",
                    "none",
                    (Query(_mean("dm_syncer_replication_transaction_batch", by="type") + " or vector(0)", "{{type}}"),),
                ),
                Panel(
                    "Conflict sets",
                    "ops",
                    (
                        Query(_rate("dm_syncer_conflict_sets_total"), "sets {{source_id}}"),
                        Query(_rate("dm_syncer_conflict_rows_total"), "rows {{source_id}}"),
                    ),
                ),
                Panel(
                    "Between two checkpoints",
                    "s",
                    (Query(_mean("dm_syncer_flush_checkpoints_time_interval") + " or vector(0)", "{{source_id}}"),),
                ),
                Panel(
                    "DDL statements",
                    "ops",
                    (Query(_rate("dm_syncer_finished_jobs_total", _TASK + ',type="ddl"'), "{{source_id}}"),),
                ),
            ),
        ),
        (
            "Full copy",
            (
                Panel(
                    "Progress",
                    "percentunit",
                    (
                        Query(
                            f"max by (source_id) (dm_dumpling_progress{{{_TASK}}}) or vector(0)", "dump {{source_id}}"
                        ),
                        Query(f"max by (source_id) (dm_loader_progress{{{_TASK}}}) or vector(0)", "load {{source_id}}"),
                    ),
                    "0 when there is no copy.",
                ),
                Panel(
                    "Speed",
                    "Bps",
                    (
                        Query(
                            f"max by (source_id) (dm_dumpling_bytes_per_second{{{_TASK}}}) or vector(0)",
                            "dump {{source_id}}",
                        ),
                        Query(
                            f"max by (source_id) (dm_loader_bytes_per_second{{{_TASK}}}) or vector(0)",
                            "load {{source_id}}",
                        ),
                    ),
                ),
                Panel(
                    "Time until the load is done",
                    "s",
                    (Query(f"max by (source_id) (dm_loader_remaining_time{{{_TASK}}}) or vector(0)", "{{source_id}}"),),
                ),
            ),
        ),
    ),
)

WORKER = Dashboard(
    "dm-worker",
    "DM: worker",
    (("instance", "label_values(dm_worker_cpu_usage, instance)"),),
    (
        (
            "Resources",
            (
                Panel(
                    "CPU of the worker's own process",
                    "percent",
                    (Query(f"dm_worker_cpu_usage{{{_HERE}}}", "{{instance}}"),),
                ),
                Panel(
                    "Memory",
                    "bytes",
                    (Query(f"sum by (part) (dm_worker_memory_bytes{{{_HERE}}})", "{{part}}"),),
                    stacked=True,
                ),
                Panel(
                    "Held events",
                    "bytes",
                    (Query(f"sum by (part) (dm_syncer_held_bytes{{{_HERE}}})", "{{part}}"),),
                    "Rows events that are read and not applied.",
                    stacked=True,
                ),
                Panel(
                    "Spark's jobs",
                    "ops",
                    (
                        Query(_rate("dm_worker_spark_jobs_total", _HERE, "result"), "{{result}}"),
                        Query(f"sum(dm_worker_spark_jobs_running{{{_HERE}}})", "running"),
                    ),
                ),
                Panel(
                    "Compiled parts",
                    "none",
                    (Query(f"min by (part) (dm_worker_kernel_compiled{{{_HERE}}})", "{{part}}"),),
                    "1 in use, 0 missing or switched off.",
                ),
                Panel(
                    "Operations that failed",
                    "none",
                    (Query(f"sum by (type) (dm_worker_operate_error{{{_HERE}}}) or vector(0)", "{{type}}"),),
                ),
            ),
        ),
        (
            "Tasks",
            (
                Panel(
                    "Stage",
                    "none",
                    (Query(f"max by (task) (dm_worker_task_state{{{_HERE}}})", "{{task}}"),),
                    "2 running, 3 paused, 5 finished.",
                ),
                Panel("Row changes", "ops", (Query(_rate("dm_syncer_row_changes_total", _HERE, "task"), "{{task}}"),)),
                Panel(
                    "From the upstream",
                    "Bps",
                    (Query(_rate("dm_syncer_received_bytes_total", _HERE, "task"), "{{task}}"),),
                    "Bytes of the binlog stream; none with a relay.",
                ),
            ),
        ),
        (
            "Relay log",
            (
                Panel(
                    "Binlog file",
                    "none",
                    (Query(f"max by (node) (dm_relay_binlog_file{{{_HERE}}}) or vector(0)", "{{node}}"),),
                    "Of the upstream (master) and of the relay log; 0 without a relay.",
                ),
                Panel(
                    "Space", "bytes", (Query(f"max by (type) (dm_relay_space{{{_HERE}}}) or vector(0)", "{{type}}"),)
                ),
                Panel(
                    "Written",
                    "Bps",
                    (Query(_rate("dm_relay_write_size_sum", _HERE, "instance") + " or vector(0)", "{{instance}}"),),
                ),
                Panel(
                    "Errors",
                    "none",
                    (
                        Query(f"sum(dm_relay_read_error_count{{{_HERE}}}) or vector(0)", "lost connections"),
                        Query(f"sum(dm_relay_write_error_count{{{_HERE}}}) or vector(0)", "failed writes"),
                        Query(f"sum(dm_relay_data_corruption{{{_HERE}}}) or vector(0)", "damaged events"),
                    ),
                ),
                Panel(
                    "Purge risk",
                    "none",
                    (Query(f"max by (reader) (dm_worker_upstream_purge_risk{{{_HERE}}}) or vector(0)", "{{reader}}"),),
                    "1: the upstream will purge a file that is needed, 2: it has.",
                ),
            ),
        ),
    ),
)

DASHBOARDS = (OVERVIEW, TASK, WORKER)


def main(folder: Path = FOLDER) -> None:
    """Writes all of them."""
    for dashboard in DASHBOARDS:
        (folder / f"{dashboard.uid}.json").write_text(as_json(dashboard))


if __name__ == "__main__":
    main()
