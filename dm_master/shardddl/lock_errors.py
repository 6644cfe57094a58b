"""The errors of DDL locks in any shard mode: DM's codes and messages, and the operator actions that help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pkg.errors import Code, DMError, new


def unlocking(lock_id: object) -> str:
    """The unlock command, without its options."""
    return f"dmctl shard-ddl-lock unlock '{lock_id}'"


def not_found(lock_id: object) -> DMError:
    """38019."""
    return new(
        Code.MasterLockNotFound,
        f"lock with ID {lock_id} not found",
        workaround="`shard-ddl-lock` lists the locks. Quote the ID, it has backquotes.",
    )


def damaged(lock_id: object, records: Mapping[str, str]) -> DMError:
    """42502, for records that can't be read; ``records``: key → what is wrong with it."""
    return new(
        Code.HAInvalidItem,
        f"lock {lock_id} is blocked because it has damaged records: {', '.join(sorted(records))}",
        raw="; ".join(f"{key}: {text}" for key, text in sorted(records.items())),
        workaround="Repair the key with etcdctl. Or check whether the target's table has the DDLs, and drop the lock "
        f"(`{unlocking(lock_id)} --force-remove`): sources that still wait report again.",
    )


def outdated(lock_id: object) -> DMError:
    """38020, for a lock that changes too fast for an order."""
    return new(
        Code.MasterLockIsResolving,
        f"lock {lock_id} changed while it was to be unlocked",
        workaround="Check it again with `shard-ddl-lock`; it may proceed automatically.",
        retryable=True,
    )


def not_executed(lock_id: object, source: str, seconds: float, cause: str) -> DMError:
    """38024: after an order, its owner has not executed within ``seconds``."""
    return new(
        Code.MasterOwnerExecDDL,
        f"owner {source} of lock {lock_id} has not confirmed the execution of its DDLs within {seconds:g} s",
        raw=cause,
        workaround="The unlock stays requested and takes effect as soon as the owner can proceed; `query-status` "
        "shows what blocks the owner. To let another source execute the DDLs: "
        f"`{unlocking(lock_id)} --force-remove --owner SOURCE`.",
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
