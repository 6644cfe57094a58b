"""Translates a statement's session for the target: variables to set, and reasons to refuse. Pure.

``docs/ddl-sessions.md`` lists the treatment of every variable, flag and mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from pkg.binlog.charsets import collation_charset
from pkg.binlog.events import QueryEvent
from pkg.ddl import DDLKind, SessionDefaults
from pkg.ddl.sql_modes import MODES

#: Bits of flags2.
NO_CHECKS: Final = 1 << 15  # MariaDB: check_constraint_checks is off
EXPLICIT_TIMESTAMP: Final = 1 << 24  # MariaDB: explicit_defaults_for_timestamp is on
NO_FOREIGN_KEY_CHECKS: Final = 1 << 26
IF_EXISTS: Final = 1 << 28  # MariaDB: sql_if_exists is on
#: Flags of MariaDB only.
_MARIADB_MODES: Final = {4: "IGNORE_BAD_TABLE_OPTIONS", 32: "EMPTY_STRING_IS_NULL"}
EMPTY_STRING_IS_NULL: Final = 1 << 32
_TIME_ROUND_FRACTIONAL: Final = 1 << 34
_TIME_TRUNCATE_FRACTIONAL: Final = 1 << 32
#: Bits that no DDL depends on: POSTGRESQL, MSSQL, DB2, NO_KEY_OPTIONS, NO_TABLE_OPTIONS, NO_FIELD_OPTIONS,
#: MYSQL323, MYSQL40, ANSI and TRADITIONAL (which also set others), NO_AUTO_CREATE_USER; and MariaDB's
#: SIMULTANEOUS_ASSIGNMENT, which affects UPDATE.
_NO_BEARING: Final = sum(1 << bit for bit in (8, 10, 11, 13, 14, 15, 16, 17, 18, 27, 28))
_SIMULTANEOUS_ASSIGNMENT: Final = 1 << 33
#: From these patches of MariaDB 10.x on, events contain explicit_defaults_for_timestamp, which sessions may set; so do
#: those of 10.10 and later.
_TELL_EXPLICIT_TIMESTAMP: Final = {5: 17, 6: 9, 7: 5, 8: 4, 9: 2}
#: The collations that default_collation_for_utf8mb4 may have.
_UTF8MB4_COLLATIONS: Final = {45: "utf8mb4_general_ci", 255: "utf8mb4_0900_ai_ci"}
_OF_A_SCHEMA: Final[frozenset[DDLKind]] = frozenset({"create database", "alter database"})
#: Variables that not every target has.
OPTIONAL: Final = (
    "auto_increment_increment",
    "check_constraint_checks",
    "lc_time_names",
    "sql_if_exists",
)


@dataclass(frozen=True, slots=True)
class UpstreamSession:
    """The server whose statements run. ``explicit_timestamp`` is its explicit_defaults_for_timestamp, for events that
    do not contain their session's. ``engine`` is that of tables whose statements name none."""

    flavor: str
    version: tuple[int, int, int] = (0, 0, 0)
    explicit_timestamp: bool = True
    engine: str = ""

    def explicit_timestamp_of(self, event: QueryEvent) -> bool:
        """Whether explicit_defaults_for_timestamp was on in the session that ran the statement."""
        told = event.explicit_defaults_for_timestamp
        return self.explicit_timestamp if told is None else told


@dataclass(frozen=True, slots=True)
class TargetSession:
    """``flavor`` is mysql, mariadb or tidb. ``variables``: those of :data:`OPTIONAL` that it has; ``collations``: the
    names of its collations, by id. ``folds_names``: names that differ only in case are the same table."""

    flavor: str
    version: tuple[int, int, int]
    variables: frozenset[str] = frozenset()
    collations: Mapping[int, str] = field(default_factory=dict)
    folds_names: bool = False

    @property
    def chooses_fractions(self) -> bool:
        """Whether a session can choose between rounding and truncation of excess fractional seconds."""
        return self.version >= {"mariadb": (10, 4, 0), "mysql": (8, 0, 0)}.get(self.flavor, (99, 0, 0))

    @property
    def goes_on_alone(self) -> bool:
        """Whether the server continues a DDL whose connection has ended, also after its own restart."""
        return self.flavor == "tidb"

    @property
    def alters_like_mysql(self) -> bool:
        """Whether it executes all parts of an ALTER TABLE at once, and puts rows into partitions as MySQL does."""
        return self.flavor != "tidb"

    @property
    def knows_empty_as_null(self) -> bool:
        return self.flavor == "mariadb" and self.version >= (10, 3, 0)


def truncates_fractions(bits: int, flavor: str) -> bool:
    """Whether a session of that family truncates excess fractional seconds rather than rounding them."""
    return not bits & _TIME_ROUND_FRACTIONAL if flavor == "mariadb" else bool(bits & _TIME_TRUNCATE_FRACTIONAL)


def unknown_modes(bits: int, flavor: str) -> int:
    """The unknown bits."""
    own = _TIME_TRUNCATE_FRACTIONAL
    if flavor == "mariadb":
        own = sum(1 << bit for bit in _MARIADB_MODES) | _SIMULTANEOUS_ASSIGNMENT | _TIME_ROUND_FRACTIONAL
    return bits & ~(sum(1 << bit for bit in MODES) | _NO_BEARING | own)


def target_modes(bits: int, upstream: UpstreamSession, target: TargetSession) -> str:
    """sql_mode at the target, as close to the upstream's as possible."""
    found = [name for bit, name in MODES.items() if bits >> bit & 1]
    if upstream.flavor == target.flavor == "mariadb":
        known = target.knows_empty_as_null
        found += [name for bit, name in _MARIADB_MODES.items() if bits >> bit & 1 and (known or bit < 32)]
    truncates = truncates_fractions(bits, upstream.flavor)
    if target.chooses_fractions and truncates != (target.flavor == "mariadb"):
        found.append("TIME_TRUNCATE_FRACTIONAL" if truncates else "TIME_ROUND_FRACTIONAL")
    return ",".join(found)


def carries_fractions(bits: int, upstream: UpstreamSession, target: TargetSession) -> bool:
    """Whether the target treats fractional seconds as the session did."""
    return target.chooses_fractions or truncates_fractions(bits, upstream.flavor) == (target.flavor == "mariadb")


def in_plain_words(query: QueryEvent, upstream: UpstreamSession) -> QueryEvent:
    """The event with the explicit_defaults_for_timestamp of its flags, if this server's flags contain it."""
    if query.explicit_defaults_for_timestamp is not None or query.flags is None or upstream.flavor != "mariadb":
        return query
    major, minor, patch = upstream.version
    tells = (major, minor) >= (10, 10) or (major == 10 and patch >= _TELL_EXPLICIT_TIMESTAMP.get(minor, 1 << 16))
    explicit = bool(query.flags & EXPLICIT_TIMESTAMP)
    return replace(query, explicit_defaults_for_timestamp=explicit) if explicit or tells else query


def defaults_of(query: QueryEvent, collations: Mapping[int, str] = MappingProxyType({})) -> SessionDefaults:
    """The settings from the session of an event; ``collations`` are the upstream's by id."""
    return SessionDefaults(
        explicit_timestamp=query.explicit_defaults_for_timestamp,
        utf8mb4_collation=_UTF8MB4_COLLATIONS.get(query.utf8mb4_collation or 0, ""),
        server_collation=None if query.charsets is None else query.charsets[2],
        charset_collations=tuple(
            (collation_charset(charset), collations.get(chosen, "")) for charset, chosen in query.charset_collations
        ),
        if_exists=bool((query.flags or 0) & IF_EXISTS),
    )


def settings(
    kind: DDLKind,
    event: QueryEvent,
    timestamp: int,
    *,
    upstream: UpstreamSession,
    target: TargetSession,
    foreign_keys: bool,
) -> Iterator[str]:
    """The statements that give the target's session the event's settings, whatever statement it ran before.

    ``foreign_keys``: the task makes the target check foreign keys.
    """
    flags = event.flags or 0
    yield f"SET SESSION sql_mode = '{target_modes(event.sql_mode or 0, upstream, target)}'"
    yield f"SET SESSION time_zone = '{event.time_zone or '+00:00'}'"
    yield f"SET TIMESTAMP = {timestamp}.{event.microseconds:06}"
    # Checks only refuse: a statement that ran with them runs without.
    yield f"SET SESSION foreign_key_checks = {int(foreign_keys and not flags & NO_FOREIGN_KEY_CHECKS)}"
    increment, offset = event.auto_increment or (1, 1)
    wanted = {
        "auto_increment_increment": f"{increment}, SESSION auto_increment_offset = {offset}",
        "check_constraint_checks": str(int(not flags & NO_CHECKS)),
        "lc_time_names": str(event.lc_time_names or 0),
        "sql_if_exists": str(int(bool(flags & IF_EXISTS))),
    }
    yield from (f"SET SESSION {name} = {value}" for name, value in wanted.items() if name in target.variables)
    if event.charsets is not None:
        yield from _collations(kind, event.charsets, target)


def _collations(kind: DDLKind, charsets: tuple[int, int, int], target: TargetSession) -> Iterator[str]:
    """The collations of literals in expressions and of new schemas; or the charset: only statements on schemas need
    that the target knows the collation."""
    _, connection, server = charsets
    if connection in target.collations:
        yield f"SET SESSION collation_connection = {target.collations[connection]}"
    elif _knows_charset(target, connection):
        yield f"SET SESSION character_set_connection = {collation_charset(connection)}"
    if kind in _OF_A_SCHEMA:
        if server in target.collations:
            yield f"SET SESSION collation_server = {target.collations[server]}"
        else:
            yield f"SET SESSION character_set_server = {collation_charset(server)}"


def _knows_charset(target: TargetSession, collation: int) -> bool:
    prefix = f"{collation_charset(collation)}_"
    return any(name.startswith(prefix) for name in target.collations.values())
