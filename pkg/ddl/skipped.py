"""The class of a QUERY event's statement, by its first keywords."""

from __future__ import annotations

from typing import Literal

from pkg.ddl.temporary import at_temporary_table, filled_by_query
from pkg.ddl.token_cursor import TokenCursor
from pkg.ddl.tokens import word_set

StatementClass = Literal["transaction", "skip", "dml", "ddl"]

_DML = word_set("""INSERT UPDATE DELETE REPLACE LOAD CALL DO SELECT WITH HANDLER""")
_MAINTENANCE = frozenset({"OPTIMIZE", "ANALYZE", "REPAIR"})
_UNLOGGED = ("NO_WRITE_TO_BINLOG", "LOCAL")
#: Objects without rows, and accounts: the target has its own.
_OBJECTS = word_set(
    """TRIGGER PROCEDURE VIEW FUNCTION TABLESPACE EVENT USER ROLE SERVER PACKAGE LOGFILE UNDO RESOURCE INSTANCE SRS
    LIBRARY"""
)
# Keywords between the verb and the object's kind.
_BEFORE_OBJECT = word_set("""OR REPLACE AGGREGATE TEMPORARY UNDO JSON RELATIONAL DUALITY""")


def classify_at(cursor: TokenCursor) -> StatementClass:
    """The class of the statement at the cursor, which does not move.

    *transaction*: BEGIN and COMMIT; *skip*: nothing to do on the target; *dml*: a statement that changed rows; *ddl*:
    everything else, even if it is not understood later.
    """
    verb = cursor.token.word
    if cursor.at_end or cursor.at_op(";"):
        return "skip"
    if _controls_transaction(cursor):
        return "transaction"
    if verb in _DML or filled_by_query(cursor):
        return "dml"
    if verb in ("CREATE", "ALTER", "DROP", "RENAME"):
        skipped = _object_kind(cursor) in _OBJECTS or at_temporary_table(cursor) or _respells_schema(cursor)
        return "skip" if skipped else "ddl"
    if verb in _MAINTENANCE:
        # MariaDB's ANALYZE without TABLE executes the statement that follows.
        return "skip" if _maintains(cursor) else "dml" if verb == "ANALYZE" else "ddl"
    if verb in ("SAVEPOINT", "FLUSH", "GRANT", "REVOKE") or _skipped_set(cursor):
        return "skip"
    return "ddl"


def skip_settings(cursor: TokenCursor) -> tuple[tuple[int, int], ...]:
    """Reads MariaDB's ``SET STATEMENT variable = value, … FOR`` (settings of the upstream's session); returns its
    span."""
    start = cursor.token.start
    if not cursor.accept("SET", "STATEMENT"):
        return ()
    while not cursor.accept("FOR"):
        if cursor.at_end:
            raise cursor.error("expected FOR")
        if cursor.at_op("("):
            cursor.parenthesised()
        else:
            cursor.advance()
    return ((start, cursor.last_end),)


def _skipped_set(cursor: TokenCursor) -> bool:
    return any(cursor.at_words("SET", *keywords) for keywords in (("PASSWORD",), ("ROLE",), ("DEFAULT", "ROLE")))


def _controls_transaction(cursor: TokenCursor) -> bool:
    """BEGIN … END of MariaDB is a block of statements that starts with the same keyword."""
    if cursor.token.word == "BEGIN":
        return cursor.ahead(2 if cursor.ahead(1).word == "WORK" else 1).text in ("", ";")
    return cursor.token.word == "COMMIT" or cursor.at_words("START", "TRANSACTION")


def _maintains(cursor: TokenCursor) -> bool:
    """Statistics and storage of tables: their rows stay. Only names and options can follow these keywords."""
    at = 2 if cursor.ahead(1).word in _UNLOGGED else 1
    kinds = ("TABLE", "TABLES", "VIEW") if cursor.token.word == "REPAIR" else ("TABLE", "TABLES")
    return cursor.ahead(at).word in kinds


def _respells_schema(cursor: TokenCursor) -> bool:
    """``ALTER DATABASE `#mysql50#…` UPGRADE DATA DIRECTORY NAME``: the encoding of the upstream's directory name."""
    names_schema = cursor.at_words("ALTER", "DATABASE") or cursor.at_words("ALTER", "SCHEMA")
    return names_schema and [cursor.ahead(at).word for at in (3, 4)] == ["UPGRADE", "DATA"]


def _object_kind(cursor: TokenCursor) -> str:
    """The keyword for the kind of object that CREATE, ALTER or DROP names."""
    at = 1
    while True:
        word = cursor.ahead(at).word
        if word == "DEFINER":
            at = _after_account(cursor, at + 2)
        elif word == "ALGORITHM" or (word == "SQL" and cursor.ahead(at + 1).word == "SECURITY"):
            at += 3
        elif word in _BEFORE_OBJECT and not (word == "UNDO" and cursor.ahead(at + 1).word != "TABLESPACE"):
            at += 1
        else:
            return "SRS" if word == "SPATIAL" and cursor.ahead(at + 1).word == "REFERENCE" else word


def _after_account(cursor: TokenCursor, at: int) -> int:
    """Skips ``user@host``, ``CURRENT_USER`` or ``CURRENT_USER()``."""
    at += 1
    if cursor.ahead(at).text == "(":
        at += 2
    return at + 2 if cursor.ahead(at).text == "@" else at
