"""Hazard: an order for a statement is lost with the worker that took it, or stays behind for another task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm_worker.operator_commands.binlog_operators import BinlogOperators
from dm_worker.subtask.subtask import SubTask
from dm_worker.syncer.ddl.operator_orders import listing, readable
from pkg.binlog.position import Location, Position
from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient
from pkg.ha import keys
from pkg.ha.binlog_operator import BinlogOperator
from pkg.pb import dmworker_pb2 as pb
from tests.harness.etcd import EtcdServer

SKIP = BinlogOperator("skip", "t", "s1", "bin.000001:100")
REPLACE = BinlogOperator("replace", "t", "s1", "bin.000002:4", ("DROP TABLE d.x",))


@pytest.fixture
def client(etcd: EtcdServer) -> Iterator[EtcdClient]:
    client = EtcdClient([etcd.endpoint])
    client.put(keys.SUBTASK.key("s1", "t"), "config")
    yield client
    client.close()


def following(client: EtcdClient, source: str = "s1") -> BinlogOperators:
    made = BinlogOperators(client, source, lambda exc: pytest.fail(str(exc)))
    made.start()
    assert made.wait_synced(30)
    return made


def standing(position: Position | None, unit_type: int = pb.Sync) -> SubTask:
    needed = None if position is None else Location(position)
    unit: Any = SimpleNamespace(unit_type=unit_type, needed=needed)
    return cast(SubTask, SimpleNamespace(name="t", unit=lambda: unit))


def test_orders_outlive_their_worker_and_go_when_they_are_passed(client: EtcdClient) -> None:
    first = following(client)
    for order in (SKIP, REPLACE):
        first.put(order)
        assert order in first.of("t"), "at once: the task goes on next"
    first.stop()
    second, other = following(client), following(client, "s2")
    assert second.of("t") == [SKIP, REPLACE]
    assert other.of("t") == second.of("t2") == []

    for subtask in (
        standing(None),
        standing(Position("bin.000009", 4), pb.Load),
        standing(Position("bin.000001", 100)),
    ):
        second.forget_passed(subtask)
    assert len(client.get_prefix(keys.BINLOG_OPERATOR.prefix())[0]) == 2
    second.forget_passed(standing(Position("bin.000001", 101)))
    assert [kv.key for kv in client.get_prefix(keys.BINLOG_OPERATOR.prefix())[0]] == [REPLACE.key]

    changed = BinlogOperator("skip", "t", "s1", REPLACE.position)
    second.put(changed)
    assert changed in second.of("t")
    second.remove(changed)
    assert changed not in second.of("t")
    for follower in (second, other):
        follower.stop()


def test_a_damaged_order_stops_its_own_statement_only(client: EtcdClient) -> None:
    client.put(SKIP.key, '{"op":"x"}')
    client.put(keys.BINLOG_OPERATOR.key("s1", "t", "here"), "")
    client.put(REPLACE.key, REPLACE.to_json())
    operators = following(client)
    damaged, whole = sorted(operators.of("t"), key=lambda one: one.position)
    assert (damaged.kind, damaged.at, whole) == ("damaged", SKIP.at, REPLACE)
    (shown, _) = json.loads(listing([damaged, whole]))
    assert (shown["binlogPos"], "in place of a BinlogOperator" in shown["error"]) == (SKIP.position, True)
    assert readable(whole) == whole
    with pytest.raises(DMError, match="can't be read") as caught:
        readable(damaged)
    assert (caught.value.code, "binlog revert t -s s1 -b bin.000001:100" in caught.value.workaround) == (42502, True)
    operators.remove(damaged)
    assert operators.of("t") == [REPLACE]
    operators.stop()


def test_a_task_that_was_stopped_gets_no_orders(client: EtcdClient) -> None:
    operators = following(client)
    client.delete(keys.SUBTASK.key("s1", "t"))
    with pytest.raises(DMError) as caught:
        operators.put(SKIP)
    assert caught.value.kind is Code.WorkerSubTaskNotFound
    assert operators.of("t") == []
    operators.stop()
