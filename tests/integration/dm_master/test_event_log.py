"""Hazard: a change that nobody finds in the event log, or a log that fills etcd."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from dm_master.service import event_log
from dm_master.service.event_log import EventLog, acting_as
from pkg.etcd import EtcdClient
from pkg.ha.keys import EVENT
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from tests.harness.etcd import EtcdServer


@pytest.fixture
def client(etcd: EtcdServer) -> Iterator[EtcdClient]:
    with EtcdClient([etcd.endpoint], timeout=60) as made:
        yield made


def _pause(task: str) -> pb.OperateTaskRequest:
    return pb.OperateTaskRequest(op=worker_pb.Pause, name=task)


def test_a_change_is_noted_with_who_what_when_and_its_result(client: EtcdClient) -> None:
    log = EventLog(client, now=lambda: datetime(2026, 11, 26, 6, 0, tzinfo=UTC))
    log.note("QueryStatus", pb.QueryStatusListRequest(), pb.QueryStatusListResponse(result=True))
    log.note("OperateTask", _pause("one"), pb.OperateTaskResponse(result=True))
    part = worker_pb.CommonWorkerResponse(source="s", msg="refused " * 200)
    with acting_as("console: anna"):
        log.note("OperateTask", _pause("two"), pb.OperateTaskResponse(result=True, sources=[part]))
    newest, oldest = log.latest()
    assert (oldest.who, oldest.what, oldest.result) == ("gRPC (dmctl)", "Pause task one on all of its sources", "done")
    assert oldest.at == "2026-11-26T06:00:00+00:00"
    assert (newest.who, newest.command, newest.result) == ("console: anna", "dmctl pause-task two", "failed")
    assert newest.detail.startswith("s: refused")
    assert len(newest.detail) <= event_log.MOST_TEXT


def test_the_log_keeps_the_last_changes_only(client: EtcdClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST_EVENTS", 5)
    log = EventLog(client)
    for number in range(12):
        log.note("OperateTask", _pause(f"t{number}"), pb.OperateTaskResponse(result=True))
    assert [one.command.rpartition(" ")[2] for one in log.latest()] == ["t11", "t10", "t9", "t8", "t7"]
    assert len(client.get_prefix(EVENT.prefix())[0]) == 5


def test_masters_that_write_at_once_lose_no_entry(client: EtcdClient) -> None:
    def write(number: int) -> None:
        EventLog(client).note("OperateTask", _pause(f"t{number}"), pb.OperateTaskResponse(result=True))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(20)))
    assert len({one.command for one in EventLog(client).latest()}) == 20
