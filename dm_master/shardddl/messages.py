"""What an operator is told about a lock: DM's codes and messages, both sides of a difference, the ways out."""

from __future__ import annotations

from collections.abc import Sequence

from pkg.errors import DMError, new


def resolving(lock_id: object, why: str) -> DMError:
    """38020."""
    return new(
        "MasterLockIsResolving",
        f"lock {lock_id} is resolving: {why}",
        workaround="Wait for it. If a source that it waits for never comes, stop the task there (`stop-task -s`), "
        "give its DDLs to another one (`--force-remove --owner <source>`), or drop the lock (`--force-remove`).",
    )


def not_waiting(lock_id: object, source: str, waiting: Sequence[str]) -> DMError:
    """38022."""
    return new(
        "MasterWorkerNotWaitLock",
        f"worker {source or '(none)'} not waiting for DDL lock {lock_id}, sources that wait: [{' '.join(waiting)}]",
        workaround="Name one that waits with `--owner`, or remove the lock with `--force-remove`: sources that still "
        "need it report again.",
    )


def owner_left(lock_id: object, source: str) -> DMError:
    """38024, for an owner that is no source of the task any more."""
    return new(
        "MasterOwnerExecDDL",
        f"owner {source} of lock {lock_id} left the task before it confirmed its DDLs; they may be executed or not",
        workaround=f"Start the task on {source} again: it goes on where it stood. Or look at the target's table and "
        "let another source execute them: `shard-ddl-lock unlock --owner <source>`.",
    )


def nobody_waits(lock_id: object, ddls: Sequence[str]) -> DMError:
    """38024, for an order that nobody can carry out any more."""
    return new(
        "MasterOwnerExecDDL",
        f"lock {lock_id} was unlocked, but no source waits any more to execute: {'; '.join(ddls)}",
        workaround="Wait until one reports again, name a source that waits with `shard-ddl-lock unlock --owner "
        "<source>`, or drop the lock (`--force-remove`).",
    )


def difference(
    lock_id: object, first: str, ours: Sequence[str], other: str, theirs: Sequence[str], *, executed: bool
) -> DMError:
    """38016: what two sources reported, side by side. ``executed``: those of ``first`` are in the target already."""
    decide = (
        f"Those of {first} are executed. "
        if executed
        else f"To execute only those of {first}: `shard-ddl-lock unlock '{lock_id}' --owner {first}`; all, each once: "
        "the same with `--action exec`. "
    )
    return new(
        "MasterShardingDDLDiff",
        f"sharding ddls in ddl lock {lock_id} is different with {list(theirs)} of source {other}",
        raw=side_by_side(first, ours, other, theirs),
        workaround="All shards must run the same DDLs in the same order. Decide which is right. "
        f"{decide}To drop or change what source {other} sent: `binlog skip` or `binlog replace` with `-s {other}`. "
        "To begin anew: `--force-remove`.",
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
