"""Which statements of a session refer to its temporary tables rather than to real ones of the same name. Pure.

Sessions with ``binlog_format`` STATEMENT or MIXED log statements on temporary tables. As in a replica, the names are
stored per session, from CREATE TEMPORARY TABLE to the DROP that servers log at a session's end. An event that uses
a temporary table has a flag; events of the same procedure call may have it too. So both have to agree, the flag
and the name. MariaDB's RENAME TABLE has no flag, and prefers a temporary table; MySQL's renames only real ones.
"""

from __future__ import annotations

from dm_worker.syncer.checkpoint.temporary_names import TemporaryChanges, TemporaryTable
from pkg import ddl, errors
from pkg.binlog.events import QueryEvent
from pkg.errors import Code, DMError
from pkg.mysql.names import qualified

#: They work on the session's temporary table if it has one of that name. CREATE and DROP TABLE create and drop real
#: ones: a drop of temporary ones is logged as DROP TEMPORARY TABLE.
_ON_EITHER = ("truncate table", "alter table", "create index", "drop index")


class TemporaryTables:
    """The temporary tables of an upstream's sessions. ``known``: the durable ones, with the file of each."""

    def __init__(self, flavor: str, known: dict[TemporaryTable, str] | None = None) -> None:
        self._flavor = flavor
        self._known = dict(known or {})
        self._changes: dict[TemporaryTable, str | None] = {}

    def take_changes(self) -> TemporaryChanges:
        """The changes that are not durable yet."""
        changes, self._changes = self._changes, {}
        return changes

    def track(self, statement: ddl.DDLStatement, query: QueryEvent) -> None:
        """Tracks a CREATE or DROP of temporary tables."""
        for schema, table in statement.tables:
            self._put(_named(query, schema, table), query.file if statement.temporary == "made" else None)

    def takes(self, statement: ddl.DDLStatement, query: QueryEvent) -> bool:
        """Whether the statement (one pair of a RENAME TABLE) acts on a temporary table, which then has its new name.

        Raises 36068 where that is unknown, and for a table created LIKE a temporary one.
        """
        if not self._known or not statement.refs:
            return False
        self._ensure_own_structure(statement, query)
        subject = _named(query, statement.refs[0].schema, statement.refs[0].table)
        if subject not in self._known or not self._may_take(statement, query):
            return False
        if self._known[subject] != query.file:
            raise _undecided(statement, subject, self._known[subject])
        if statement.renamed is not None:
            self._put(_named(query, *statement.renamed[1]), self._known[subject])
            self._put(subject, None)
        return True

    def _may_take(self, statement: ddl.DDLStatement, query: QueryEvent) -> bool:
        if statement.kind == "rename table":
            return self._flavor == "mariadb"
        return statement.kind in _ON_EITHER and query.thread_specific

    def _ensure_own_structure(self, statement: ddl.DDLStatement, query: QueryEvent) -> None:
        like = statement.body.like if statement.body is not None else None
        if like is None or not query.thread_specific or _named(query, like.schema, like.table) not in self._known:
            return
        raise errors.new(
            Code.SyncerUnsupportedStmt,
            f"the table is made like {qualified(like.schema, like.table)}, a temporary table of the upstream's "
            f"session: {statement.sql[:500]}",
            workaround="Replace the statement with CREATE TABLE and the columns, as SHOW CREATE TABLE on the upstream "
            "shows them.",
        )

    def _put(self, name: TemporaryTable, file: str | None) -> None:
        self._changes[name] = file
        if file is None:
            self._known.pop(name, None)
        else:
            self._known[name] = file


def _named(query: QueryEvent, schema: str, table: str) -> TemporaryTable:
    return TemporaryTable(query.server_id, query.thread_id, schema, table)


def _undecided(statement: ddl.DDLStatement, name: TemporaryTable, file: str) -> DMError:
    """A restarted server has silently lost its temporary tables, and reuses the ids of sessions."""
    table = qualified(name.schema, name.table)
    return errors.new(
        Code.SyncerUnsupportedStmt,
        f"session {name.thread_id} of the upstream made a temporary table {table} in the binlog file {file}, and the "
        f"server may have restarted since: the statement is about that table, or about the real one: "
        f"{statement.sql[:500]}",
        workaround="Skip the statement if the session still has its temporary table; otherwise replace it with itself.",
    )
