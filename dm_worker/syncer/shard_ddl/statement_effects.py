"""The effect of a statement on merged shards: its part for the target at once, and the reports to the groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dm_worker.syncer.shard_ddl.source_groups import TargetOf
from pkg import ddl, errors
from pkg.ddl.statement import NoStructure, RenameTable
from pkg.errors import Code, DMError

#: Statements on schemas, not on merging tables; each shard may repeat them.
_OF_SCHEMAS = frozenset({"create database", "alter database"})
#: Statements that all tables of a group have to run.
_CHANGES = frozenset({"alter table", "create index", "drop index"})


def runs_at_once(statement: ddl.DDLStatement, route: TargetOf) -> bool:
    """Whether the target gets the statement when it is read.

    CREATE DATABASE and ALTER DATABASE change no column of any table, so no row depends on them. CREATE TABLE does
    nothing when another shard has created the target's table. Everything else waits for the other shards, or is not for
    the target: DROP and TRUNCATE would remove other shards' rows too.
    """
    if statement.kind in _OF_SCHEMAS:
        return True
    if statement.kind != "create table":
        return False
    like = statement.body.like if statement.body is not None else None
    # The copy of a shard is a separate target.
    return like is None or route(like.schema, like.table) != route(*statement.tables[0])


def changes_group(statement: ddl.DDLStatement) -> bool:
    """Whether all tables of a group have to run it. Raises 36068 for one that also renames the table."""
    if mixes_in_renaming(statement):
        raise _mixed(statement)
    return statement.kind in _CHANGES and not any(_renames(statement))


def mixes_in_renaming(statement: ddl.DDLStatement) -> bool:
    """Whether the statement changes its table and also renames it."""
    renames = _renames(statement)
    return any(renames) and not all(renames)


def renames_table(statement: ddl.DDLStatement) -> bool:
    return statement.kind == "rename table" or (statement.kind == "alter table" and not changes_group(statement))


def comes_to_nothing(given: ddl.DDLStatement, followed: Iterable[ddl.DDLStatement], route: TargetOf) -> bool:
    """Whether an operator's statement is for neither the target nor the groups, and differs from the upstream's effect.

    ``followed``: the actual or assumed upstream effect. Raises 36068 as :func:`changes_group`.
    """
    if given.kind == "create table" or runs_at_once(given, route) or changes_group(given):
        return False
    return not any(one.kind == given.kind and one.tables == given.tables for one in followed)


def goes_on(statement: ddl.DDLStatement) -> bool:
    """Whether the table is a shard before the statement and after it, also under another name."""
    return changes_group(statement) or renames_table(statement)


def _renames(statement: ddl.DDLStatement) -> list[bool]:
    return [isinstance(action, RenameTable) for action in statement.actions if not _is_modifier(action)]


def _is_modifier(action: object) -> bool:
    return isinstance(action, NoStructure) and action.modifier


def _mixed(statement: ddl.DDLStatement) -> DMError:
    return errors.new(
        Code.SyncerUnsupportedStmt,
        f"a merged table is changed and renamed by one statement: {statement.sql[:500]}",
        workaround="Rename merged tables with separate statements. To continue, give `binlog replace` the two "
        "statements separately.",
    )
