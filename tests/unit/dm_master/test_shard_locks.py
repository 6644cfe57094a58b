"""Locks of shard DDL, case by case: what an operator sees and may do, who is waited for, what stays after a stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from dm_master.shardddl import answers
from dm_master.shardddl.locks import Locks, Order
from dm_master.shardddl.messages import side_by_side
from pkg.errors import DMError
from pkg.ha.shard_ddl import Statements
from pkg.pb import dmmaster_pb2 as pb
from tests.unit.dm_master.shard_world import TASK, World

ADD_A: Statements = ("ALTER TABLE `db`.`t` ADD a INT",)
ADD_B: Statements = ("ALTER TABLE `db`.`t` ADD b INT",)
LOCK = "merge-`db`.`t`"


def world_of(**ddls: Sequence[Statements]) -> World:
    """One target table ``t``; a source's argument is what its shards run."""
    return World({"t": ddls})


def wait(world: World, *sources: str) -> None:
    for source in sources:
        assert world.report(world.shards[source, "t"], f"2026-01-01T00:00:0{source[-1]}Z")
    world.hear()


def executed(world: World) -> list[tuple[str, Statements]]:
    return world.targets["t"].executed


def answer(world: World, **request: str | Sequence[str]) -> pb.ShowDDLLocksResponse:
    return answers.show(world.locks, pb.ShowDDLLocksRequest(**request))  # type: ignore[arg-type]


def refusal(world: World, order: Order, lock_id: str = LOCK) -> DMError:
    with pytest.raises(DMError) as caught:
        world.unlock(lock_id, order)
    return caught.value


def test_the_first_to_report_executes_once_and_the_others_skip() -> None:
    world = world_of(s1=[ADD_A, ADD_B], s2=[ADD_A, ADD_B], s3=[ADD_A, ADD_B])
    wait(world, "s2", "s1")
    assert not world.lead()
    wait(world, "s3")
    assert world.lead()
    assert not world.lead(), "granted twice"
    world.hear()
    assert [world.operation(world.shards[source, "t"]) is not None for source in ("s1", "s2", "s3")] == [
        False,
        True,
        False,
    ]
    world.settle()
    assert executed(world)[0] == ("s2", ADD_A)
    assert [ddls for _, ddls in executed(world)] == [ADD_A, ADD_B]
    assert not world.etcd.all()


def test_the_end_of_one_ddl_does_not_touch_the_next_one() -> None:
    world = world_of(s1=[ADD_A, ADD_B], s2=[ADD_A, ADD_B])
    wait(world, "s1", "s2")
    for source in ("s1", "s2"):
        world.lead()
        world.obey(world.shards[source, "t"])
        world.confirm(world.shards[source, "t"])
        world.hear()
    assert world.lead()
    assert not world.etcd.all()
    # The next one is reported, and the master still believes in the former.
    assert world.report(world.shards["s1", "t"])
    before = dict(world.etcd.kvs)
    assert not world.lead()
    assert world.etcd.kvs == before


def test_no_lock_is_said_so() -> None:
    assert answer(world_of(s1=[], s2=[])) == pb.ShowDDLLocksResponse(result=True, msg="no DDL lock exists")


def test_a_waiting_lock_tells_what_will_run_who_is_waited_for_and_since_when() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    wait(world, "s3", "s1")
    shown = answer(world)
    assert list(shown.locks) == [
        pb.DDLLock(ID=LOCK, task=TASK, mode="pessimistic", owner="s3", DDLs=ADD_A, synced=["s1", "s3"], unsynced=["s2"])
    ]
    assert shown.msg == (
        f"{LOCK}: waiting since 2026-01-01T00:00:03Z, waits for s2; s3 will execute its DDLs, the others skip them"
    )
    assert answer(world, task="other").msg == "no DDL lock exists"
    assert answer(world, sources=["s9"]).msg == "no DDL lock exists"
    assert len(answer(world, task=TASK, sources=["s2"]).locks) == 1


@pytest.mark.parametrize(
    ("ahead", "phase", "waits"), [(0, "executing", "s1"), (1, "executing", "s1"), (2, "skipping", "s2")]
)
def test_a_resolving_lock_tells_who_must_act(ahead: int, phase: str, waits: str) -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    for step in (world.obey, world.confirm)[:ahead]:
        assert step(world.shards["s1", "t"])
    world.hear()
    assert f": {phase} since 2026-01-01T00:00:01Z, waits for {waits}; " in answer(world).msg
    assert list(answer(world).locks[0].synced) == ["s1", "s2"]


def test_different_ddls_are_shown_side_by_side_with_ways_out() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B], s3=[ADD_A])
    wait(world, "s1", "s2", "s3")
    assert not world.lead(), "executed although the shards differ"
    text = answer(world).msg
    assert "[code=38016:" in text
    assert f"! {ADD_A[0]} | {ADD_B[0]}" in text
    assert "binlog skip" in text
    assert f"shard-ddl-lock unlock '{LOCK}' --owner s1" in text


def test_the_order_of_ddls_matters() -> None:
    both, reverse = (*ADD_A, *ADD_B), (*ADD_B, *ADD_A)
    world = world_of(s1=[both], s2=[reverse])
    wait(world, "s1", "s2")
    assert not world.lead()
    assert "[code=38016:" in answer(world).msg


def test_a_corrected_ddl_ends_the_difference() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B])
    wait(world, "s1", "s2")
    world.shards["s2", "t"].ddls = [ADD_A]
    wait(world, "s2")
    world.settle()
    assert executed(world) == [("s1", ADD_A)]


def test_sequences_of_different_length_stand_side_by_side() -> None:
    assert side_by_side("s1", ("a", "bb"), "s2", ("a",)).splitlines() == [
        "  s1 | s2",
        "  a  | a",
        "! bb | (nothing)",
    ]


def test_unlock_executes_only_the_owners_and_the_others_skip() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B], s3=[ADD_A])
    wait(world, "s1", "s2", "s3")
    assert world.unlock(LOCK, Order(owner="s2"))
    world.settle()
    assert executed(world) == [("s2", ADD_B)]
    assert not world.locks.all()


def test_unlock_with_exec_executes_each_sequence_once_one_after_the_other() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B], s3=[ADD_A])
    wait(world, "s1", "s2", "s3")
    assert world.unlock(LOCK, Order(owner="s2", action="exec"))
    world.settle()
    assert executed(world) == [("s2", ADD_B), ("s1", ADD_A)]


def test_an_unlock_survives_the_master_that_took_it() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    wait(world, "s1", "s3")
    assert world.unlock(LOCK, Order(owner="s3"))
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
    assert world.unlock(LOCK, Order())
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    text = answer(world).msg
    assert "[code=38016:" in text
    assert "Those of s1 are executed." in text
    assert world.shards["s2", "t"].passed == 0


def test_an_owner_that_does_not_wait_is_refused() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    for owner in ("s2", "unknown"):
        error = refusal(world, Order(owner=owner))
        assert error.code == 38022
        assert "sources that wait: [s1]" in error.message


def test_a_lock_that_resolves_is_left_alone() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    world.hear()
    assert refusal(world, Order(owner="s2")).code == 38020
    world.obey(world.shards["s1", "t"])
    world.confirm(world.shards["s1", "t"])
    world.hear()
    assert refusal(world, Order()).code == 38020
    assert refusal(world, Order(owner="s2", force_remove=True)).code == 38020, "executed: nothing to take over"


def test_an_owner_that_cannot_execute_can_be_replaced_by_force() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    world.hear()
    assert world.unlock(LOCK, Order(owner="s2", force_remove=True))
    assert not world.obey(world.shards["s1", "t"])
    world.settle()
    assert executed(world) == [("s2", ADD_A)]
    assert world.shards["s1", "t"].skipped == [ADD_A]


def test_force_remove_forgets_and_those_that_wait_report_again() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    assert world.unlock(LOCK, Order(force_remove=True))
    assert not world.etcd.all()
    world.settle()
    assert [ddls for _, ddls in executed(world)] == [ADD_A]


def test_an_order_on_an_outdated_view_changes_nothing() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B])
    wait(world, "s1")
    stale = world.locks.unlock(LOCK, Order(owner="s1"))
    assert world.report(world.shards["s1", "t"])
    assert not world.etcd.commit(stale)


def test_an_order_given_while_the_owner_was_told_already_changes_nothing() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    assert world.lead()
    assert not world.unlock(LOCK, Order(owner="s2")), "the master has not read yet what it did"


def test_what_an_earlier_order_asked_for_is_not_done_after_a_later_one() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B])
    wait(world, "s1", "s2")
    assert world.unlock(LOCK, Order(owner="s1"))
    world.hear()
    [outdated] = world.locks.steps()
    assert world.unlock(LOCK, Order(owner="s2"))
    assert not world.etcd.commit(outdated)
    world.settle()
    assert executed(world) == [("s2", ADD_B)]


def test_what_the_operator_let_one_source_skip_another_that_comes_late_may_not() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B], s3=[ADD_B])
    wait(world, "s1", "s2")
    assert world.unlock(LOCK, Order(owner="s1"))
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    assert [len(world.shards[source, "t"].skipped) for source in ("s2", "s3")] == [1, 0]
    assert "[code=38016:" in answer(world).msg


def test_a_source_that_changed_its_report_meanwhile_is_not_told_to_skip() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    world.obey(world.shards["s1", "t"])
    world.confirm(world.shards["s1", "t"])
    world.hear()
    [skip] = world.locks.steps()
    world.shards["s2", "t"].ddls = [ADD_B]
    assert world.report(world.shards["s2", "t"])
    assert not world.etcd.commit(skip)


def test_a_source_that_joins_when_the_owner_has_gone_skips_what_another_may_skip() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    world.set_members(["s1", "s2"])
    wait(world, "s1", "s2")
    world.lead()
    world.obey(world.shards["s1", "t"])
    world.confirm(world.shards["s1", "t"])
    world.hear()
    world.lead()
    for step in world.locks.forget(TASK, ["s1"]):
        world.etcd.commit(step)
    world.set_members(["s2", "s3"])
    wait(world, "s3")
    world.lead()
    world.obey(world.shards["s3", "t"])
    assert executed(world) == [("s1", ADD_A)]
    assert world.shards["s3", "t"].skipped == [ADD_A]


def test_nothing_is_executed_that_a_source_has_withdrawn_meanwhile() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    assert world.withdraw(world.shards["s2", "t"])
    assert not world.lead()


def test_an_owner_that_begins_anew_leaves_behind_that_others_may_skip() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    wait(world, "s1", "s2", "s3")
    for act in (world.obey, world.confirm):
        world.lead()
        act(world.shards["s1", "t"])
        world.hear()
    world.lead()
    world.set_members(["s2", "s3"])
    for step in world.locks.forget(TASK, ["s1"]):
        assert world.etcd.commit(step)
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    assert not world.etcd.all()


@pytest.mark.parametrize(
    ("order", "lock_id", "code"), [(Order(), "other-`db`.`t`", 38019), (Order(action="x"), LOCK, 38041)]
)
def test_orders_that_make_no_sense_are_refused(order: Order, lock_id: str, code: int) -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    assert refusal(world, order, lock_id).code == code


def test_an_order_is_read_from_the_request() -> None:
    request = pb.UnlockDDLLockRequest(ID=LOCK, replaceOwner="s1", forceRemove=True, op=pb.ExecLock)
    assert answers.order_of(request) == Order("s1", True, "exec")
    assert answers.order_of(pb.UnlockDDLLockRequest(ID=LOCK)) == Order("", False, "skip")


def test_a_source_without_shards_of_the_table_is_not_waited_for() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[])
    wait(world, "s1", "s2")
    assert not world.lead(), "a source that told nothing may have shards"
    world.has_tables("s3", ["other"])
    world.hear()
    assert list(answer(world).locks[0].unsynced) == []
    world.settle()
    assert executed(world) == [("s1", ADD_A)]


def test_a_table_that_is_created_makes_its_source_a_member() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    world.has_tables("s2", [])
    world.has_tables("s2", ["t"])
    wait(world, "s1")
    assert not world.lead()
    world.etcd.commit(world.locks.forget(TASK, ["s2"])[0])
    world.hear()
    assert list(answer(world).locks[0].unsynced) == ["s2"], "who tells nothing is waited for"


def test_a_source_that_waits_is_a_member_although_its_tables_are_gone() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s2")
    world.has_tables("s2", [])
    wait(world, "s1")
    world.settle()
    assert executed(world) == [("s2", ADD_A)]
    assert world.shards["s1", "t"].skipped == [ADD_A]


def test_a_source_that_leaves_is_not_waited_for_and_its_report_goes() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    wait(world, "s3", "s1")
    world.set_members(["s1", "s2"])
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    assert not world.etcd.all()


def test_a_stopped_task_leaves_no_lock_that_nobody_has_executed() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    world.set_members([])
    world.settle()
    assert not world.etcd.all()


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_task_stopped_between_execution_and_skip_goes_on_where_it_stood(confirmed: bool) -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    world.obey(world.shards["s1", "t"])
    assert not confirmed or world.confirm(world.shards["s1", "t"])
    world.set_members([])
    world.settle()
    world.restart_master()
    world.set_members(["s1", "s2"])
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    assert world.shards["s2", "t"].skipped == [ADD_A]


def test_an_owner_that_leaves_while_it_executes_is_a_persons_decision() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    world.set_members(["s2"])
    world.settle()
    assert executed(world) == [], "somebody else executed what may be executed"
    assert "[code=38024:" in answer(world).msg
    assert refusal(world, Order()).code == 38022
    assert world.unlock(LOCK, Order(owner="s2"))
    world.settle()
    assert executed(world) == [("s2", ADD_A)]
    assert not world.etcd.all()


def test_an_order_that_nobody_can_carry_out_any_more_says_so() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    world.unlock(LOCK, Order())
    assert world.withdraw(world.shards["s1", "t"])
    world.hear()
    assert "no source waits any more" in answer(world).msg
    wait(world, "s2")
    assert world.lead(), "another source with the same DDLs executes them"


def test_a_task_that_begins_anew_forgets_its_locks_and_no_others() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    world.unlock(LOCK, Order())
    world.hear()
    world.lead()
    world.has_tables("s1", ["t"])
    for step in world.locks.forget("other", ["s1", "s2"]):
        world.etcd.commit(step)
    assert len(world.etcd.all()) == 4
    for step in world.locks.forget(TASK, ["s1", "s2"]):
        world.etcd.commit(step)
    assert not world.etcd.all()


def test_locks_of_several_tables_do_not_wait_for_each_other() -> None:
    sources: Mapping[str, Sequence[Statements]] = {"s1": [ADD_A], "s2": [ADD_A]}
    world = World({"t": sources, "u": sources})
    for table, source in (("t", "s1"), ("u", "s2"), ("u", "s1")):
        assert world.report(world.shards[source, table])
    world.hear()
    assert world.lead()
    world.hear()
    assert [(str(lock.id), world.locks.decide(lock).phase) for lock in world.locks.all()] == [
        ("merge-`db`.`t`", "waiting"),
        ("merge-`db`.`u`", "executing"),
    ]


def test_a_key_that_is_none_of_ours_is_an_error() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    kv = world.etcd.all()[0]
    with pytest.raises(DMError) as caught:
        Locks.rebuilt([type(kv)("/dm-master/shardddl-pessimism/x", "", 1, 1, 1)], {})
    assert caught.value.code == 42502
