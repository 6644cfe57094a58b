"""Hazard: a dashboard made for DM asks for a name or a label that is not there."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families

from dm_master.master_metrics import MasterMetrics
from dm_worker.engine.engine_figures import EngineFigures
from dm_worker.relay.source_relay import SourceRelay
from dm_worker.source.validator_collector import ValidatorCollector
from dm_worker.source.worker_metrics import WorkerMetrics
from dm_worker.syncer.figures.batch_report import (
    BucketFigures,
    BucketReport,
    ConflictReport,
    SliceReport,
    TaskTimes,
    batch_report,
)
from dm_worker.syncer.figures.sync_figures import BatchSize, SyncFigures
from pkg.pb import dmworker_pb2 as pb
from pkg.process.metrics import Distribution, Metrics
from tests.unit.dm_worker.source.support import sharded

ROOT = Path(__file__).resolve().parents[4]
_T, _W, _S = "task", "worker", "source_id"
_JOBS = {"type", _T, "queueNo", _S, _W, "target_schema", "target_table"}
_EXIT = {_T, _S, "resumable_err"}
#: As DM's documentation and source have them.
DM: dict[str, set[str]] = {
    "dm_master_worker_state": {_W},
    "dm_master_cpu_usage": set(),
    "dm_master_ddl_state_number": {_T, "type"},
    "dm_master_shard_ddl_error": {_T, "type"},
    "dm_master_worker_event_error": {"type"},
    "dm_master_start_leader_counter": set(),
    "dm_worker_task_state": {_T, _S, _W},
    "dm_worker_operate_error": {_W, "type"},
    "dm_worker_cpu_usage": set(),
    "dm_dumpling_exit_with_error_count": _EXIT,
    "dumpling_dump_finished_tables": {_T, _S},
    "dm_loader_exit_with_error_count": _EXIT,
    "dm_relay_binlog_pos": {"node"},
    "dm_relay_binlog_file": {"node"},
    "dm_relay_sub_dir_index": {"node", "uuid"},
    "dm_relay_space": {"type"},
    "dm_relay_data_corruption": set(),
    "dm_relay_write_size": set(),
    "dm_relay_write_duration": set(),
    "dm_relay_write_error_count": set(),
    "dm_relay_read_error_count": set(),
    "dm_relay_read_binlog_duration": set(),
    "dm_relay_read_transform_duration": set(),
    "dm_relay_exit_with_error_count": {"resumable_err"},
    "dm_syncer_read_binlog_duration": {_T, _S},
    "dm_syncer_binlog_event_size": {_T, _W, _S},
    "dm_syncer_binlog_transform_cost": {"stage", _T, _W, _S},
    "dm_syncer_conflict_detect_duration": {_T, _S},
    "dm_syncer_add_job_duration": {"type", _T, "queueNo", _S},
    "dm_syncer_dispatch_binlog_duration": {"type", _T, _S},
    "dm_syncer_skip_binlog_duration": {"type", _T, _S},
    "dm_syncer_added_jobs_total": _JOBS,
    "dm_syncer_finished_jobs_total": _JOBS,
    "dm_syncer_ideal_qps": {_T, _W, _S},
    "dm_syncer_queue_size": {_T, "queue_id", _S},
    "dm_syncer_binlog_pos": {"node", _T, _S},
    "dm_syncer_binlog_file": {"node", _T, _S},
    "dm_syncer_binlog_event_row": {_W, _T, _S},
    "dm_syncer_txn_duration_time": {_T, _W, _S},
    "dm_syncer_query_duration_time": {_T, _W, _S},
    "dm_syncer_stmt_duration_time": {"type", _T},
    "dm_syncer_exit_with_error_count": _EXIT,
    "dm_syncer_replication_lag_gauge": {_T, _S, _W},
    "dm_syncer_replication_lag": {_T, _S, _W},
    "dm_syncer_remaining_time": {_T, _S, _W},
    "dm_syncer_unsynced_table_number": {_T, "table", _S},
    "dm_syncer_shard_lock_resolving": {_T, _S},
    "dm_syncer_finished_transaction_total": {_T, _W, _S},
    "dm_syncer_replication_transaction_batch": {_W, _T, _S, "queueNo", "type"},
    "dm_syncer_flush_checkpoints_time_interval": {_W, _T, _S},
    "dm_validator_validator_error_count": {_T, _S},
    "dm_validator_validator_logpos_latency": {_T, _S},
    "dm_validator_validator_logfile_latency": {_T, _S},
    "dm_validator_validator_binlog_pos": {_T, _S},
    "dm_validator_validator_binlog_file": {_T, _S},
}


def busy_figures() -> SyncFigures:
    """Of a task that has replicated a batch."""
    figures = SyncFigures()
    figures.began()
    figures.reading.reads()
    figures.reading.has_read(something=True)
    figures.reading.has_planned()
    figures.reading.events(3, 300)
    times = TaskTimes(1.0, 2.0, {"decode": 0.1, "shuffle": 0.1, "compact": 0.1, "write": 0.7})
    bucket = BucketFigures(3, BucketReport(times, 50, 2, 0.1), 2, 0.0)
    slices = [SliceReport(times, {1: (1, 1, 1)}, 300, 50)]
    report = batch_report(1.5, slices, [ConflictReport(0.1, 1, 2)], [bucket])
    figures.applying.applied(report, {1: ("d", "t")}, BatchSize(2, 3), kind="small", workers=1)
    figures.applying.flushed(1.0)
    figures.applying.flushed(2.0)
    figures.lag.add(0.0)
    figures.remaining = 0.0
    figures.sample()
    return figures


def _relay(folder: Path) -> SourceRelay:
    status = pb.RelayStatus(masterBinlog="(b.000002, 4)", relayBinlog="(b.000001, 4)", relaySubDir="u.000001")
    some = Distribution(1, 2)
    blocks = SimpleNamespace(errors=0, size=some, write=some, read=some, transform=some)
    counts = SimpleNamespace(corruption=0, read_errors=0, blocks=blocks, exits={True: 1})
    relay = SimpleNamespace(status=lambda: status, counts=counts, folder=SimpleNamespace(path=folder))
    return cast(SourceRelay, cast(Any, relay))


def worker_text(folder: Path) -> str:
    """What a worker shows that has a relay, merges shards, has failed once, and dumps and loads at once."""
    metrics = WorkerMetrics(Metrics(), "w1")
    copies = [
        pb.SubTaskStatus(name="t2", dump=pb.DumpStatus(progress="12.50 %")),
        pb.SubTaskStatus(name="t3", load=pb.LoadStatus(progress="0.00 %", totalBytes=4, bps=2)),
    ]
    merged = sharded(waiting=True)
    merged.sync.masterBinlog = merged.sync.syncerBinlog
    merged.validation.CopyFrom(
        pb.ValidationStatus(validatorBinlog="(bin.000002, 4)", errorRowsStatus="new/ignored/resolved: 3/1/0")
    )
    metrics.expose(lambda: ("s1", [merged, *copies]))
    figures = busy_figures()
    metrics.follow_figures(lambda: ("s1", [("t1", figures)]))
    metrics.follow_engine(lambda: EngineFigures(1, 0, 0, 0, {"worker": 1}))
    metrics.follow_relay(lambda: _relay(folder))
    metrics.task_state("s1", "t1", pb.Running)
    metrics.operate_error("Create")
    for unit in (pb.Dump, pb.Load, pb.Sync):
        metrics.unit_failed(unit, "t1", "s1", may_resume=True)
    return metrics.metrics.render().decode()


def master_text() -> str:
    """What a leader shows that has a worker, a lock, and both kinds of errors."""
    metrics = MasterMetrics(lambda: {"w1": "bound"}, lambda: {("t1", "Synced"): 1}, lambda: True)
    metrics.ddl_error("t1", "conflict")
    metrics.worker_event_error("watch")
    return metrics.metrics.render().decode()


def _labels(text: str) -> dict[str, set[str]]:
    """Each family's labels, under the name that the text has."""
    declared = {
        line.split()[2].removesuffix("_total"): line.split()[2] for line in text.splitlines() if "# TYPE" in line
    }
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[declared[family.name.removesuffix("_total")]] = labels
    return found


def test_all_of_dms_names_are_there_with_its_labels(tmp_path: Path) -> None:
    assert len(DM) == 55
    found = _labels(worker_text(tmp_path)) | _labels(master_text())
    assert {name: found.get(name) for name in DM} == DM


def test_every_family_says_what_it_is(tmp_path: Path) -> None:
    for text in (worker_text(tmp_path), master_text()):
        helped = re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE)
        typed = re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram)$", text, re.MULTILINE)
        assert helped == typed
        series = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"^(\w+)[{ ]", text, re.MULTILINE)}
        assert {re.sub(r"_count$", "", name) for name in typed} >= {re.sub(r"_count$", "", name) for name in series}


def test_the_page_has_a_line_for_each_name_and_no_other(tmp_path: Path) -> None:
    exported = set(_labels(worker_text(tmp_path))) | set(_labels(master_text())) | {
        "dm_worker_upstream_purge_risk", "dm_worker_upstream_purge_seconds_left", "etcd_server_has_leader",
    }  # fmt: skip
    own = {name for name in exported if not name.startswith(("process_", "python_"))}
    page = (ROOT / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `((?:dm|dumpling|etcd)_\w+)` \|", page, re.MULTILINE))
    assert documented == own


def test_the_validator_is_compared_with_the_syncers_checkpoint(tmp_path: Path) -> None:
    def values(validator: str, syncer: str) -> dict[str, float]:
        status = pb.SubTaskStatus(name="t", sync=pb.SyncStatus(syncerBinlog=syncer))
        counts = "new/ignored/resolved: 3/1/2"
        status.validation.CopyFrom(pb.ValidationStatus(validatorBinlog=validator, errorRowsStatus=counts))
        found = ValidatorCollector(lambda: ("s", [status])).collect()
        return {one.name.rpartition("validator_")[2]: one.samples[0].value for one in found if one.samples}

    here = {"error_count": 3, "binlog_pos": 40, "binlog_file": 2}
    assert values("(b.000002, 40)", "(b.000002, 50)") == {**here, "logpos_latency": 10, "logfile_latency": 0}
    assert values("(b.000002, 40)", "(b.000004, 4)") == {**here, "logpos_latency": 0, "logfile_latency": 2}
    assert values("(b.000002, 40)", "") == here
    assert values("", "(b.000004, 4)") == {"error_count": 3}
