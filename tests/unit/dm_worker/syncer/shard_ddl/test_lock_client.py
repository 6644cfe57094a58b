"""Hazards: a decision that an operator took back is obeyed; what this source has done is waited for forever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import pytest

from deploy.local.process import wait_until
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.shard_ddl.initial_groups import new_groups
from dm_worker.syncer.shard_ddl.lock_client import LockClient
from dm_worker.syncer.shard_ddl.lock_protocol import Arrived, Decided, ExecutionError, LockNews, Revoked
from dm_worker.syncer.shard_ddl.pessimistic import Pessimistic
from dm_worker.syncer.shard_ddl.source_groups import AcknowledgeDDL, ReportDDL
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from pkg.etcd import WatchEvent
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, StoredRecord

TARGET = ("m", "t")
TEXTS = ("ALTER TABLE `m`.`t` ADD COLUMN a INT",)
REPORT = ReportDDL(TARGET, 0, TEXTS)


class Etcd:
    """The records of the only lock there is."""

    def __init__(self) -> None:
        self.tables: ShardTables | None = None
        self.info: ShardInfo | None = None
        self.told: StoredRecord[ShardOperation] | None = None
        #: In the order in which they were reported.
        self.errors: list[str] = []
        self._wake: Callable[[Sequence[WatchEvent]], None] = lambda _: None
        self.fail: Callable[[BaseException], None] = lambda _: None

    def tell(self, revision: int, *, execute: bool) -> None:
        self.told = StoredRecord(ShardOperation("t-`m`.`t`", "t", "s", TEXTS, execute), revision, revision)
        self._wake(())

    def remove(self) -> None:
        self.info = self.told = None
        self._wake(())

    # -- what the link asks for ---------------------------------------------------------------------------------

    def publish_tables(self, tables: ShardTables) -> None:
        self.tables = tables

    def report(self, info: ShardInfo) -> bool:
        if self.told is None:
            self.info = info
        return self.told is None

    def reported(self, lock: LockId) -> ShardInfo | None:
        return self.info

    def withdraw(self, lock: LockId) -> bool:
        self.info = None if self.told is None else self.info
        return self.told is None

    def operation(self, lock: LockId) -> StoredRecord[ShardOperation] | None:
        return self.told

    def confirm(self, lock: LockId, operation: StoredRecord[ShardOperation]) -> bool:
        self.told = replace(operation, record=replace(operation.record, done=True))
        return True

    def tell_error(self, lock: LockId, operation: StoredRecord[ShardOperation], error: str) -> bool:
        assert operation == self.told
        self.told = replace(operation, record=replace(operation.record, error=error))
        self.errors.append(error)
        return True

    def start_mirrors(
        self, on_change: Callable[[Sequence[WatchEvent]], None], on_error: Callable[[BaseException], None]
    ) -> Sequence[LockClient]:
        self._wake, self.fail = on_change, on_error
        return ()


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


@pytest.fixture
def link(etcd: Etcd) -> Iterator[LockClient]:
    link = LockClient(etcd, "t", "s")
    link.start()
    yield link
    link.stop()


def hears(link: LockClient, *expected: LockNews) -> None:
    found: list[LockNews] = []

    def take_news() -> bool:
        found.extend(link.take_news())
        return len(found) >= len(expected)

    wait_until(take_news, f"{expected} is heard", step=0.01)
    assert found == list(expected)


def test_who_waits_for_decisions_hears_that_there_is_one_and_that_none_will_come(etcd: Etcd) -> None:
    client, heard = LockClient(etcd, "t", "s"), threading.Event()
    client.start(heard.set)
    client.request(REPORT)
    decides, fails = partial(etcd.tell, 8, execute=True), partial(etcd.fail, OSError("away"))
    for happens in (decides, etcd.remove, fails):
        assert not heard.is_set()
        happens()
        assert heard.wait(60)
        heard.clear()
    with pytest.raises(DMError, match="away"):
        client.take_news()
    client.stop()


def test_a_decision_that_is_taken_back_is_reported_and_the_ddl_reported_again(etcd: Etcd, link: LockClient) -> None:
    link.request(REPORT)
    wait_until(lambda: etcd.info is not None, "it is reported", step=0.01)
    etcd.tell(8, execute=True)
    hears(link, Decided(TARGET, TEXTS, True, 8))
    etcd.remove()
    hears(link, Revoked(TARGET))
    wait_until(lambda: etcd.info is not None, "it is reported again", step=0.01)
    etcd.tell(9, execute=False)
    hears(link, Decided(TARGET, TEXTS, False, 9))
    # Removed and decided again between two looks.
    etcd.tell(10, execute=False)
    hears(link, Revoked(TARGET), Decided(TARGET, TEXTS, False, 10))


@pytest.mark.parametrize("decided_again", [False, True])
def test_nobody_waits_for_a_source_that_obeyed_what_was_taken_back(
    etcd: Etcd, link: LockClient, decided_again: bool
) -> None:
    link.request(REPORT)
    etcd.tell(8, execute=True)
    hears(link, Decided(TARGET, TEXTS, True, 8))
    etcd.remove()
    wait_until(lambda: etcd.info is not None, "it is reported again", step=0.01)
    if decided_again:
        etcd.tell(9, execute=False)
    link.request(AcknowledgeDDL(TARGET, 0, TEXTS, True, 8))
    hears(link, Arrived(TARGET))
    if decided_again:
        assert etcd.told is not None
        assert etcd.told.record.done
    else:
        assert etcd.info is None, "it waits no more"


def test_what_waits_for_the_end_of_a_transaction_is_dropped_when_it_is_taken_back(etcd: Etcd, link: LockClient) -> None:
    groups = new_groups([("d", "t1")], lambda schema, table: TARGET)
    groups.ddl(("d", "t1"), TEXTS, key="its name", start=Location(Position("bin.000001", 4)), structure="")
    sharding = Pessimistic(
        groups, link, cast(SchemaSource, None), takes_rows=lambda *_: True, task="t", source_id="s", changed=()
    )

    def settles(revision: int) -> bool:
        sharding.follow_decisions()
        return (0 if sharding.settle is None else sharding.settle.revision) == revision

    etcd.tell(8, execute=True)
    wait_until(lambda: settles(8), "the decision is heard", step=0.01)
    etcd.remove()
    wait_until(lambda: settles(0), "it is dropped", step=0.01)
    etcd.tell(9, execute=False)
    wait_until(lambda: settles(9), "the next one is heard", step=0.01)


def test_why_a_decision_could_not_be_executed_is_reported_although_the_run_ends(etcd: Etcd) -> None:
    link = LockClient(etcd, "t", "s")
    link.start()
    link.request(REPORT)
    etcd.tell(8, execute=True)
    hears(link, Decided(TARGET, TEXTS, True, 8))
    link.tell_error(ExecutionError(TARGET, 8, ""))
    link.tell_error(ExecutionError(TARGET, 8, "refused"))
    link.stop()
    assert etcd.errors == ["refused"]


def test_a_new_try_takes_its_old_error_back_and_is_done_without_one(etcd: Etcd, link: LockClient) -> None:
    etcd.tell(8, execute=True)
    for text in ("refused", "", "refused again"):
        link.tell_error(ExecutionError(TARGET, 8, text))
        wait_until(lambda text=text: etcd.errors[-1:] == [text], "it is told", step=0.01)  # type: ignore[misc]
    link.request(AcknowledgeDDL(TARGET, 0, TEXTS, True, 8))
    hears(link, Arrived(TARGET))
    link.tell_error(ExecutionError(TARGET, 8, "too late"))
    link.stop()
    assert etcd.errors == ["refused", "", "refused again"]


def test_an_error_is_not_reported_for_another_decision(etcd: Etcd, link: LockClient) -> None:
    etcd.tell(9, execute=True)
    link.tell_error(ExecutionError(TARGET, 8, "refused"))
    link.stop()
    assert not etcd.errors
