"""Grafana's dashboards for a cluster, a task and a worker, as tables of panels. ``make dashboards`` writes their JSON.

If a metric may have no series (errors, locks, relays), the query itself shows 0 or omits it, so that an empty panel
means a problem with the monitoring.
"""

from __future__ import annotations

from pathlib import Path

from deploy.monitoring.grafana_json import Dashboard, Panel, Query, as_json
from deploy.monitoring.panels import (
    BUSIEST,
    HERE,
    NONE,
    ROWS,
    SPARKS_SHARE,
    STAGES,
    TASK,
    distance,
    mean,
    or_zero,
    panel,
    quantile,
    rate,
    shares,
    stat,
    waits,
)

FOLDER = Path(__file__).parent / "grafana" / "dashboards"
OVERVIEW = Dashboard(
    "dm-overview",
    "DM: overview",
    (),
    (
        (
            "Now",
            (
                stat("Masters that answer", "count(dm_master_start_leader_counter)"),
                stat(
                    "Leaders",
                    "sum(dm_master_start_leader_counter)",
                    text="Exactly one is right.",
                    limits=((0, "red"), (1, "green"), (2, "red")),
                ),
                stat("Workers with a source", f"count(dm_master_worker_state == 2){or_zero()}"),
                stat("Workers offline", f"count(dm_master_worker_state == 0){or_zero()}", limits=NONE),
                stat(
                    "Tasks paused",
                    f"count(dm_worker_task_state == 3){or_zero()}",
                    text="Each source of a task counts.",
                    limits=NONE,
                ),
                stat(
                    "Greatest lag",
                    "max(dm_syncer_replication_lag_gauge)",
                    "s",
                    "Red from 60 s on, as the alert DM_lag_above_objective.",
                    ((60, "red"),),
                ),
            ),
        ),
        (
            "Tasks",
            (
                panel(
                    "Lag",
                    "s",
                    "max by (task, source_id) (dm_syncer_replication_lag_gauge)",
                    "{{task}} {{source_id}}",
                    "How long ago the oldest change that is not applied was committed at the source.",
                ),
                panel(
                    "Row changes per second",
                    "short",
                    rate("dm_syncer_row_changes_total", ""),
                    "{{task}} {{source_id}}",
                    "Of the source, applied at the target.",
                ),
                panel(
                    "Stage of tasks",
                    "none",
                    "max by (task, source_id) (dm_worker_task_state)",
                    "{{task}} {{source_id}}",
                    names=STAGES,
                ),
                waits("What tasks wait for"),
                Panel(
                    "Errors in the last 30 minutes",
                    "none",
                    tuple(
                        Query(f"sum(increase(dm_{unit}_exit_with_error_count[30m])){or_zero()}", name)
                        for unit, name in (
                            ("dumpling", "dump"),
                            ("loader", "load"),
                            ("syncer", "replication"),
                            ("relay", "relay"),
                        )
                    ),
                    "That ended a unit or a relay; auto-resume may have started it again since.",
                    counts=True,
                ),
                panel(
                    "DDL of merged shards that waits",
                    "none",
                    f"sum by (task, type) (dm_master_ddl_state_number){or_zero('task')}",
                    "{{task}} {{type}}",
                    "Locks. Un-synced: for sources that have not run the DDL; Synced: for its execution.",
                    counts=True,
                ),
            ),
        ),
        (
            "Masters and etcd",
            (
                panel("CPU of masters", "percent", "dm_master_cpu_usage", "{{instance}}", "Of one core."),
                panel(
                    "etcd has a leader",
                    "none",
                    "etcd_server_has_leader",
                    "{{instance}}",
                    names=((0, "no"), (1, "yes")),
                ),
                panel(
                    "etcd: 99 % of writes to disk take less than",
                    "s",
                    "histogram_quantile(0.99, sum by (instance, le)"
                    " (rate(etcd_disk_wal_fsync_duration_seconds_bucket[$__rate_interval])))",
                    "{{instance}}",
                    spans=True,
                ),
            ),
        ),
    ),
)

ONE_TASK = Dashboard(
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
                panel(
                    "Lag",
                    "s",
                    f"max by (task, source_id) (dm_syncer_replication_lag_gauge{{{TASK}}})",
                    "{{source_id}}",
                    "How long ago the oldest change that is not applied was committed at the source.",
                ),
                waits("What it waits for", f"{{{TASK}}}"),
                panel(
                    "Time until the source's end is reached",
                    "s",
                    f"max by (source_id) (dm_syncer_remaining_time{{{TASK}}}){or_zero('source_id')}",
                    "{{source_id}}",
                    "At the speed of the last 30 seconds; nothing while the distance does not become less.",
                ),
                panel(
                    "Row changes per second, by kind",
                    "short",
                    rate("dm_syncer_finished_jobs_total", ROWS, "type"),
                    "{{type}}",
                    stacked=True,
                ),
                panel(
                    "Row changes per second, by table",
                    "short",
                    BUSIEST,
                    "{{target_schema}}.{{target_table}}",
                    "The ten busiest target tables.",
                ),
                Panel(
                    "Changes and rows written, per second",
                    "short",
                    (
                        Query(rate("dm_syncer_row_changes_total", by="task"), "changes {{task}}"),
                        Query(rate("dm_syncer_written_rows_total", by="task"), "written {{task}}"),
                        Query(rate("dm_syncer_compacted_rows_total", by="task"), "compacted away {{task}}"),
                    ),
                    "Of several changes of a row in one batch, only the last is written.",
                ),
                panel(
                    "Binlog files behind the source",
                    "none",
                    distance("dm_syncer_binlog_file", TASK, "syncer", "task, source_id"),
                    "{{source_id}}",
                    "From the checkpoint to the source's end.",
                    counts=True,
                ),
                panel(
                    "Transactions of the source, per second",
                    "short",
                    rate("dm_syncer_finished_transaction_total"),
                    "{{source_id}}",
                ),
                panel(
                    "Rows held back for DDL of merged shards",
                    "short",
                    f"max by (source_id) (dm_syncer_held_rows{{{TASK}}}){or_zero('source_id')}",
                    "{{source_id}}",
                    "Changes of shards that have run a DDL which other shards have not run. They are applied after it.",
                    counts=True,
                ),
            ),
        ),
        (
            "Where the time goes",
            (
                shares("Main loop", "main", "job: batches run; waiting: there is nothing to apply."),
                shares("Reader", "reader", "source: there is nothing to read; handing over: the main loop is behind."),
                panel(
                    "Stages of batches",
                    "s",
                    rate("dm_syncer_stage_seconds_total", by="stage"),
                    "{{stage}}",
                    "Seconds of all tasks per second: several tasks work side by side.",
                    stacked=True,
                ),
                panel(
                    "Bytes into stages",
                    "Bps",
                    rate("dm_syncer_stage_bytes_total", by="stage"),
                    "{{stage}}",
                    "decode: events of the binlog; shuffle and compact: the rows made of them.",
                ),
                panel(
                    "Spark's own part of the jobs",
                    "percentunit",
                    SPARKS_SHARE,
                    "{{source_id}}",
                    "Of the jobs' time, the part in which no task of ours worked.",
                    shares=True,
                ),
                Panel(
                    "Batches per second",
                    "short",
                    (
                        Query(rate("dm_syncer_batches_total", by="size"), "{{size}}"),
                        Query(rate("dm_syncer_batch_retries_total", by="task"), "tried again {{task}}"),
                    ),
                    "small: one stage, for a low lag; large: two stages, for a backlog.",
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
                        Query(quantile("dm_syncer_txn_duration_time", 0.5), "half take less than"),
                        Query(quantile("dm_syncer_txn_duration_time", 0.99), "99 % take less than"),
                    ),
                    spans=True,
                ),
                panel(
                    "Mean duration of a statement",
                    "s",
                    mean("dm_syncer_stmt_duration_time", 'task=~"$task"', "type") + or_zero("type"),
                    "{{type}}",
                    "stmt: writes rows; commit: ends a transaction.",
                    spans=True,
                ),
                panel(
                    "Rows and statements per transaction",
                    "short",
                    mean("dm_syncer_replication_transaction_batch", by="type") + or_zero("type"),
                    "{{type}}",
                    "Means.",
                    spans=True,
                ),
                Panel(
                    "Conflicts per second",
                    "short",
                    (
                        Query(rate("dm_syncer_conflict_sets_total", by="task"), "sets {{task}}"),
                        Query(rate("dm_syncer_conflict_rows_total", by="task"), "rows {{task}}"),
                    ),
                    "Rows with different keys that had to keep their order: unique keys, foreign keys.",
                    counts=True,
                ),
                panel(
                    "Between two checkpoints",
                    "s",
                    mean("dm_syncer_flush_checkpoints_time_interval") + or_zero("source_id"),
                    "{{source_id}}",
                    "Mean.",
                    spans=True,
                ),
                panel(
                    "DDL statements in a minute",
                    "short",
                    f'sum by (task, source_id) (increase(dm_syncer_finished_jobs_total{{{TASK},type="ddl"}}[1m]))',
                    "{{source_id}}",
                ),
            ),
        ),
        (
            "Validation",
            (
                panel(
                    "Rows that differ",
                    "short",
                    f"max by (source_id) (dm_validator_validator_error_count{{{TASK}}}){or_zero('source_id')}",
                    "{{source_id}}",
                    "Errors that are neither resolved nor ignored; 0 also without a validation.",
                    counts=True,
                ),
                panel(
                    "Behind the syncer, in a binlog file",
                    "bytes",
                    f"max by (source_id) (dm_validator_validator_logpos_latency{{{TASK}}}){or_zero('source_id')}",
                    "{{source_id}}",
                    "What is applied and not compared yet.",
                ),
                panel(
                    "Binlog files behind the syncer",
                    "none",
                    f"max by (source_id) (dm_validator_validator_logfile_latency{{{TASK}}}){or_zero('source_id')}",
                    "{{source_id}}",
                    "More for long: the target is away, or the validation is slower than the replication.",
                    counts=True,
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
                            f"max by (source_id) (dm_dumpling_progress{{{TASK}}}){or_zero('source_id')}",
                            "dump {{source_id}}",
                        ),
                        Query(
                            f"max by (source_id) (dm_loader_progress{{{TASK}}}){or_zero('source_id')}",
                            "load {{source_id}}",
                        ),
                    ),
                    "0 when there is no copy; each part leaves when it is done.",
                    shares=True,
                ),
                Panel(
                    "Speed",
                    "Bps",
                    (
                        Query(
                            f"max by (source_id) (dm_dumpling_bytes_per_second{{{TASK}}}){or_zero('source_id')}",
                            "dump {{source_id}}",
                        ),
                        Query(
                            f"max by (source_id) (dm_loader_bytes_per_second{{{TASK}}}){or_zero('source_id')}",
                            "load {{source_id}}",
                        ),
                    ),
                ),
                panel(
                    "Time until the load is done",
                    "s",
                    f"max by (source_id) (dm_loader_remaining_time{{{TASK}}}){or_zero('source_id')}",
                    "{{source_id}}",
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
                panel(
                    "CPU of the worker's own process",
                    "percent",
                    f"dm_worker_cpu_usage{{{HERE}}}",
                    "{{instance}}",
                    "Of one core; without Spark's processes.",
                ),
                panel(
                    "Memory",
                    "bytes",
                    f"sum by (part) (dm_worker_memory_bytes{{{HERE}}})",
                    "{{part}}",
                    "worker: its own process; jvm: Spark; tasks: Spark's Python processes.",
                    stacked=True,
                ),
                panel(
                    "Events read and not applied",
                    "bytes",
                    f"sum by (part) (dm_syncer_held_bytes{{{HERE}}})",
                    "{{part}}",
                    "queue: batches that wait; reader: what is not a batch yet.",
                    stacked=True,
                ),
                Panel(
                    "Spark's jobs per second",
                    "short",
                    (Query(rate("dm_worker_spark_jobs_total", HERE, "result"), "{{result}}"),),
                ),
                panel(
                    "Spark's jobs that run",
                    "none",
                    f"sum by (instance) (dm_worker_spark_jobs_running{{{HERE}}})",
                    "{{instance}}",
                    counts=True,
                ),
                panel(
                    "Compiled parts",
                    "none",
                    f"min by (part) (dm_worker_kernel_compiled{{{HERE}}})",
                    "{{part}}",
                    "A part that is missing or switched off makes a worker many times slower.",
                    names=((0, "not in use"), (1, "in use")),
                ),
            ),
        ),
        (
            "Tasks",
            (
                panel("Stage", "none", f"max by (task) (dm_worker_task_state{{{HERE}}})", "{{task}}", names=STAGES),
                panel(
                    "Row changes per second",
                    "short",
                    rate("dm_syncer_row_changes_total", HERE, "task"),
                    "{{task}}",
                ),
                panel(
                    "Binlog from the source",
                    "Bps",
                    rate("dm_syncer_received_bytes_total", HERE, "task"),
                    "{{task}}",
                    "That tasks read themselves; nothing with a relay.",
                ),
                panel(
                    "Operations that failed",
                    "none",
                    f"sum by (type) (dm_worker_operate_error{{{HERE}}}){or_zero('type')}",
                    "{{type}}",
                    "Since the worker's start.",
                    counts=True,
                    width=12,
                ),
                panel(
                    "Purge risk",
                    "none",
                    f"max by (reader) (dm_worker_upstream_purge_risk{{{HERE}}}){or_zero('reader')}",
                    "{{reader}}",
                    "Whether the source purges a binlog file that a task or the relay still needs.",
                    width=12,
                    names=((0, "none"), (1, "it will"), (2, "it has")),
                ),
            ),
        ),
        (
            "Relay log",
            (
                panel(
                    "Binlog files behind the source",
                    "none",
                    distance("dm_relay_binlog_file", HERE, "relay", "instance"),
                    "{{instance}}",
                    "0 without a relay.",
                    counts=True,
                    width=6,
                ),
                panel(
                    "Disk",
                    "bytes",
                    f"max by (instance, type) (dm_relay_space{{{HERE}}}){or_zero('type')}",
                    "{{type}} {{instance}}",
                    "That holds the relay log.",
                    width=6,
                ),
                panel(
                    "Written",
                    "Bps",
                    rate("dm_relay_write_size_sum", HERE, "instance") + or_zero("instance"),
                    "{{instance}}",
                    width=6,
                ),
                Panel(
                    "Errors",
                    "none",
                    tuple(
                        Query(f"sum(dm_relay_{name}{{{HERE}}}){or_zero()}", text)
                        for name, text in (
                            ("read_error_count", "lost connections"),
                            ("write_error_count", "failed writes"),
                            ("data_corruption", "damaged events"),
                        )
                    ),
                    "Since the relay's start.",
                    counts=True,
                    width=6,
                ),
            ),
        ),
    ),
)

DASHBOARDS = (OVERVIEW, ONE_TASK, WORKER)


def main(folder: Path = FOLDER) -> None:
    """Writes all dashboards."""
    for dashboard in DASHBOARDS:
        (folder / f"{dashboard.uid}.json").write_text(as_json(dashboard))


if __name__ == "__main__":
    main()
