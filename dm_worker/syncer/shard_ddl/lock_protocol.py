"""What a source says next in a lock of shard DDL, by what it wants and what etcd has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dm_worker.syncer.shard_ddl.source_groups import AcknowledgeDDL, ReportDDL
from pkg.ha.shard_ddl import DDLTexts, ShardInfo, ShardOperation
from pkg.ha.shard_ddl_steps import StoredRecord
from pkg.mysql.names import TableId

LockRequest = ReportDDL | AcknowledgeDDL


class LockMove(Enum):
    """WAIT: others must act first. REPORT: write what it waits with. CONFIRM: set the operation to done. WITHDRAW: what
    it waits with."""

    WAIT = auto()
    REPORT = auto()
    CONFIRM = auto()
    WITHDRAW = auto()


@dataclass(frozen=True, slots=True)
class Decided:
    """The lock service has decided on what the source reported."""

    target: TableId
    statements: DDLTexts
    execute: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """What was :class:`Decided` is taken back; another decision may follow."""

    target: TableId


@dataclass(frozen=True, slots=True)
class Arrived:
    """The lock service knows that the last decision is obeyed."""

    target: TableId


LockNews = Decided | Revoked | Arrived


def next_move(
    request: LockRequest, operation: StoredRecord[ShardOperation] | None, reported: ShardInfo | None
) -> LockMove | Decided | Arrived:
    """What follows for one lock. An operation that is done stays until all sources are: nothing is reported before."""
    if isinstance(request, AcknowledgeDDL):
        if operation is None:
            # What was obeyed is over, or was taken back: then the DDL may have been reported again meanwhile.
            return Arrived(request.target) if reported is None else LockMove.WITHDRAW
        # The next DDL is not reported yet, so another operation on these statements is about what is done already.
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
    """Why the decision of ``revision`` could not be executed; "" while it is tried."""

    target: TableId
    revision: int
    text: str


def is_to_be_told(error: ExecutionError, operation: StoredRecord[ShardOperation] | None) -> bool:
    """Whether the lock service does not know ``error`` yet, and it is still about what is to be executed now."""
    if operation is None or operation.create_revision != error.revision or operation.record.done:
        return False
    return operation.record.error != error.text
