"""A lock must wait for every source concerned and for no other; what stays after a stop, case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from dm_master.shardddl.locks import UnlockOrder
from dm_master.shardddl.pessimistic.problems import side_by_side
from pkg.ha.shard_ddl import DDLTexts
from pkg.pb import dmmaster_pb2 as pb
from tests.unit.dm_master.shardddl.support import ADD_A, ADD_B, LOCK, TASK, LockWorld, answer, executed, wait, world_of


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


def test_a_waiting_lock_shows_what_will_run_who_is_waited_for_and_since_when() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    wait(world, "s3", "s1")
    shown = answer(world)
    expected = pb.DDLLock(ID=LOCK, task=TASK, mode="pessimistic", owner="s3", DDLs=ADD_A)
    expected.synced[:], expected.unsynced[:], expected.waitsFor[:] = ["s1", "s3"], ["s2"], ["s2"]
    expected.phase, expected.since = "waiting", "2026-01-01T00:00:03Z"
    expected.unlocks.add(op=pb.SkipLock)
    assert list(shown.locks) == [expected]
    assert shown.msg == (
        f"{LOCK}: waiting since 2026-01-01T00:00:03Z, waits for s2; s3 will execute its DDLs, the others skip them"
    )
    assert answer(world, task="other").msg == "no DDL lock exists"
    assert answer(world, sources=["s9"]).msg == "no DDL lock exists"
    assert len(answer(world, task=TASK, sources=["s2"]).locks) == 1


@pytest.mark.parametrize(
    ("ahead", "phase", "waits"), [(0, "executing", "s1"), (1, "executing", "s1"), (2, "skipping", "s2")]
)
def test_a_resolving_lock_shows_who_must_act(ahead: int, phase: str, waits: str) -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    world.lead()
    for step in (world.obey, world.confirm)[:ahead]:
        assert step(world.shards["s1", "t"])
    world.hear()
    assert f": {phase} since 2026-01-01T00:00:01Z, waits for {waits}; " in answer(world).msg
    assert list(answer(world).locks[0].synced) == ["s1", "s2"]


def test_different_ddls_are_shown_side_by_side_with_actions() -> None:
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
    world.leaves_nothing("s1")
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


def test_an_owner_that_starts_over_leaves_behind_that_others_may_skip() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    wait(world, "s1", "s2", "s3")
    for act in (world.obey, world.confirm):
        world.lead()
        act(world.shards["s1", "t"])
        world.hear()
    world.lead()
    world.set_members(["s2", "s3"])
    world.leaves_nothing("s1")
    world.settle()
    assert executed(world) == [("s1", ADD_A)]
    assert not world.etcd.all()


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
    world.leaves_nothing("s2")
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


def test_a_task_that_starts_over_forgets_its_locks_and_no_others() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    world.unlock(LOCK, UnlockOrder())
    world.hear()
    world.lead()
    world.has_tables("s1", ["t"])
    world.etcd.commit(world.locks.forget("other"))
    assert len(world.etcd.all()) == 4
    world.etcd.commit(world.locks.forget(TASK))
    assert not world.etcd.all()


def test_locks_of_several_tables_do_not_wait_for_each_other() -> None:
    sources: Mapping[str, Sequence[DDLTexts]] = {"s1": [ADD_A], "s2": [ADD_A]}
    world = LockWorld({"t": sources, "u": sources})
    for table, source in (("t", "s1"), ("u", "s2"), ("u", "s1")):
        assert world.report(world.shards[source, table])
    world.hear()
    assert world.lead()
    world.hear()
    assert [(str(lock.id), world.locks.decide(lock).phase) for lock in world.locks.all()] == [
        ("merge-`db`.`t`", "waiting"),
        ("merge-`db`.`u`", "executing"),
    ]
