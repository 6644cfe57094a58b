"""The errors of locks: DM's codes and messages, both sides of a difference, and the operator actions that help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pkg.errors import Code, DMError, new
from pkg.ha.shard_ddl_steps import LockId


def _unlock(lock_id: object) -> str:
    return f"dmctl shard-ddl-lock unlock '{lock_id}'"


def resolving(lock_id: LockId, why: str) -> DMError:
    """38020."""
    return new(
        Code.MasterLockIsResolving,
        f"lock {lock_id} is resolving: {why}",
        workaround="Wait for it. If a source that it waits for never comes: stop the task there (`dmctl stop-task "
        f"{lock_id.task} -s SOURCE`), give its DDLs to another source (`{_unlock(lock_id)} --force-remove --owner "
        f"SOURCE`), or drop the lock (`{_unlock(lock_id)} --force-remove`).",
    )


def not_waiting(lock_id: object, source: str, waiting: Sequence[str]) -> DMError:
    """38022."""
    return new(
        Code.MasterWorkerNotWaitLock,
        f"worker {source or '(none)'} not waiting for DDL lock {lock_id}, sources that wait: [{' '.join(waiting)}]",
        workaround=f"Name one that waits: `{_unlock(lock_id)} --owner SOURCE`. Or remove the lock: `{_unlock(lock_id)} "
        "--force-remove`; sources that still need it report again.",
    )


def owner_left(lock_id: object, source: str) -> DMError:
    """38024, for an owner that is not a source of the task any more."""
    return new(
        Code.MasterOwnerExecDDL,
        f"owner {source} of lock {lock_id} left the task before it confirmed its DDLs; they may be executed or not",
        workaround=f"Start the task on {source} again: it continues from its checkpoint. Or check the target's table "
        f"and let another source execute them: `{_unlock(lock_id)} --owner SOURCE`.",
    )


def not_executable(lock_id: object, source: str, error: str) -> DMError:
    """38024, for an owner that could not execute; ``error`` is its own, with the way past the DDL."""
    return new(
        Code.MasterOwnerExecDDL,
        f"owner {source} of lock {lock_id} could not execute its DDLs; the other sources wait for it",
        raw=error,
        workaround=f"Do what its error says, on {source} alone: the other sources then continue by themselves. Or let "
        f"another source try: `{_unlock(lock_id)} --force-remove --owner SOURCE`.",
    )


def nobody_waits(lock_id: object, ddls: Sequence[str]) -> DMError:
    """38024, for an order that no source can carry out any more."""
    return new(
        Code.MasterOwnerExecDDL,
        f"lock {lock_id} was unlocked, but no source is waiting to execute: {'; '.join(ddls)}",
        workaround=f"Wait until one reports again, name a source that waits (`{_unlock(lock_id)} --owner SOURCE`), or "
        f"drop the lock (`{_unlock(lock_id)} --force-remove`).",
    )


def damaged(lock_id: object, records: Mapping[str, str]) -> DMError:
    """42502, for records that can't be read; ``records``: key → what is wrong with it."""
    return new(
        Code.HAInvalidItem,
        f"lock {lock_id} is blocked because it has damaged records: {', '.join(sorted(records))}",
        raw="; ".join(f"{key}: {text}" for key, text in sorted(records.items())),
        workaround="Repair the key with etcdctl. Or check whether the target's table has the DDLs, and drop the lock "
        f"(`{_unlock(lock_id)} --force-remove`): sources that still wait report again.",
    )


def outdated(lock_id: object) -> DMError:
    """38020, for an order on a lock that changes faster than it can be given."""
    return new(
        Code.MasterLockIsResolving,
        f"lock {lock_id} changed while it was to be unlocked",
        workaround="Check it again with `shard-ddl-lock`; it may proceed automatically.",
        retryable=True,
    )


def not_executed(lock_id: object, source: str, seconds: float, cause: str) -> DMError:
    """38024: an order was given, and its owner has not executed within ``seconds``."""
    return new(
        Code.MasterOwnerExecDDL,
        f"owner {source} of lock {lock_id} has not confirmed the execution of its DDLs within {seconds:g} s",
        raw=cause,
        workaround="The unlock stays requested and takes effect as soon as the owner can proceed; `query-status` "
        f"shows what blocks the owner. To let another source execute the DDLs: `{_unlock(lock_id)} --force-remove "
        "--owner SOURCE`.",
    )


def not_skipped(lock_id: object, sources: Sequence[str], seconds: float, cause: str) -> DMError:
    """38025: the owner has executed, others have not skipped within ``seconds``."""
    return new(
        Code.MasterPartWorkerExecDDLFail,
        f"the DDLs of lock {lock_id} are executed, but sources {', '.join(sources)} have not confirmed within "
        f"{seconds:g} s that they skip them",
        raw=cause,
        workaround="The unlock stays requested: each source skips the DDLs as soon as it can. `query-status` shows "
        "what blocks it.",
    )


def not_started() -> DMError:
    """38046."""
    return new(
        Code.MasterPessimistNotStarted,
        "the shard-ddl pessimist has not started: this master has not read the locks yet",
        workaround="Try again in a moment. If it persists, the master's log shows why it cannot read etcd.",
        retryable=True,
    )


def difference(
    lock_id: LockId, first: str, ours: Sequence[str], other: str, theirs: Sequence[str], *, executed: bool
) -> DMError:
    """38016: what two sources reported, side by side. ``executed``: those of ``first`` are in the target already."""
    decide = (
        f"Those of {first} are executed. "
        if executed
        else f"To execute only those of {first}: `{_unlock(lock_id)} --owner {first}`; all, each once: "
        "the same with `--action exec`. "
    )
    return new(
        Code.MasterShardingDDLDiff,
        f"sharding ddls in ddl lock {lock_id} is different with {list(theirs)} of source {other}",
        raw=side_by_side(first, ours, other, theirs),
        workaround=f"All shards must run the same DDLs in the same order. Decide which is right. {decide}To drop or "
        f"change what source {other} sent: `dmctl binlog skip {lock_id.task} -s {other}` or `dmctl binlog replace "
        f'{lock_id.task} -s {other} "DDL"`. To start over: `{_unlock(lock_id)} --force-remove`.',
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
