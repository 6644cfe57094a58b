"""What a source says next in a lock of shard DDL, by what it wants and what etcd has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dm_worker.syncer.shard_ddl.group import Statements, Table
from dm_worker.syncer.shard_ddl.source_groups import Acknowledge, Report
from pkg.ha.shard_ddl import ShardInfo, ShardOperation
from pkg.ha.shard_ddl_steps import StoredRecord

Wish = Report | Acknowledge


class Say(Enum):
    """WAIT: others must act first. REPORT: write what it waits with. CONFIRM: set the operation to done. WITHDRAW: what
    it waits with."""

    WAIT = auto()
    REPORT = auto()
    CONFIRM = auto()
    WITHDRAW = auto()


@dataclass(frozen=True, slots=True)
class Decided:
    """Level 2 has decided on what the source reported."""

    target: Table
    statements: Statements
    execute: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """What was :class:`Decided` is taken back; another decision may follow."""

    target: Table


@dataclass(frozen=True, slots=True)
class Arrived:
    """Level 2 knows that the last decision is obeyed."""

    target: Table


News = Decided | Revoked | Arrived


def next_move(
    wish: Wish, operation: StoredRecord[ShardOperation] | None, reported: ShardInfo | None
) -> Say | Decided | Arrived:
    """What follows for one lock. An operation that is done stays until all sources are: nothing is reported before."""
    if isinstance(wish, Acknowledge):
        if operation is None:
            # What was obeyed is over, or was taken back: then the DDL may have been reported again meanwhile.
            return Arrived(wish.target) if reported is None else Say.WITHDRAW
        # The next DDL is not reported yet, so another operation on these statements is about what is done already.
        meant = operation.create_revision == wish.revision or operation.record.ddls == wish.statements
        return Say.CONFIRM if meant and not operation.record.done else Arrived(wish.target)
    if operation is None:
        known = reported is not None and reported.ddls == wish.statements
        return Say.WAIT if known else Say.REPORT
    if operation.record.done:
        return Say.WAIT
    return Decided(wish.target, operation.record.ddls, operation.record.execute, operation.create_revision)
