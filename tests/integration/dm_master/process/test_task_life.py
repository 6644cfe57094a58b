"""What an operator sees of a task from check to stop; a task that is refused must leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deploy.local.cluster import DMMaster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from pkg.pb import dmworker_pb2
from tests.harness.fake_worker import FakeWorker
from tests.integration.dm_master.process.support import (
    Dmctl,
    call,
    source_file,
    stage_of,
    started_worker,
    task_file,
)


def test_a_source_waits_for_a_worker(
    dmctl: Dmctl,
    master: DMMaster,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    source = source_file(tmp_path, upstream, "s1")
    task = task_file(tmp_path, target, "s1")

    refused = dmctl("start-task", task)
    assert not refused["result"]
    assert "code=20031" in refused["msg"]

    no_worker = "source is added but there is no free worker to bound"
    assert dmctl("operate-source", "create", source) == {
        "result": True,
        "msg": "",
        "sources": [{"result": True, "msg": no_worker, "source": "s1", "worker": ""}],
    }
    status = dmctl("query-status", "-s", "s1")
    assert status["sources"][0]["sourceStatus"]["worker"] == "source not bound"
    assert "list-member" in status["sources"][0]["msg"]
    unbound = dmctl("start-task", task)
    assert "code=46009" in unbound["msg"]

    workers("w1")
    wait_until(lambda: stage_of(master, "w1") == "bound", "the source is bound")
    shown = dmctl("operate-source", "show")["sources"]
    assert shown == [{"result": True, "msg": "", "source": "s1", "worker": "w1"}]
    again = dmctl("operate-source", "create", source)
    assert "code=46007" in again["msg"]


def test_settings_without_effect_are_in_the_answers(
    dmctl: Dmctl,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    workers("w1")
    source, task = Path(source_file(tmp_path, upstream, "s1")), Path(task_file(tmp_path, target, "s1"))
    source.write_text(f"{source.read_text()}charset: latin1\nmeta-dir: /var/lib/dm\n")
    assert [text.split(": ")[0] for text in dmctl("operate-source", "create", str(source))["warnings"]] == [
        "meta-dir has no effect",
        "charset has no effect",
    ]
    units = "    loader: {pool-size: 99}\n    syncer: {queue-size: 7, safe-mode-duration: 30s}\n"
    task.write_text(f'{task.read_text()}{units}timezone: "+08:00"\n')
    checked = dmctl("check-task", str(task))
    assert checked["msg"] == "pre-check is passed. "
    assert [text.split(": ")[0] for text in checked["warnings"]] == [
        "queue-size of syncer has no effect",
        "safe-mode-duration of syncer has no effect",
        "timezone has no effect",
        "pool-size 99 of source s1 is more than dm-worker w1 has slots",
    ]
    assert dmctl("start-task", str(task))["warnings"] == checked["warnings"]


def test_a_task_is_checked_and_started_once(
    dmctl: Dmctl,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    task = task_file(tmp_path, target, "s1")
    workers("w1")
    assert dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))["result"]

    assert dmctl("check-task", task) == {
        "result": True,
        "msg": "pre-check is passed. ",
        "rules": {"tables": 1, "targets": 1, "leftOut": 0, "unused": []},
    }
    shown = dmctl("show-rules", task, "-o", "json")
    assert (shown["result"], shown["summary"]["tables"]) == (True, 1)
    assert [(one["schema"], one["targetTable"], one["rules"][0]["pattern"]) for one in shown["tables"]] == [
        ("shop", "orders", "shop")
    ]
    started = dmctl("start-task", task)
    assert started == {
        "result": True,
        "msg": "",
        "sources": [{"result": True, "msg": "", "source": "s1", "worker": "w1"}],
        "checkResult": "pre-check is passed. ",
    }
    assert "code=46014" in dmctl("start-task", task)["msg"]
    assert "code=46014" in dmctl("start-task", task, "--remove-meta")["msg"]
    assert "code=46010" in dmctl("operate-source", "stop", "s1")["msg"]

    assert dmctl("query-status")["tasks"] == [{"taskName": "t1", "taskStatus": "Running", "sources": ["s1"]}]
    [answer] = dmctl("query-status", task)["sources"]
    assert answer["subTaskStatus"][0]["stage"] == "Running"
    assert answer["sourceStatus"] == {"source": "s1", "worker": "w1", "result": None, "relayStatus": None}


def test_a_task_is_paused_resumed_and_stopped(
    dmctl: Dmctl,
    master: DMMaster,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    worker = started_worker(dmctl, workers, source_file(tmp_path, upstream, "s1"), task_file(tmp_path, target, "s1"))

    paused = dmctl("pause-task", "t1")
    assert (paused["op"], paused["result"], paused["sources"][0]["result"]) == ("Pause", True, True)
    assert dmctl("query-status")["tasks"][0]["taskStatus"] == "Paused"
    resumed = dmctl("resume-task", "-s", "s1")
    assert resumed["tasks"][0]["op"] == "Resume"
    assert resumed["tasks"][0]["sources"] == [{"result": True, "source": "s1", "worker": "w1"}]
    assert dmctl("query-status")["tasks"][0]["taskStatus"] == "Running"

    def fail(subtask: dmworker_pb2.SubTaskStatus) -> None:
        subtask.stage = dmworker_pb2.Paused
        subtask.result.errors.add(ErrCode=10006, Message="execute failed", RawCause="Error 1054 (42S22): x")

    worker.twist = fail
    assert dmctl("query-status")["tasks"][0]["taskStatus"].startswith("Error - Some error occurred in subtask")
    failed = dmctl("resume-task", "t1")["sources"]
    assert failed[0]["result"] is False
    assert "Error 1054 (42S22): x" in failed[0]["msg"]
    worker.twist = lambda subtask: None

    stopped = dmctl("stop-task", "t1")
    assert (stopped["op"], stopped["sources"][0]["result"]) == ("Delete", True)
    assert "has no source or not exist" in dmctl("stop-task", "t1")["msg"]
    assert "has no source or not exist" in dmctl("query-status", "t1")["msg"]
    assert dmctl("operate-source", "stop", "s1")["result"]
    assert stage_of(master, "w1") == "free"


def test_a_failed_precheck_is_shown_and_nothing_starts(
    dmctl: Dmctl,
    master: DMMaster,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    tmp_path: Path,
    target: MariaDBServer,
) -> None:
    workers("w1")
    assert dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))["result"]
    path = Path(task_file(tmp_path, target, "s1"))
    path.write_text(path.read_text().replace(f"port: {target.port}", "port: 1"))
    for command in ("check-task", "start-task"):
        text = call(master, command, str(path))
        assert '"result": false,' in text
        assert "code=26005" in text
        assert "connect: connection refused" in text
        # The report stands in the answer as JSON of its own, not as one escaped line.
        assert '\n            "results": [\n' in text
    assert dmctl("query-status")["tasks"] == []


def test_remove_meta_drops_the_tasks_tables_and_no_others(
    dmctl: Dmctl,
    workers: Callable[[str], FakeWorker],
    upstream: MariaDBServer,
    target: MariaDBServer,
    tmp_path: Path,
) -> None:
    workers("w1")
    dmctl("operate-source", "create", source_file(tmp_path, upstream, "s1"))
    with target.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE dm_meta")
        for table in ("t1_syncer_checkpoint", "t1_syncer_marker", "t1_loader_progress", "t2_syncer_checkpoint"):
            cursor.execute(f"CREATE TABLE dm_meta.{table} (id INT)")
        assert dmctl("start-task", task_file(tmp_path, target, "s1"), "--remove-meta")["result"]
        cursor.execute("SHOW TABLES FROM dm_meta")
        assert [row[0] for row in cursor.fetchall()] == ["t2_syncer_checkpoint"]
