"""Hazard: at night, a page names no one who must act, hides that rows differ, or shows an error in a program's form."""

from __future__ import annotations

from dm_master.console.snapshot import ClusterReader
from dm_master.console.view.checks import comparison_view, validation_view
from dm_master.console.view.findings import findings
from dm_master.console.view.overview import overview
from dm_master.console.view.progress import progress, subtask_health
from dm_master.console.view.task_page import task_page
from dm_master.precheck.result import CheckFinding, CheckResult, conclude
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from tests.harness.canned_cluster import CannedCluster, copying, replicating
from tests.unit.dm_master.console.support import ConsoleBrowser

_REFUSED = errors.new(Code.DiffRefused, "task t was never compared", workaround="`dmctl diff start t` starts one.")


def _notes(subtask: worker_pb.SubTaskStatus) -> list[str]:
    cluster = CannedCluster()
    cluster.add_source("one").subTaskStatus.append(subtask)
    view = task_page(ClusterReader(cluster.call).read(), subtask.name, 1)
    assert view is not None
    return [note for part in view.subtasks.items for note in part.notes]


def test_a_page_shows_what_to_do_about_its_problem(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    problem = errors.new(Code.ConfigYamlTransform, "it is wrong", workaround="Write it anew.")
    cluster.answers["GetCfg"] = pb.GetCfgResponse(msg=str(problem))
    page = browser.get("config", kind="task", name="t").body.decode()
    assert "20003: it is wrong" in page
    assert "<b>What to do:</b> Write it anew." in page
    assert "class=config" not in page


def test_a_cause_that_the_message_has_is_shown_once(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    problem = errors.new(Code.DBDriverError, "cannot connect: refused", raw="refused")
    cluster.answers["GetCfg"] = pb.GetCfgResponse(msg=str(problem))
    assert browser.get("config", kind="task", name="t").body.decode().count("refused") == 1


def test_the_result_of_a_refused_order_says_what_to_do(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    refused = worker_pb.CommonWorkerResponse(source="one", msg=str(_REFUSED))
    cluster.answers["OperateTask"] = pb.OperateTaskResponse(result=True, sources=[refused])
    browser.log_in()
    page = browser.post("do", token=browser.token(), do="pause", task="orders").body.decode()
    assert "<b>What to do:</b> `dmctl diff start t` starts one." in page
    assert "scope=" not in page


def test_a_target_that_does_not_answer_is_a_finding_of_the_target() -> None:
    error = errors.new(Code.DBDriverError, "cannot connect", scope="downstream", workaround="Check the port.")
    finding = CheckFinding("fail", str(error), "Check the port.")
    view = findings(False, conclude([CheckResult("connection check", "", (finding,))]).text)
    (shown,) = view.by_field["target"]
    assert (shown.text, shown.advice) == ("10001: cannot connect", "Check the port.")


def test_a_task_that_was_never_compared_says_so_once() -> None:
    sources = [worker_pb.DiffSourceStatus(source=name, msg=str(_REFUSED)) for name in ("one", "two")]
    view = comparison_view(pb.OperateDiffResponse(verdict="not compared", sources=sources), 1)
    assert (view.problem, view.verdict, view.sources) == ("task t was never compared", "", [])
    assert view.operations == ["start-diff"]


def test_a_source_that_was_not_compared_has_no_figures() -> None:
    done = worker_pb.DiffSourceStatus(result=True, source="one", stage="Finished", rows=3, totalRows=3)
    silent = worker_pb.DiffSourceStatus(source="two", msg="the worker does not answer")
    first, second = comparison_view(pb.OperateDiffResponse(verdict="not compared", sources=[done, silent]), 1).sources
    assert first.rows == "3 of about 3 rows, 0 B"
    assert (second.stage, second.rows, second.message) == ("not compared", "", "the worker does not answer")


def test_rows_that_differ_are_seen_from_the_list_of_tasks_on() -> None:
    subtask = replicating("t")
    subtask.validation.CopyFrom(worker_pb.ValidationStatus(errorRowsStatus="new/ignored/resolved: 0/4/5"))
    assert subtask_health(subtask) == "good"
    subtask.validation.errorRowsStatus = "new/ignored/resolved: 3/4/5"
    assert subtask_health(subtask) == "warn"
    assert any("3 rows differ" in note for note in _notes(subtask))
    cluster = CannedCluster()
    cluster.add_source("one").subTaskStatus.append(subtask)
    (line,) = overview(ClusterReader(cluster.call).read(), "", 1).tasks.items
    assert (line.health, line.progress) == ("warn", "3 rows differ from the upstream")


def test_a_validator_s_counts_are_numbers_with_words() -> None:
    status = worker_pb.ValidationStatus(
        source="one",
        stage=worker_pb.Running,
        mode="full",
        processedRowsStatus="insert/update/delete: 3000/2/1",
        pendingRowsStatus="insert/update/delete: 2/0/0",
        errorRowsStatus="new/ignored/resolved: 1/0/2",
    )
    answer = worker_pb.GetValidationStatusResponse(result=True, validators=[status])
    (view,) = validation_view(answer, worker_pb.GetValidationErrorResponse(), 1).validators
    figures = {one.name: (one.value, one.note, one.health) for one in view.figures}
    assert figures["rows compared"] == ("3,003", "3,000 insert, 2 update, 1 delete", "good")
    assert figures["not compared yet"][0] == "2"
    assert figures["differ"] == ("1", "1 new, 0 ignored, 2 resolved", "bad")


def _group(**fields: object) -> worker_pb.SubTaskStatus:
    subtask = replicating("t")
    subtask.sync.unresolvedGroups.add(target="`shop`.`a`", **fields)  # type: ignore[arg-type]
    return subtask


def test_a_source_whose_tables_all_have_a_ddl_waits_for_other_sources() -> None:
    subtask = _group(DDLs=["ALTER TABLE a"], synced=["`s1`.`a`"], heldRows=3)
    assert _notes(subtask) == ["`shop`.`a` waits for other sources: ALTER TABLE a (3 rows held back)"]
    assert progress(subtask).text == "waits for shards of `shop`.`a`"


def test_a_source_waits_for_its_own_tables() -> None:
    subtask = _group(DDLs=["ALTER TABLE a"], synced=["`s1`.`a`"], unsynced=["`s2`.`a`", "`s3`.`a`"], heldRows=1)
    assert _notes(subtask) == ["`shop`.`a` waits for `s2`.`a`, `s3`.`a`: ALTER TABLE a (1 row held back)"]


def test_a_source_that_has_not_sent_a_ddl_replicates_and_is_the_one_to_act() -> None:
    subtask = _group(unsynced=["this DM-worker doesn't receive any shard DDL of this group"])
    (note,) = _notes(subtask)
    assert note == "Other sources wait until this one sends their DDL of `shop`.`a`."
    assert progress(subtask).text == "in step with the upstream"
    assert subtask_health(subtask) == "warn"


def test_a_hold_is_said_once() -> None:
    subtask = replicating("t")
    subtask.sync.held = "held at (bin.000001, 4) for at most 10 s more"
    assert progress(subtask).text == subtask.sync.held


def test_a_copy_has_no_curves_of_replication() -> None:
    cluster = CannedCluster()
    cluster.add_source("one").subTaskStatus.extend([copying("copy"), replicating("sync")])
    reader = ClusterReader(cluster.call)
    reader.read()
    assert set(reader.read().curves) == {"sync"}


def test_a_stopped_task_is_not_paused() -> None:
    subtask = replicating("t")
    subtask.stage, subtask.result.isCanceled = worker_pb.Stopped, True
    assert _notes(subtask) == ["Stopped: it is kept, and continues when it is resumed."]


def test_a_stopped_task_is_listed_and_can_start_again() -> None:
    cluster = CannedCluster()
    cluster.add_source("one").subTaskStatus.add(name="t", stage=worker_pb.Stopped, unit=worker_pb.Dump)
    snapshot = ClusterReader(cluster.call).read()
    (line,) = overview(snapshot, "", 1).tasks.items
    assert (line.stage, line.health, line.progress) == ("Stopped · Dump", "idle", "stopped until it is resumed")
    view = task_page(snapshot, "t", 1)
    assert view is not None
    assert view.operations == ["resume", "stop"]
