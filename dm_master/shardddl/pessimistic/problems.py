"""The errors of pessimistic locks: both sides of a difference, and sources that can't continue."""

from __future__ import annotations

from collections.abc import Sequence

from dm_master.shardddl.lock_errors import unlocking
from pkg.errors import Code, DMError, new
from pkg.ha.shard_ddl_steps import LockId


def resolving(lock_id: LockId, why: str) -> DMError:
    """38020."""
    return new(
        Code.MasterLockIsResolving,
        f"lock {lock_id} is resolving: {why}",
        workaround="Wait for it. If a source that it waits for never comes: stop the task there (`dmctl stop-task "
        f"{lock_id.task} -s SOURCE`), give its DDLs to another source (`{unlocking(lock_id)} --force-remove --owner "
        f"SOURCE`), or drop the lock (`{unlocking(lock_id)} --force-remove`).",
    )


def not_waiting(lock_id: object, source: str, waiting: Sequence[str]) -> DMError:
    """38022."""
    return new(
        Code.MasterWorkerNotWaitLock,
        f"worker {source or '(none)'} not waiting for DDL lock {lock_id}, sources that wait: [{' '.join(waiting)}]",
        workaround=f"Name one that waits: `{unlocking(lock_id)} --owner SOURCE`. Or remove the lock: "
        f"`{unlocking(lock_id)} --force-remove`; sources that still need it report again.",
    )


def owner_left(lock_id: object, source: str) -> DMError:
    """38024, for an owner that is no longer a source of the task."""
    return new(
        Code.MasterOwnerExecDDL,
        f"owner {source} of lock {lock_id} left the task before it confirmed its DDLs; they may be executed or not",
        workaround=f"Start the task on {source} again: it continues from its checkpoint. Or check the target's table "
        f"and let another source execute them: `{unlocking(lock_id)} --owner SOURCE`.",
    )


def not_executable(lock_id: object, source: str, error: str) -> DMError:
    """38024, for an owner that could not execute; ``error`` is the owner's, with the operator action."""
    return new(
        Code.MasterOwnerExecDDL,
        f"owner {source} of lock {lock_id} could not execute its DDLs; the other sources wait for it",
        raw=error,
        workaround=f"Do what its error says, on {source} alone: the other sources then continue by themselves. Or let "
        f"another source try: `{unlocking(lock_id)} --force-remove --owner SOURCE`.",
    )


def nobody_waits(lock_id: object, ddls: Sequence[str]) -> DMError:
    """38024, for an order that no source can carry out now."""
    return new(
        Code.MasterOwnerExecDDL,
        f"lock {lock_id} was unlocked, but no source is waiting to execute: {'; '.join(ddls)}",
        workaround=f"Wait until one reports again, name a source that waits (`{unlocking(lock_id)} --owner SOURCE`), "
        f"or drop the lock (`{unlocking(lock_id)} --force-remove`).",
    )


def difference(
    lock_id: LockId, first: str, ours: Sequence[str], other: str, theirs: Sequence[str], *, executed: bool
) -> DMError:
    """38016: what two sources reported, side by side. ``executed``: the target already has those of ``first``."""
    decide = (
        f"Those of {first} are executed. "
        if executed
        else f"To execute only those of {first}: `{unlocking(lock_id)} --owner {first}`; all, each once: "
        "the same with `--action exec`. "
    )
    return new(
        Code.MasterShardingDDLDiff,
        f"sharding ddls in ddl lock {lock_id} is different with {list(theirs)} of source {other}",
        raw=side_by_side(first, ours, other, theirs),
        workaround=f"All shards must run the same DDLs in the same order. Decide which is right. {decide}To drop or "
        f"change what source {other} sent: `dmctl binlog skip {lock_id.task} -s {other}` or `dmctl binlog replace "
        f'{lock_id.task} -s {other} "DDL"`. To start over: `{unlocking(lock_id)} --force-remove`.',
    )


def side_by_side(left: str, ours: Sequence[str], right: str, theirs: Sequence[str]) -> str:
    """Two sequences in columns; ``!`` marks the rows that differ."""
    rows = max(len(ours), len(theirs))
    column = [*ours, *["(nothing)"] * (rows - len(ours))]
    others = [*theirs, *["(nothing)"] * (rows - len(theirs))]
    width = max(len(text) for text in (left, *column))
    lines = [f"  {left:<{width}} | {right}"]
    lines += [f"{' ' if a == b else '!'} {a:<{width}} | {b}" for a, b in zip(column, others, strict=True)]
    return "\n".join(lines)
