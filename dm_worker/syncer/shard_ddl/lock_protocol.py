"""A source's next move in a lock of shard DDL, by its request and the content of etcd. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dm_worker.syncer.shard_ddl.source_groups import AcknowledgeDDL, ReportDDL
from pkg.ha.shard_ddl import DDLTexts, ShardInfo, ShardOperation
from pkg.ha.shard_ddl_steps import StoredRecord
from pkg.mysql.names import TableId

LockRequest = ReportDDL | AcknowledgeDDL


class LockMove(Enum):
    """WAIT: others must act first. REPORT: write the source's DDL. CONFIRM: set the operation to done. WITHDRAW: remove
    the report."""

    WAIT = auto()
    REPORT = auto()
    CONFIRM = auto()
    WITHDRAW = auto()


@dataclass(frozen=True, slots=True)
class Decided:
    """The lock service has decided on the source's report."""

    target: TableId
    statements: DDLTexts
    execute: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """A decision (:class:`Decided`) is revoked; another one may follow."""

    target: TableId


@dataclass(frozen=True, slots=True)
class Arrived:
    """The lock service knows that the last decision was followed."""

    target: TableId


LockNews = Decided | Revoked | Arrived


def next_move(
    request: LockRequest, operation: StoredRecord[ShardOperation] | None, reported: ShardInfo | None
) -> LockMove | Decided | Arrived:
    """The next move for one lock. An operation that is done stays until all sources are done: no report before that."""
    if isinstance(request, AcknowledgeDDL):
        if operation is None:
            # The followed decision is over, or was revoked: then the DDL may have been reported again meanwhile.
            return Arrived(request.target) if reported is None else LockMove.WITHDRAW
        # The next DDL is not reported yet, so another operation on these statements refers to a DDL that is done.
        meant = operation.create_revision == request.revision or operation.record.ddls == request.statements
        return LockMove.CONFIRM if meant and not operation.record.done else Arrived(request.target)
    if operation is None:
        known = reported is not None and reported.ddls == request.statements
        return LockMove.WAIT if known else LockMove.REPORT
    if operation.record.done:
        return LockMove.WAIT
    return Decided(request.target, operation.record.ddls, operation.record.execute, operation.create_revision)


@dataclass(frozen=True, slots=True)
class ExecutionError:
    """Why the decision of ``revision`` could not be executed; "" while it is executed."""

    target: TableId
    revision: int
    text: str


def is_to_be_told(error: ExecutionError, operation: StoredRecord[ShardOperation] | None) -> bool:
    """Whether the lock service does not know ``error`` yet, and it still refers to the current operation."""
    if operation is None or operation.create_revision != error.revision or operation.record.done:
        return False
    return operation.record.error != error.text
