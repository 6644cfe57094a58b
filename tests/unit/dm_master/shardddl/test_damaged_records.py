"""Damaged records of locks: the lock stands still and says so, the others go on, a person gets out of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dm_master.shardddl.locks import UnlockOrder
from pkg.errors import Code
from pkg.etcd.types import Delete, Put
from pkg.ha.keys import SHARD_DDL_TABLES
from pkg.ha.shard_ddl_steps import LockId, LockStep
from tests.unit.dm_master.shardddl.support import (
    ADD_A,
    LOCK,
    TASK,
    LockWorld,
    answer,
    executed,
    refusal,
    wait,
    world_of,
)

ID = LockId(TASK, "db", "t")
NO_KEY_OF_OURS = "/dm-master/shardddl-pessimism/info/61/62"


def put(world: LockWorld, key: str, value: str) -> None:
    assert world.etcd.commit(LockStep((), (Put(key, value),)))
    world.hear()


@pytest.mark.parametrize(
    "key", [ID.info_key("s2"), ID.operation_key("s2"), ID.unlock_key], ids=["info", "operation", "unlock"]
)
@pytest.mark.parametrize("value", ["", "[]", '{"ddls": 1}'])
def test_a_lock_with_a_damaged_record_stands_still_until_it_is_repaired(key: str, value: str) -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    put(world, key, value)
    wait(world, "s1")
    assert world.locks.steps() == []
    [shown] = answer(world).locks
    assert shown.phase == "damaged"
    assert "[code=42502:" in shown.problem
    assert key in shown.problem
    assert "--force-remove" in shown.problem
    for order in (UnlockOrder(), UnlockOrder("s1", force_remove=True)):
        assert refusal(world, order).kind is Code.HAInvalidItem
    world.etcd.commit(LockStep((), (Delete(key),)))
    world.hear()
    world.settle()
    assert executed(world) == [("s1", ADD_A)]


def test_a_damaged_operation_does_not_pass_for_what_it_was_before() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    assert world.lead()
    put(world, ID.operation_key("s1"), "?")
    assert world.locks.steps() == []


def test_force_remove_ends_a_damaged_lock_if_it_is_the_one_that_was_seen() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    put(world, ID.operation_key("s2"), "?")
    put(world, ID.unlock_key, "?")
    outdated = world.locks.unlock(LOCK, UnlockOrder(force_remove=True))
    put(world, ID.operation_key("s2"), "??")
    assert not world.etcd.commit(outdated)
    assert world.unlock(LOCK, UnlockOrder(force_remove=True))
    assert not world.etcd.all()
    world.settle()
    assert executed(world) == [("s1", ADD_A)]


@pytest.mark.parametrize("key", [NO_KEY_OF_OURS, SHARD_DDL_TABLES.key(TASK, "s2")], ids=["key", "tables"])
def test_damage_that_is_of_no_lock_is_ignored_and_reported(key: str) -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    world.has_tables("s2", [])
    put(world, key, "?")
    assert f"etcd's key {key} is damaged" in answer(world).msg
    wait(world, "s1", "s2")
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    world.etcd.commit(LockStep((), (Delete(key),)))
    world.hear()
    assert answer(world).msg == "no DDL lock exists"


def test_a_source_whose_tables_are_damaged_is_waited_for() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    world.has_tables("s2", [])
    put(world, SHARD_DDL_TABLES.key(TASK, "s2"), "?")
    wait(world, "s1")
    [lock] = world.locks.all()
    assert world.locks.members(lock) == {"s1", "s2"}


@pytest.mark.parametrize("rebuild", [lambda world: world.restart_master(), lambda world: None])
def test_a_new_master_sees_the_same_damage(rebuild: Callable[[LockWorld], None]) -> None:
    world = world_of(s1=[ADD_A])
    put(world, ID.info_key("s1"), "?")
    put(world, NO_KEY_OF_OURS, "?")
    before = world.locks
    rebuild(world)
    assert world.locks == before
