"""Hazard: a page contradicts the status, or shows a button that the stage does not allow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_master.console.compose import source_file, task_file
from dm_master.console.forms import Form
from dm_master.console.orders import order
from dm_master.console.snapshot import ClusterReader
from dm_master.console.view.checks import comparison_view, cutover_view, validation_view
from dm_master.console.view.findings import findings
from dm_master.console.view.locks import locks_of
from dm_master.console.view.overview import overview, source_lines, worker_lines, workers_for
from dm_master.console.view.paging import page_number, paged
from dm_master.console.view.progress import progress, stream_of_relay, stream_text
from dm_master.console.view.purge import RelayNeed, purge_views, relay_needs
from dm_master.console.view.task_page import task_page
from dm_master.precheck.result import CheckFinding, CheckResult, conclude
from pkg import errors
from pkg.config.source import load_source
from pkg.config.task import load_task
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.status.operations import allowed_for_task
from pkg.status.preview import preview
from tests.harness.canned_cluster import CannedCluster, copying, large_cluster, replicating, small_cluster
from tests.unit.dm_master.console.support import ConsoleBrowser

SNAPSHOT = ClusterReader(small_cluster().call).read()


def test_failed_tasks_come_first() -> None:
    lines = overview(SNAPSHOT, "", 1).tasks.items
    assert [(line.name, line.health) for line in lines] == [
        ("invoices", "bad"),
        ("audit", "warn"),
        ("catalogue", "good"),
        ("orders", "good"),
    ]
    orders = lines[-1]
    assert (orders.sources, orders.rows_per_second, orders.lag) == (2, 27_700, "5 s")
    assert lines[0].error.startswith("36027: ")


def test_the_overview_counts_all_tasks_and_shows_a_page() -> None:
    view = overview(ClusterReader(large_cluster(1000).call).read(), "", 3)
    assert sum(view.counts.values()) == view.tasks.total == 1000
    assert (view.tasks.number, view.tasks.pages, len(view.tasks.items)) == (3, 20, 50)
    found = overview(SNAPSHOT, "ORD", 1)
    assert [line.name for line in found.tasks.items] == ["orders"]
    assert sum(found.counts.values()) == 4


def test_a_leader_that_does_not_answer_is_shown() -> None:
    cluster = small_cluster()
    cluster.status = pb.QueryStatusListResponse(msg="[code=38043] no leader")
    assert overview(ClusterReader(cluster.call).read(), "", 1).problem == "[code=38043] no leader"


def test_a_worker_that_does_not_answer_is_a_problem_of_its_source() -> None:
    cluster = CannedCluster()
    answer = cluster.add_source("one")
    answer.result, answer.msg = False, "the worker does not answer"
    (line,) = source_lines(cluster.status)
    assert (line.health, line.problem) == ("bad", "the worker does not answer")
    cluster.members.members[-1].worker.workers[0].stage = "offline"
    assert [one.health for one in worker_lines(cluster.members)] == ["bad"]


def test_both_lags_stand_side_by_side_with_their_reasons() -> None:
    stream, commit, backlog, speed = progress(replicating("t", lag=65, rows_per_second=3)).figures
    assert (stream.name, stream.value, stream.note) == (
        "binlog not read",
        "32 s · 253.9 KiB",
        "waits until what was read is applied",
    )
    assert (commit.name, commit.value, commit.note) == (
        "oldest commit not applied",
        "1 min 5 s",
        "waits for the target",
    )
    assert (backlog.name, backlog.value) == ("binlog not applied", "514.2 KiB")
    assert backlog.note == "1 min 5 s left at this speed"
    assert speed.value == "3"


def test_an_unknown_lag_is_not_zero() -> None:
    subtask = replicating("t")
    subtask.sync.secondsBehindMaster = subtask.sync.bytesBehind = -1
    subtask.sync.streamSecondsBehind = subtask.sync.streamBytesBehind = -1
    stream, commit, backlog, _ = progress(subtask).figures
    assert stream.value == commit.value == backlog.value == "unknown"


def test_an_older_worker_does_not_report_that_everything_is_read() -> None:
    subtask = replicating("t", lag=65)
    for field in ("streamSecondsBehind", "streamBytesBehind", "streamLagReason"):
        subtask.sync.ClearField(field)
    stream, *_ = progress(subtask).figures
    assert (stream.value, stream.note) == ("unknown", "")
    relay = worker_pb.RelayStatus(stage=worker_pb.Running)
    assert stream_text(stream_of_relay(relay)) == "unknown"


def test_the_lag_of_the_relay_log_stands_beside_that_of_the_task_that_reads_it() -> None:
    cluster = small_cluster()
    for subtask in cluster.status.sources[0].subTaskStatus:
        subtask.sync.binlogType = "local"
    view = task_page(ClusterReader(cluster.call).read(), "orders", 1)
    assert view is not None
    figures = {part.source: part.progress.figures[0] for part in view.subtasks.items}
    assert (figures["eu-shop-1"].name, figures["eu-shop-1"].value) == ("binlog not in the relay log", "1 s · 8.0 KiB")
    assert figures["eu-shop-2"].name == "binlog not read"


def test_a_copy_shows_tables_rows_bytes_and_the_time_left() -> None:
    view = progress(copying("t"))
    assert view.percent == pytest.approx(42.4)
    figures = {one.name: (one.value, one.note) for one in view.figures}
    assert figures["tables"][0] == "42,350 of 100,000"
    assert figures["rows"][0] == "212,000,000 of about 500,000,000"
    assert figures["read"] == ("36.0 GiB", "81.0 MiB/s")
    assert figures["time left"][0] == "10 min 18 s"
    load = worker_pb.LoadStatus(finishedBytes=50, totalBytes=200, bps=10, progress="25.00 %")
    loading = progress(worker_pb.SubTaskStatus(stage=worker_pb.Running, unit=worker_pb.Load, load=load))
    assert (loading.percent, loading.figures[-1].value) == (25.0, "15 s")
    load.totalTables, load.completedTables = 100_000, 0
    loading = progress(worker_pb.SubTaskStatus(stage=worker_pb.Running, unit=worker_pb.Load, load=load))
    assert (loading.figures[0].name, loading.figures[0].value) == ("tables", "0 of 100,000")
    load.totalRows, load.finishedRows = 1_000_000, 250_000
    loading = progress(worker_pb.SubTaskStatus(stage=worker_pb.Running, unit=worker_pb.Load, load=load))
    assert (loading.figures[1].name, loading.figures[1].value) == ("rows", "about 250,000 of 1,000,000")
    load.step = "creating the keys of 1 table"
    assert progress(worker_pb.SubTaskStatus(unit=worker_pb.Load, load=load)).text == load.step


def test_a_copy_that_has_just_begun_has_no_numbers_yet() -> None:
    view = progress(worker_pb.SubTaskStatus(stage=worker_pb.Running, unit=worker_pb.Dump, dump=worker_pb.DumpStatus()))
    assert view.percent is None
    assert view.figures[-1].value == "unknown"


def test_the_page_of_a_task_has_its_errors_with_advice_and_the_stage_s_buttons() -> None:
    view = task_page(SNAPSHOT, "invoices", 1)
    assert view is not None
    (part,) = view.subtasks.items
    assert part.errors[0].advice == "Make the column wider on the target, then resume the task."
    assert view.operations == part.operations == ["resume", "resume-safe", "skip", "stop"]
    running = task_page(SNAPSHOT, "orders", 1)
    assert running is not None
    assert running.operations == ["pause", "stop"]
    assert [lock.missing for lock in running.locks] == [["eu-shop-2"]]
    assert task_page(SNAPSHOT, "gone", 1) is None


@given(st.lists(st.tuples(st.sampled_from(worker_pb.Stage.values()), st.booleans()), min_size=1, max_size=5))
def test_a_page_has_a_button_exactly_for_what_is_allowed(parts: list[tuple[int, bool]]) -> None:
    cluster = CannedCluster()
    subtasks = []
    for number, (stage, failed) in enumerate(parts):
        subtask = replicating("t")
        subtask.stage = stage  # type: ignore[assignment]
        if failed:
            subtask.result.errors.add(ErrCode=1, Message="m")
        cluster.add_source(f"s{number}").subTaskStatus.append(subtask)
        subtasks.append(subtask)
    view = task_page(ClusterReader(cluster.call).read(), "t", 1)
    assert view is not None
    assert view.operations == allowed_for_task(subtasks)
    # Each button leads to an order with a preview.
    for name in view.operations:
        made = order(name, Form({"task": ["t"]}))
        assert made is not None
        assert preview(*made) is not None


def test_a_profile_s_bars_stand_below_their_part() -> None:
    view = task_page(SNAPSHOT, "orders", 1)
    assert view is not None
    bars = {bar.name: bar for bar in view.subtasks.items[0].profile}
    assert bars["main loop"].share == bars["reader"].share == 100
    batches, write = bars["batches"], bars["write to the target"]
    assert write.depth == batches.depth + 1
    assert batches.offset <= write.offset
    assert write.offset + write.share <= batches.offset + batches.share + 0.01


def test_a_lock_says_who_waits_for_whom() -> None:
    (lock,) = locks_of(SNAPSHOT.locks)
    assert lock.synced == [("eu-shop-1", "1,830 rows held back")]
    assert lock.missing == ["eu-shop-2"]
    assert locks_of(SNAPSHOT.locks, "other") == []


@pytest.mark.parametrize("phase", ["waiting", "conflict", "owner left", "skipping"])
def test_a_lock_offers_the_operations_that_the_master_accepts(phase: str) -> None:
    stored = pb.DDLLock(ID="t", owner="one", synced=["one", "two"], unsynced=["three"], phase=phase)
    (none,) = locks_of(pb.ShowDDLLocksResponse(locks=[stored]))
    assert none.orders == []
    stored.unlocks.add(op=pb.SkipLock)
    stored.unlocks.add(op=pb.ExecLock)
    stored.unlocks.add(owner="two", op=pb.SkipLock)
    (lock,) = locks_of(pb.ShowDDLLocksResponse(locks=[stored]))
    fields = [fields for _, fields in lock.orders]
    assert fields == [{"action": "skip"}, {"action": "exec"}, {"action": "skip", "owner": "two"}]
    assert len({text for text, _ in lock.orders}) == 3


def test_once_the_ddl_is_executed_no_rows_are_held_back() -> None:
    stored = pb.DDLLock(ID="t", owner="one", synced=["one"], unsynced=["two"], waitsFor=["two"], phase="skipping")
    stored.heldRows.add(source="one", rows=0)
    (lock,) = locks_of(pb.ShowDDLLocksResponse(locks=[stored]))
    assert (lock.executed, lock.synced, lock.waits_for) == (True, [("one", "")], [])


def test_a_task_without_a_validator_has_no_error() -> None:
    missing = str(errors.new(Code.ValidatorNotFound, "no validator of one"))
    found = worker_pb.GetValidationErrorResponse(result=True)
    several = worker_pb.GetValidationStatusResponse(msg=f"{missing}; {missing}")
    assert validation_view(several, found, 1).problem == "No validator runs."
    other = str(errors.new(Code.MasterLockNotFound, "something else"))
    mixed = worker_pb.GetValidationStatusResponse(msg=f"{missing}; {other}")
    assert other in validation_view(mixed, found, 1).problem


def test_a_comparison_shows_what_differs_first() -> None:
    tables = [("a", "equal"), ("b", "not compared"), ("c", "different")]
    source = worker_pb.DiffSourceStatus(source="one", stage="Finished", rows=3, totalRows=3)
    for name, state in tables:
        source.tables.add(target=name, state=state, missing=int(state == "different"))
    view = comparison_view(pb.OperateDiffResponse(result=True, verdict="different", sources=[source]), 1)
    assert [(one.target, one.health) for one in view.tables.items] == [("c", "bad"), ("b", "warn"), ("a", "good")]
    assert view.operations == ["start-diff"]
    assert view.tables.items[0].counts == "1 missing"
    running = comparison_view(pb.OperateDiffResponse(result=True, verdict="running", sources=[source]), 1)
    assert running.operations == ["stop-diff"]


def test_a_cutover_without_evidence_is_not_passed() -> None:
    names = (("a", "yes"), ("b", "unknown"), ("c", "no"), ("d", "not applicable"))
    checks = [pb.CutoverCheck(name=name, verdict=verdict, remedy="do it") for name, verdict in names]
    view = cutover_view(pb.CheckCutoverResponse(checks=checks))
    assert [(one.name, one.health) for one in view.checks] == [
        ("c", "bad"),
        ("b", "warn"),
        ("a", "good"),
        ("d", "idle"),
    ]
    assert not view.ready


@pytest.mark.parametrize(
    ("stages", "operations"),
    [
        ([], ["start-validation"]),
        ([worker_pb.Running], ["stop-validation"]),
        ([worker_pb.Stopped], ["start-validation"]),
        ([worker_pb.Running, worker_pb.Stopped], ["start-validation", "stop-validation"]),
    ],
)
def test_validation_has_the_operations_of_its_stages(stages: list[worker_pb.Stage], operations: list[str]) -> None:
    validators = [worker_pb.ValidationStatus(stage=stage) for stage in stages]
    status = worker_pb.GetValidationStatusResponse(result=True, validators=validators)
    assert validation_view(status, worker_pb.GetValidationErrorResponse(), 1).operations == operations


def _differences(*states: worker_pb.ValidateErrorState) -> worker_pb.GetValidationErrorResponse:
    found = worker_pb.GetValidationErrorResponse(result=True)
    for number, state in enumerate(states, 1):
        found.error.add(
            id=str(number), source="one", dstTable="`shop`.`orders`", status=state, errorType="Column data not matched"
        )
    return found


def test_rows_that_differ_have_the_buttons_of_their_states_and_new_ones_come_first() -> None:
    found = _differences(worker_pb.IgnoredErr, worker_pb.NewErr, worker_pb.ResolvedErr)
    view = validation_view(worker_pb.GetValidationStatusResponse(result=True), found, 1)
    assert [(one.number, one.state, list(one.operations)) for one in view.differences.items] == [
        ("2", "new", ["ignore-error", "resolve-error", "clear-error"]),
        ("1", "ignored", ["resolve-error", "clear-error"]),
        ("3", "resolved", ["ignore-error", "clear-error"]),
    ]
    assert view.marks == ["ignore-error", "resolve-error", "clear-error"]
    none = validation_view(worker_pb.GetValidationStatusResponse(result=True), _differences(), 1)
    assert (none.marks, none.differences.total) == ([], 0)


def test_each_of_many_rows_that_differ_can_be_seen(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    cluster.answers["GetValidationError"] = _differences(*[worker_pb.NewErr] * 120)
    pages = [browser.get("checks", task="orders", rows=str(number)).body.decode() for number in (1, 2, 3)]
    seen = [
        int(number) for page in pages for number in re.findall(r"do=ignore-error&amp;task=orders&amp;error=(\d+)", page)
    ]
    assert seen == list(range(1, 121))


@pytest.mark.parametrize("word", ["ignore", "resolve", "clear"])
@pytest.mark.parametrize("error", ["7", "all"])
def test_a_row_s_button_leads_to_the_preview_of_the_command_line(
    browser: ConsoleBrowser, cluster: CannedCluster, word: str, error: str
) -> None:
    browser.log_in()
    which = "--all" if error == "all" else error
    page = browser.get("confirm", do=f"{word}-error", task="orders", error=error).body.decode()
    assert f"dmctl validation {word}-error orders {which}<" in page
    assert cluster.calls["OperateValidationError"] == 0
    done = browser.post("do", token=browser.token(), do=f"{word}-error", task="orders", error=error).body.decode()
    assert "checks?task=orders" in done
    (sent,) = [request for method, request in cluster.requests if method == "OperateValidationError"]
    assert (sent.taskName, sent.isAllError, sent.errId) == ("orders", error == "all", 0 if error == "all" else 7)


@pytest.mark.parametrize("number", ["0", "-1", "x", "7x", "\u0667", "9" * 30, "ALL"])
def test_a_row_is_named_by_its_number(number: str) -> None:
    assert order("ignore-error", Form({"task": ["t"], "error": [number]})) is None


@pytest.mark.parametrize(
    ("name", "alive", "number", "removable"),
    [
        ("master2", False, 7, True),
        ("master2", True, 7, False),
        ("master1", False, 7, False),
        ("", False, 7, False),
        ("master2", False, 0, False),
    ],
    ids=["stopped", "runs", "leads", "has never started", "of an external etcd"],
)
def test_a_master_that_has_stopped_can_be_removed(
    browser: ConsoleBrowser, cluster: CannedCluster, name: str, alive: bool, number: int, removable: bool
) -> None:
    listed = next(one.master for one in cluster.members.members if one.WhichOneof("member") == "master")
    del listed.masters[:]
    listed.masters.add(name=name, alive=alive, memberID=number)
    assert ("do=remove-master" in browser.get("members").body.decode()) == removable


def test_a_source_is_disabled_and_enabled_after_its_preview(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    cluster.status.sources[1].sourceStatus.disabled = True
    browser.log_in()
    page = browser.get("sources").body.decode()
    assert re.findall(r"do=enable-source&amp;source=([\w-]+)", page) == ["eu-shop-2"]
    assert re.findall(r"do=disable-source&amp;source=([\w-]+)", page) == ["eu-shop-1", "us-shop-1"]
    shown = browser.get("confirm", do="disable-source", source="eu-shop-1").body.decode()
    assert "dmctl operate-source disable eu-shop-1" in shown
    assert (
        "/console/sources"
        in browser.post("do", token=browser.token(), do="enable-source", source="eu-shop-2").body.decode()
    )
    (sent,) = [request for method, request in cluster.requests if method == "OperateSource"]
    assert (sent.op, list(sent.sourceID)) == (pb.EnableSource, ["eu-shop-2"])


def test_a_relay_log_of_named_workers_is_stopped_on_them(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    status = cluster.status.sources[0].sourceStatus
    status.relayWorkers.extend(["w1", "w2"])
    empty = cluster.add_source("empty").sourceStatus
    empty.relayWorkers.append("w3")
    page = browser.get("sources").body.decode()
    found = re.findall(r"do=stop-relay&amp;source=([\w-]+)&amp;([\w&;=]+)", page)
    assert found == [("eu-shop-1", "worker=w1&amp;worker=w2"), ("empty", "worker=w3")]
    assert "do=remove-source&amp;source=empty" not in page, "the cluster refuses it while workers pull its relay log"
    shown = browser.get("confirm", do="stop-relay", source="empty", worker="w3").body.decode()
    assert "dmctl stop-relay -s empty w3" in shown or "dmctl stop-relay w3 -s empty" in shown


def test_an_offline_worker_is_removed_after_its_preview(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    assert "do=remove-worker" not in browser.get("members").body.decode()
    cluster.members.members[-1].worker.workers[1].stage = "offline"
    browser.log_in()
    browser.post("do", token=browser.token(), do="pause", task="orders")  # a change: the next page looks again
    page = browser.get("members").body.decode()
    assert re.findall(r"do=remove-worker&amp;worker=(\w+)", page) == ["worker2"]
    assert (
        "dmctl offline-member --worker --name worker2"
        in browser.get("confirm", do="remove-worker", worker="worker2").body.decode()
    )
    done = browser.post("do", token=browser.token(), do="remove-worker", worker="worker2").body.decode()
    assert "/console/members" in done
    (sent,) = [request for method, request in cluster.requests if method == "OfflineMember"]
    assert (sent.type, sent.name) == ("worker", "worker2")


def test_findings_are_shown_beside_their_field() -> None:
    results = [
        CheckResult("target db privilege checker", "", (CheckFinding("fail", "no INSERT", "GRANT it", "db:4000"),)),
        CheckResult("sharding table consistency check", "", (CheckFinding("warn", "differs", ""),)),
        CheckResult("something new", "", (CheckFinding("warn", "odd", ""),)),
    ]
    view = findings(False, conclude(results).text)
    (target,) = view.by_field["target"]
    assert (target.health, target.text, target.advice) == ("bad", "no INSERT", "GRANT it")
    assert [one.text for one in view.by_field["shard-mode"]] == ["differs"]
    assert [one.text for one in view.other] == ["odd"]
    assert view.summary == "3 checks: 1 failed, 2 with warnings"


def test_an_error_of_the_file_stands_beside_its_field() -> None:
    error = errors.new(Code.ConfigYamlTransform, "task.yaml:3: task-mode 'x' is not one", workaround="Use all.")
    view = findings(False, str(error))
    assert [one.advice for one in view.by_field["mode"]] == ["Use all."]
    assert findings(True, "pre-check is passed. ").passed


def _form(**values: str | list[str]) -> Form:
    return Form(
        {name.replace("_", "-"): [value] if isinstance(value, str) else value for name, value in values.items()}
    )


def test_a_form_becomes_the_task_that_it_describes() -> None:
    form = _form(
        name="orders", mode="all", shard_mode="pessimistic", validation="full", sources=["one", "two"],
        host="db", port="4000", user="dm", password=" p: '\"\\ ", tables="shop_*\nlog.events",
        routes="shop_*.orders_* > shop.orders\nshop_* > shop",
    )  # fmt: skip
    task = load_task(task_file(form))
    assert (task.name, task.task_mode, task.shard_mode) == ("orders", "all", "pessimistic")
    assert [one.source_id for one in task.instances] == ["one", "two"]
    assert task.target.password == " p: '\"\\ "


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_typed_values_are_escaped_in_the_file(text: str) -> None:
    form = _form(source="one", host="h", port="3306", user="u", password=text)
    assert load_source(source_file(form), "source.yaml", []).from_.password == text


@pytest.mark.parametrize("line", ["shop", "shop >", "> shop", "a > "])
def test_a_route_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="routes"):
        task_file(_form(name="t", routes=line))


def test_a_port_that_is_not_a_number_is_reported_by_the_check_of_the_file() -> None:
    with pytest.raises(errors.DMError, match="port"):
        load_source(source_file(_form(source="one", host="h", port="x", user="u")), "source.yaml", [])


@given(st.lists(st.integers()), st.integers(), st.integers(1, 20))
def test_each_item_is_on_exactly_one_page(items: list[int], number: int, size: int) -> None:
    first = paged(items, 1, size)
    assert [one for page in range(1, first.pages + 1) for one in paged(items, page, size).items] == items
    assert 1 <= paged(items, number, size).number <= first.pages


@pytest.mark.parametrize(("text", "number"), [("", 1), ("7", 7), ("-1", 1), ("x", 1), ("²", 1), ("9" * 99, 1)])
def test_a_page_s_number_is_a_number(text: str, number: int) -> None:
    assert page_number(text) == number


@pytest.mark.parametrize("name", ["pause", "unlock", "purge-relay", "transfer-source", "remove-source", "", "nope"])
def test_an_order_without_a_required_field_is_rejected(name: str) -> None:
    assert order(name, Form({})) is None


def test_the_confirmation_shows_the_command_and_asks_for_a_login(browser: ConsoleBrowser) -> None:
    page = browser.get("confirm", do="pause", task="it's", source="one").body.decode()
    assert "dmctl pause-task" in page
    assert "log in" in page
    assert 'id="confirm"' not in page
    browser.log_in()
    assert 'id="confirm"' in browser.get("confirm", do="pause", task="orders").body.decode()


def test_the_result_of_an_order_is_shown_for_each_source(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    parts = [
        worker_pb.CommonWorkerResponse(result=True, source="one"),
        worker_pb.CommonWorkerResponse(source="two", msg="it is not paused"),
    ]
    cluster.answers["OperateTask"] = pb.OperateTaskResponse(result=True, sources=parts)
    browser.log_in()
    page = browser.post("do", token=browser.token(), do="pause", task="orders").body.decode()
    assert "failed" in page
    assert "it is not paused" in page


def test_after_an_order_the_next_page_is_fresh(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    browser.log_in()
    browser.get("")
    looks = cluster.calls["QueryStatus"]
    browser.post("do", token=browser.token(), do="pause", task="orders")
    browser.get("")
    assert cluster.calls["QueryStatus"] == looks + 1


def test_a_source_shows_which_tasks_a_purge_of_the_upstream_would_affect() -> None:
    line = next(one for one in source_lines(SNAPSHOT.status) if one.name == "eu-shop-1")
    assert line.health == "warn"
    invoices, relay = line.purge
    assert (invoices.reader, invoices.health) == ("task invoices", "warn")
    assert (invoices.needed, invoices.unread) == ("(mysql-bin.000005, 120)", "7.0 GiB")
    assert (invoices.kept, invoices.left) == ("1.0 GiB from mysql-bin.000004 on", "23 h 53 min")
    assert "nothing is read from it" in invoices.problem
    assert (relay.reader, relay.health, relay.problem) == ("relay log", "good", "")
    view = task_page(SNAPSHOT, "invoices", 1)
    assert view is not None
    assert view.subtasks.items[0].purge == [invoices]
    other = task_page(SNAPSHOT, "orders", 1)
    assert other is not None
    assert not any(part.purge for part in other.subtasks.items)


@pytest.mark.parametrize(
    ("stage", "unit", "movable"),
    [
        (worker_pb.Running, worker_pb.Sync, True),
        (worker_pb.Paused, worker_pb.Sync, True),
        (worker_pb.Finished, worker_pb.Load, True),
        (worker_pb.Stopped, worker_pb.Load, True),
        (worker_pb.Running, worker_pb.Dump, False),
        (worker_pb.Paused, worker_pb.Load, False),
    ],
)
def test_a_source_moves_unless_a_copy_s_files_would_stay_behind(
    stage: worker_pb.Stage, unit: worker_pb.UnitType, movable: bool
) -> None:
    cluster = CannedCluster()
    subtask = worker_pb.SubTaskStatus(name="t", stage=stage, unit=unit)
    cluster.add_source("one").subTaskStatus.append(subtask)
    (line,) = source_lines(cluster.status)
    assert line.movable == movable


def test_a_source_moves_to_a_worker_that_serves_no_other_one() -> None:
    cluster = CannedCluster()
    for name in ("one", "two", "three", "four", "five"):
        cluster.add_source(name)
    listed = cluster.members.members[-1].worker.workers
    for one, (stage, source) in zip(
        listed, [("bound", "one"), ("free", ""), ("relay", "one"), ("relay", "two"), ("offline", "")], strict=True
    ):
        one.stage, one.source = stage, source
    assert workers_for(cluster.members, "one") == ["worker3", "worker2"]
    assert workers_for(cluster.members, "two") == ["worker4", "worker2"]


def test_the_page_of_a_move_has_the_workers_that_may_take_the_source(
    browser: ConsoleBrowser, cluster: CannedCluster
) -> None:
    workers = cluster.members.members[-1].worker.workers
    workers.add(name="spare", addr="127.0.0.1:9", stage="free")
    page = browser.get("sources").body.decode()
    assert "move?source=eu-shop-2" in page
    assert "move?source=us-shop-1" not in page, "its task copies"
    shown = browser.get("move", source="eu-shop-2").body.decode()
    assert '<option value="spare">' in shown
    assert "transfer-source" in shown
    assert "copies" in browser.get("move", source="us-shop-1").body.decode()


def test_no_source_moves_where_no_worker_is_free(browser: ConsoleBrowser) -> None:
    assert "move?source" not in browser.get("sources").body.decode()
    assert "No worker is free" in browser.get("move", source="eu-shop-2").body.decode()


def test_a_position_that_the_upstream_has_purged_has_no_room() -> None:
    status = worker_pb.SourceStatus()
    status.purgeDistances.add(
        task="t", risk=2, needed="(b.000001, 4)", oldest="b.000007", bytesBefore=-1, bytesNeeded=-1, text="it is gone"
    )
    status.purgeDistances.add(task="u", needed="(b.000008, 4)", oldest="b.000007", bytesBefore=0, secondsLeft=-1)
    gone, kept = purge_views(status)
    assert (gone.health, gone.unread, gone.left) == ("bad", "unknown", "gone")
    assert gone.kept == "nothing: the upstream begins at b.000007"
    assert (kept.kept, kept.left) == ("0 B from b.000007 on", "no limit")


def test_the_purge_of_a_relay_log_names_the_files_that_tasks_need() -> None:
    subtasks = [replicating("b", lag=1), replicating("a"), copying("c")]
    for subtask in subtasks[:2]:
        subtask.sync.binlogType = "local"
    assert relay_needs(subtasks) == [RelayNeed("a", "mysql-bin.000012"), RelayNeed("b", "mysql-bin.000012")]
    subtasks[0].sync.syncerBinlog = ""
    assert relay_needs(subtasks[:1]) == [RelayNeed("b", "")]
