"""Statements on temporary tables: the names in them, and whether they may have other effects. Pure.

A temporary table exists only in its session, and its rows are not for the target. Only its name matters: while it
exists, the session's other statements refer to it and not to the real table.
"""

from __future__ import annotations

from collections.abc import Iterator

from pkg.ddl.statement import TableRef, TemporaryEffect
from pkg.ddl.token_cursor import TokenCursor

#: The start of a query. None of these is a keyword in a column's definition: all are reserved, except VALUES of
#: partitions, which a temporary table can't have.
_QUERY = ("SELECT", "VALUES", "TABLE")


def at_temporary_table(cursor: TokenCursor) -> bool:
    """Whether CREATE or DROP of a temporary table is next."""
    at = 3 if cursor.ahead(1).word == "OR" else 1
    return cursor.ahead(at).word == "TEMPORARY" and cursor.ahead(at + 1).word in ("TABLE", "TABLES")


def filled_by_query(cursor: TokenCursor) -> bool:
    """Whether CREATE TEMPORARY TABLE is next, with a query that may change rows: in MariaDB the query may call
    functions that do, also through views, and the binlog contains nothing else of it. MySQL refuses such functions
    there (1746)."""
    if cursor.dialect.flavor == "mysql" or cursor.token.word != "CREATE" or not at_temporary_table(cursor):
        return False
    keywords = [token.word for token in cursor.behind()]
    return any(word in _QUERY for word in keywords[keywords.index("TABLE") + 1 :])


def temporary_tables(cursor: TokenCursor) -> TemporaryEffect:
    """Reads CREATE or DROP of temporary tables up to the names, and adds them to the cursor; '' for others."""
    if cursor.token.word not in ("CREATE", "DROP") or not at_temporary_table(cursor):
        return ""
    made = cursor.advance().word == "CREATE"
    cursor.accept("OR", "REPLACE")
    cursor.advance()
    cursor.advance()
    _ = cursor.accept("IF", "EXISTS") or cursor.accept("IF", "NOT", "EXISTS")
    for ref in _names(cursor):
        cursor.record_name(ref)
        if made:
            break
    return "made" if made else "dropped"


def _names(cursor: TokenCursor) -> Iterator[TableRef]:
    """The names of a list. A server can't run one without a schema, so a missing schema is no error here."""
    while True:
        start, first = cursor.token.start, cursor.name()
        schema, table = (first, cursor.name()) if cursor.accept_op(".") else (cursor.default_schema, first)
        yield TableRef(schema, table, start, cursor.last_end)
        if not cursor.accept_op(","):
            return
