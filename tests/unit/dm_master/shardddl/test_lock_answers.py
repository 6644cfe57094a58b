"""An operator must see who waits for whom: held rows, progress of an order, query-status, numbers of locks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from dm_master.shardddl import lock_answers
from dm_master.shardddl.locks import UnlockOrder, UnlockProgress
from dm_master.shardddl.pessimistic import lock_views
from dm_master.shardddl.pessimistic.lock import progress
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from tests.unit.dm_master.shardddl.support import ADD_A, ADD_B, LOCK, TASK, LockWorld, wait, world_of

TARGET = "`db`.`t`"


def status(source: str, *groups: pb.ShardingGroup, task: str = TASK, result: bool = True) -> pb.QueryStatusResponse:
    subtask = pb.SubTaskStatus(name=task, sync=pb.SyncStatus(unresolvedGroups=groups))
    return pb.QueryStatusResponse(
        result=result, sourceStatus=pb.SourceStatus(source=source), subTaskStatus=[subtask]
    )  # fmt: skip


def test_rows_held_back_are_those_of_the_locks_target_and_task() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A], s4=[ADD_A])
    wait(world, "s1")
    [lock] = world.locks.all()
    statuses = [
        status("s1", pb.ShardingGroup(target=TARGET, heldRows=7), pb.ShardingGroup(target="`db`.`u`", heldRows=100)),
        status("s2"),
        status("s3", pb.ShardingGroup(target=TARGET, heldRows=9), task="other"),
        status("s4", pb.ShardingGroup(target=TARGET, heldRows=9), result=False),
    ]
    one = lock_answers.with_held_rows(lock_views.view(world.locks, lock), statuses)
    assert one.held_rows == {"s1": 7, "s2": 0}
    assert [(held.source, held.rows) for held in one.message().heldRows] == [("s1", 7), ("s2", 0)]
    assert one.describe().endswith("; rows held back: 7 by s1")


def test_a_lock_that_etcd_refuses_to_change_says_so() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    [lock] = world.locks.all()
    one = lock_views.view(world.locks, lock, errors.new(Code.HAFailTxnOperation, "too many operations"))
    assert "too many operations" in one.message().problem


def far(world: LockWorld) -> UnlockProgress:
    [lock] = world.locks.all()
    return progress(lock, world.locks.members(lock))


def work(world: LockWorld, *steps: Callable[[LockWorld], object]) -> None:
    for step in steps:
        assert step(world)
        world.hear()


def test_the_progress_of_an_order() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_B], s4=[ADD_A])
    wait(world, "s1", "s2", "s3")
    work(world, lambda w: w.unlock(LOCK, UnlockOrder("s2")))
    assert far(world) == UnlockProgress((), ("s2",), ("s1", "s3"), ("s4",))
    work(world, LockWorld.lead)
    assert far(world) == UnlockProgress((), ("s2",), ("s1", "s3"), ("s4",))
    owner = world.shards["s2", "t"]
    work(world, lambda w: w.obey(owner), lambda w: w.confirm(owner))
    assert far(world) == UnlockProgress(("s2",), (), ("s1", "s3"), ("s4",))
    work(world, LockWorld.lead)
    for shard in (world.shards["s1", "t"], world.shards["s3", "t"]):
        work(world, partial(LockWorld.obey, shard=shard), partial(LockWorld.confirm, shard=shard))
    assert far(world) == UnlockProgress(("s2",), (), (), ("s4",))
    assert lock_answers.describe_outcome(LOCK, far(world)) == (
        f"s2 executed the DDLs of lock {LOCK}, the others that waited skipped them; "
        "s4 did not wait: the same DDLs are skipped there when they come"
    )
    world.settle()
    assert "is resolved" in lock_answers.describe_outcome(LOCK, None)


def test_an_order_whose_owner_withdrew_names_who_had_the_ddls() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_B])
    wait(world, "s1", "s2")
    work(world, lambda w: w.unlock(LOCK, UnlockOrder("s1")), lambda w: w.withdraw(w.shards["s1", "t"]))
    assert far(world).executing == ("s1",)


def test_query_status_names_the_lock_and_its_owner_while_the_source_waits() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A], s3=[ADD_A])
    wait(world, "s2", "s1")
    waiting, other, unknown = status("s1"), status("s3"), status("s1", task="another")
    for one in (waiting, other, unknown):
        lock_views.add_locks(world.locks, one)
    [subtask] = waiting.subTaskStatus
    assert (subtask.unresolvedDDLLockID, subtask.sync.blockDDLOwner) == (LOCK, "s2")
    assert not subtask.sync.unresolvedGroups
    [subtask] = other.subTaskStatus
    assert (subtask.unresolvedDDLLockID, subtask.sync.blockDDLOwner) == ("", "")
    [group] = subtask.sync.unresolvedGroups
    assert (group.target, list(group.unsynced)) == (
        TARGET,
        ["this DM-worker doesn't receive any shard DDL of this group"],
    )
    assert unknown == status("s1", task="another")


def test_a_group_that_the_worker_knows_is_not_reported_as_unknown() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1")
    half = status("s2", pb.ShardingGroup(target=TARGET, synced=["`a`.`x`"], unsynced=["`a`.`y`"]))
    before = pb.QueryStatusResponse.FromString(half.SerializeToString())
    lock_views.add_locks(world.locks, half)
    assert half == before


def test_a_source_that_has_done_what_was_decided_no_longer_waits() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    owner = world.shards["s1", "t"]
    work(world, LockWorld.lead, lambda w: w.obey(owner), lambda w: w.confirm(owner))
    for source, lock in (("s1", ""), ("s2", LOCK)):
        shown = status(source)
        lock_views.add_locks(world.locks, shown)
        assert shown.subTaskStatus[0].unresolvedDDLLockID == lock


@pytest.mark.parametrize(("reported", "unsynced", "synced"), [("", 0, 0), ("1", 1, 0), ("12", 0, 1)])
def test_locks_are_counted_by_task_and_state(reported: str, unsynced: int, synced: int) -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, *(f"s{number}" for number in reported))
    world.lead()
    world.hear()
    expected = {(TASK, "Un-synced"): unsynced, (TASK, "Synced"): synced} if reported else {}
    assert lock_views.lock_states(world.locks) == expected, "series leave with the last lock"


def test_an_owner_that_cannot_execute_is_reported_to_whoever_waits_for_it() -> None:
    """DM shows the error of every source. The others go on by themselves once the owner has executed."""
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    work(world, LockWorld.lead)
    owner = world.shards["s1", "t"]

    def told() -> tuple[str, list[str], list[str]]:
        [lock] = world.locks.all()
        owners, others = status("s1"), status("s2")
        for one in (owners, others):
            lock_views.add_locks(world.locks, one)
        [mine], [theirs] = owners.subTaskStatus, others.subTaskStatus
        texts = [[f"{error.ErrCode} {error.RawCause}" for error in one.result.errors] for one in (mine, theirs)]
        return lock_views.view(world.locks, lock).problem, texts[0], texts[1]

    assert told() == ("", [], [])
    work(world, lambda w: w.fail(owner, "Duplicate entry"))
    problem, mine, theirs = told()
    assert "code=38024" in problem
    assert "Duplicate entry" in problem
    assert f"`dmctl shard-ddl-lock unlock '{LOCK}' --force-remove --owner SOURCE`" in problem
    # The owner's own status has its error already.
    assert (mine, theirs) == ([], ["38024 Duplicate entry"])
    work(world, lambda w: w.fail(owner, ""))
    assert told() == ("", [], [])
    work(world, lambda w: w.fail(owner, "Duplicate entry"), lambda w: w.obey(owner), lambda w: w.confirm(owner))
    assert told() == ("", [], [])
    world.settle()
    assert not world.locks.all()


def test_an_owner_that_cannot_execute_is_replaced_with_its_error() -> None:
    world = world_of(s1=[ADD_A], s2=[ADD_A])
    wait(world, "s1", "s2")
    work(world, LockWorld.lead, lambda w: w.fail(w.shards["s1", "t"], "Duplicate entry"))
    work(world, lambda w: w.unlock(LOCK, UnlockOrder("s2", force_remove=True)))
    [lock] = world.locks.all()
    assert not lock_views.view(world.locks, lock).problem
