"""Determines what happened to a statement without a recorded outcome, from the target's tables. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from dm_worker.syncer.checkpoint.ddl_table import ShownTables
from pkg import ddl
from pkg.ddl.statement import (
    AddColumn,
    AddIndex,
    AlterAction,
    ChangeColumn,
    DropColumn,
    DropIndex,
    NoStructure,
    RenameColumn,
    RenameIndex,
)

_EXCHANGE = "exchange table partition"
#: Statements that run with IF NOT EXISTS, or have the same result however often they run.
_HARMLESS = frozenset({"create database", "alter database", "create table", "truncate table"})


class StatementOutcome(Enum):
    """The known outcome of a statement. ``TRY``: another run does no harm, and the target itself answers."""

    RAN = "ran"
    DID_NOT_RUN = "did not run"
    TRY = "try"
    UNKNOWN = "unknown"


#: Whether a statement changes its tables from ``before`` to these texts; None when unknown.
LeadsTo = Callable[[tuple[str, ...]], bool | None]


def judge(statement: ddl.DDLStatement, before: ShownTables, now: ShownTables, leads_to: LeadsTo) -> StatementOutcome:
    """The outcome of a statement on tables that were ``before`` and are ``now``.

    ``leads_to`` is called only where it matters. No other statement of ours has changed the tables since: a statement
    is a barrier.
    """
    if now.definitions == before.definitions:
        return _of_unchanged(statement, before, now, leads_to)
    if statement.kind in ("drop table", "drop database"):
        return StatementOutcome.UNKNOWN if any(now.definitions) else StatementOutcome.RAN
    if statement.kind in _HARMLESS and not statement.or_replace:
        return StatementOutcome.TRY
    if statement.or_replace and not any(now.definitions):
        # Of a statement in two steps, the first one ran.
        return StatementOutcome.TRY
    if leads_to(now.definitions):
        return StatementOutcome.RAN
    return StatementOutcome.TRY if _is_told_by_the_target(statement) else StatementOutcome.UNKNOWN


def _of_unchanged(
    statement: ddl.DDLStatement, before: ShownTables, now: ShownTables, leads_to: LeadsTo
) -> StatementOutcome:
    """Without a visible change, it did not run, or has the same result when it runs again: TRUNCATE, FORCE, an
    unchanged column. Not if rows are exchanged or columns swapped."""
    if exchanges(statement):
        return _by_ids(before, now)
    if _renames_columns_among_others(statement) and leads_to(before.definitions) is not False:
        return StatementOutcome.UNKNOWN
    return StatementOutcome.DID_NOT_RUN


def exchanges(statement: ddl.DDLStatement) -> bool:
    """Whether it swaps a table's rows with those of a partition."""
    return any(isinstance(action, NoStructure) and action.what == _EXCHANGE for action in statement.actions)


def _by_ids(before: ShownTables, now: ShownTables) -> StatementOutcome:
    """Whether the table's file is now a partition's, or still the table's."""
    if not all(before.ids) or len(before.ids) != 2 or before.ids[0] == before.ids[1]:
        return StatementOutcome.UNKNOWN
    if now.ids == before.ids:
        return StatementOutcome.DID_NOT_RUN
    partitions, table = map(set, before.ids)
    swapped = {*now.ids[1]} <= partitions and table <= {*now.ids[0]} if len(now.ids) == 2 and all(now.ids) else False
    return StatementOutcome.RAN if swapped else StatementOutcome.UNKNOWN


def _renames_columns_among_others(statement: ddl.DDLStatement) -> bool:
    return len(ddl.split_alter(statement)) > 1 and any(map(_renames_column, statement.actions))


def _renames_column(action: AlterAction) -> bool:
    if isinstance(action, ChangeColumn):
        return action.old_name.lower() != action.column.name.lower()
    return isinstance(action, RenameColumn)


def _is_told_by_the_target(statement: ddl.DDLStatement) -> bool:
    """Whether a repetition is harmless: the server refuses it, or it does nothing."""
    if statement.kind in ("create index", "drop index"):
        return True
    actions = [one for one in statement.actions if not (isinstance(one, NoStructure) and one.modifier)]
    if statement.kind != "alter table" or len(actions) != 1:
        return False
    (action,) = actions
    if isinstance(action, AddIndex):
        return bool(action.index.name) or action.index.kind == "primary"
    if isinstance(action, NoStructure):
        return action.what == "drop table partition"
    return isinstance(action, AddColumn | DropColumn | DropIndex | RenameIndex) or _renames_column(action)
