"""The session variables of a QUERY event: the status variables of MySQL (to 9) and MariaDB (to 11.8).

Every code that their replicas know is here, with its treatment (docs/ddl-sessions.md describes it for operators):

- ``statement``: the meaning of a statement depends on it; it is set at the target, or followed, or refused by name.
- ``nothing``: it does not change the meaning of any DDL.
- ``target``: it controls how a server stores its files or what it requires of tables; the target has its own settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pkg.binlog.cursor import Cursor

VariableBearing = Literal["statement", "nothing", "target"]


class StatusVariable(NamedTuple):
    """One code: its name in the servers' sources, how its value is read, and the field of Query that stores it."""

    name: str
    bearing: VariableBearing
    read: Callable[[Cursor], Any]
    field: str = ""


def _uint(size: int) -> Callable[[Cursor], int]:
    return lambda cursor: cursor.uint(size)


def _uints(size: int, count: int) -> Callable[[Cursor], tuple[int, ...]]:
    return lambda cursor: tuple(cursor.uint(size) for _ in range(count))


def _flag(cursor: Cursor) -> bool:
    return cursor.uint(1) == 1


def _bytes(cursor: Cursor) -> bytes:
    return cursor.take(cursor.uint(1))


def _text(cursor: Cursor) -> str:
    return _bytes(cursor).decode()


def _terminated(cursor: Cursor) -> bytes:
    return cursor.take(cursor.uint(1) + 1)


def _user_and_host(cursor: Cursor) -> tuple[bytes, bytes]:
    return _bytes(cursor), _bytes(cursor)


def _schemas(cursor: Cursor) -> None:
    count = cursor.uint(1)
    # 254 means "too many databases to list".
    for _ in range(0 if count == 254 else count):
        cursor.zero_terminated()


def _gtid_flags(cursor: Cursor) -> None:
    # An ALTER in two phases: COMMIT and ROLLBACK (4 and 8) name the sequence number that began it.
    cursor.take(8 if cursor.uint(1) & 12 else 0)


def _pairs(cursor: Cursor) -> tuple[tuple[int, int], ...]:
    return tuple((cursor.uint(2), cursor.uint(2)) for _ in range(cursor.uint(1)))


VARIABLES: Mapping[int, StatusVariable] = MappingProxyType(
    {
        0: StatusVariable("FLAGS2", "statement", _uint(4), "flags"),
        1: StatusVariable("SQL_MODE", "statement", _uint(8), "sql_mode"),
        2: StatusVariable("CATALOG", "nothing", _terminated),
        3: StatusVariable("AUTO_INCREMENT", "statement", _uints(2, 2), "auto_increment"),
        # character_set_client, collation_connection, collation_server.
        4: StatusVariable("CHARSET", "statement", _uints(2, 3), "charsets"),
        5: StatusVariable("TIME_ZONE", "statement", _text, "time_zone"),
        6: StatusVariable("CATALOG_NZ", "nothing", _bytes),
        7: StatusVariable("LC_TIME_NAMES", "statement", _uint(2), "lc_time_names"),
        # character_set_database affects only LOAD DATA.
        8: StatusVariable("CHARSET_DATABASE", "nothing", _uint(2)),
        # For UPDATE of several tables.
        9: StatusVariable("TABLE_MAP_FOR_UPDATE", "nothing", _uint(8)),
        10: StatusVariable("MASTER_DATA_WRITTEN", "nothing", _uint(4)),
        # The definer of views and programs, which are not migrated.
        11: StatusVariable("INVOKER", "nothing", _user_and_host),
        12: StatusVariable("UPDATED_DB_NAMES", "nothing", _schemas),
        13: StatusVariable("MICROSECONDS", "statement", _uint(3), "microseconds"),
        16: StatusVariable("EXPLICIT_DEFAULTS_FOR_TIMESTAMP", "statement", _flag, "explicit_defaults_for_timestamp"),
        17: StatusVariable("DDL_LOGGED_WITH_XID", "nothing", _uint(8)),
        18: StatusVariable("DEFAULT_COLLATION_FOR_UTF8MB4", "statement", _uint(2), "utf8mb4_collation"),
        # It rejects tables; a table that it accepted exists.
        19: StatusVariable("SQL_REQUIRE_PRIMARY_KEY", "target", _uint(1)),
        20: StatusVariable("DEFAULT_TABLE_ENCRYPTION", "target", _uint(1)),
        128: StatusVariable("HRNOW", "statement", _uint(3), "microseconds"),
        129: StatusVariable("XID", "nothing", _uint(8)),
        130: StatusVariable("GTID_FLAGS3", "nothing", _gtid_flags),
        # The collation of charsets without a given one, where it is not the default: (charset's, collation's id).
        131: StatusVariable("CHARACTER_SET_COLLATIONS", "statement", _pairs, "charset_collations"),
    }
)


def read_status_variables(data: bytes) -> dict[str, Any]:
    """The fields of Query in the block.

    ``unknown_variable`` is the first unknown code: the bytes after it can't be read, as its length is unknown. Servers
    write the codes in ascending order, so all older codes are known.
    """
    cursor = Cursor(data)
    found: dict[str, Any] = {}
    while cursor.left:
        code = cursor.uint(1)
        variable = VARIABLES.get(code)
        if variable is None:
            found["unknown_variable"] = code
            break
        value = variable.read(cursor)
        if variable.field:
            found[variable.field] = value
    return found
