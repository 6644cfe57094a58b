"""An operator's order must not execute a DDL twice or lose one: what is allowed in which state, case by case."""

from __future__ import annotations

import pytest

from dm_master.shardddl import lock_answers
from dm_master.shardddl.locks import UnlockOrder
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as pb
from tests.unit.dm_master.shardddl.support import (
    ADD_A,
    ADD_B,
    LOCK,
    answer,
    executed,
    offered_unlocks,
    refusal,
    wait,
    world_of,
)


def test_unlock_executes_only_the_owners_and_the_others_skip() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B], s3=[ADD_A])
    wait(world, "s1", "s2", "s3")
    assert world.unlock(LOCK, UnlockOrder(owner="s2"))
    world.settle()
    assert executed(world) == [("s2", ADD_B)]
    assert not world.locks.all()


def test_unlock_with_exec_executes_each_sequence_once_one_after_the_other() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B], s3=[ADD_A])
    wait(world, "s1", "s2", "s3")
    assert world.unlock(LOCK, UnlockOrder(owner="s2", action="exec"))
    world.settle()
    assert executed(world) == [("s2", ADD_B), ("s1", ADD_A)]


def test_an_unlock_survives_the_master_that_took_it() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    wait(world, "s1", "s3")
    assert world.unlock(LOCK, UnlockOrder(owner="s3"))
    world.restart_master()
    assert world.lead()
    world.restart_master()
    assert world.obey(world.shards["s3", "t"])
    world.settle()
    assert executed(world) == [("s3", ADD_A)]
    assert world.shards["s2", "t"].skipped == [ADD_A], "who comes late skips what was executed"


def test_who_comes_late_with_something_else_is_not_let_pass() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B])
    wait(world, "s1")
    assert world.unlock(LOCK, UnlockOrder())
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    text = answer(world).msg
    assert "[code=38016:" in text
    assert "Those of s1 are executed." in text
    (lock,) = world.locks.all()
    assert world.locks.decide(lock).phase == "conflict"
    assert refusal(world, UnlockOrder()).kind is Code.MasterLockIsResolving
    assert offered_unlocks(world.locks, lock) == []
    assert world.shards["s2", "t"].passed == 0


def test_an_owner_that_does_not_wait_is_refused() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    for owner in ("s2", "unknown"):
        error = refusal(world, UnlockOrder(owner=owner))
        assert error.kind is Code.MasterWorkerNotWaitLock
        assert "sources that wait: [s1]" in error.message


def test_a_lock_that_resolves_is_left_alone() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    world.hear()
    assert refusal(world, UnlockOrder(owner="s2")).kind is Code.MasterLockIsResolving
    world.obey(world.shards["s1", "t"])
    world.confirm(world.shards["s1", "t"])
    world.hear()
    assert refusal(world, UnlockOrder()).kind is Code.MasterLockIsResolving
    assert refusal(world, UnlockOrder(owner="s2", force_remove=True)).kind is Code.MasterLockIsResolving, (
        "executed: nothing to take over"
    )


def test_an_owner_that_cannot_execute_can_be_replaced_by_force() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    world.hear()
    assert world.unlock(LOCK, UnlockOrder(owner="s2", force_remove=True))
    assert not world.obey(world.shards["s1", "t"])
    world.settle()
    assert executed(world) == [("s2", ADD_A)]
    assert world.shards["s1", "t"].skipped == [ADD_A]


def test_force_remove_forgets_and_those_that_wait_report_again() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    assert world.unlock(LOCK, UnlockOrder(force_remove=True))
    assert not world.etcd.all()
    world.settle()
    assert [ddls for _, ddls in executed(world)] == [ADD_A]


def test_an_order_on_an_outdated_view_changes_nothing() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B])
    wait(world, "s1")
    stale = world.locks.unlock(LOCK, UnlockOrder(owner="s1"))
    assert world.report(world.shards["s1", "t"])
    assert not world.etcd.commit(stale)


def test_an_order_given_while_the_owner_was_notified_already_changes_nothing() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    assert world.lead()
    assert not world.unlock(LOCK, UnlockOrder(owner="s2")), "the master has not read yet what it did"


def test_what_an_earlier_order_asked_for_is_not_done_after_a_later_one() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B])
    wait(world, "s1", "s2")
    assert world.unlock(LOCK, UnlockOrder(owner="s1"))
    world.hear()
    [outdated] = world.locks.steps()
    assert world.unlock(LOCK, UnlockOrder(owner="s2"))
    assert not world.etcd.commit(outdated)
    world.settle()
    assert executed(world) == [("s2", ADD_B)]


def test_what_the_operator_let_one_source_skip_another_that_comes_late_may_not() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B], s3=[ADD_B])
    wait(world, "s1", "s2")
    assert world.unlock(LOCK, UnlockOrder(owner="s1"))
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    assert [len(world.shards[source, "t"].skipped) for source in ("s2", "s3")] == [1, 0]
    assert "[code=38016:" in answer(world).msg


@pytest.mark.parametrize(
    ("order", "lock_id", "code"), [(UnlockOrder(), "other-`db`.`t`", 38019), (UnlockOrder(action="x"), LOCK, 38041)]
)
def test_orders_that_make_no_sense_are_refused(order: UnlockOrder, lock_id: str, code: int) -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    assert refusal(world, order, lock_id).code == code


def test_an_order_is_read_from_the_request() -> None:
    request = pb.UnlockDDLLockRequest(ID=LOCK, replaceOwner="s1", forceRemove=True, op=pb.ExecLock)
    assert lock_answers.order_of(request) == UnlockOrder("s1", True, "exec")
    assert lock_answers.order_of(pb.UnlockDDLLockRequest(ID=LOCK)) == UnlockOrder("", False, "skip")


def test_a_stopped_task_leaves_no_lock_that_nobody_has_executed() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    world.set_members([])
    world.settle()
    assert not world.etcd.all()


def test_an_owner_that_leaves_while_it_executes_is_a_persons_decision() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    world.set_members(["s2"])
    world.settle()
    assert executed(world) == [], "somebody else executed what may be executed"
    assert "[code=38024:" in answer(world).msg
    assert refusal(world, UnlockOrder()).kind is Code.MasterWorkerNotWaitLock
    assert world.unlock(LOCK, UnlockOrder(owner="s2"))
    world.settle()
    assert executed(world) == [("s2", ADD_A)]
    assert not world.etcd.all()


def test_an_order_that_nobody_can_carry_out_any_more_says_so() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    world.unlock(LOCK, UnlockOrder())
    assert world.withdraw(world.shards["s1", "t"])
    world.hear()
    assert "no source is waiting" in answer(world).msg
    wait(world, "s2")
    assert world.lead(), "another source with the same DDLs executes them"
