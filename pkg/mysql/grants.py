"""What a user may do, from the lines of SHOW GRANTS."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.mysql.introspect import query

_GRANT = re.compile(
    r"^GRANT (?P<privileges>.+?) ON (?:TABLE |(?P<routine>PROCEDURE|FUNCTION) )?(?P<object>\S.*?) TO ", re.IGNORECASE
)
_PASSED_ON = re.compile(r"\bWITH GRANT OPTION\b", re.IGNORECASE)
_OF_COLUMNS = re.compile(r"([A-Za-z ]+?) *\(([^)]*)\)")
_REVOKE = re.compile(r"^REVOKE (?P<privileges>.+?) ON (?P<object>\S.*?) FROM ", re.IGNORECASE)
_OBJECT = re.compile(r"^(?P<schema>\*|`(?:[^`]|``)+`|[^.`]+)\.(?P<table>\*|`(?:[^`]|``)+`|[^.`]+)$")
_ROLE = re.compile(r"^GRANT (?P<roles>(?:`[^`]+`(?:@`[^`]+`)?(?:, ?)?)+) TO ", re.IGNORECASE)
#: Other names of a privilege.
_SAME = {
    "BINLOG MONITOR": "REPLICATION CLIENT",
    "REPLICATION REPLICA": "REPLICATION SLAVE",
    "FLUSH_TABLES": "RELOAD",
}


#: The right to grant the other privileges. ALL PRIVILEGES does not include it.
GRANT_OPTION = "GRANT OPTION"


@dataclass(frozen=True, slots=True)
class _Grant:
    """``routine``: procedure or function, '' for a grant on tables. ``columns``: privileges on single columns."""

    privileges: frozenset[str]
    schema: str
    table: str
    revoked: bool
    routine: str = ""
    columns: frozenset[tuple[str, str]] = frozenset()

    def gives(self, privilege: str) -> bool:
        return privilege in self.privileges or ("ALL" in self.privileges and privilege != GRANT_OPTION)

    def covers(self, schema: str, table: str) -> bool:
        if self.schema != "*" and not _like(self.schema, schema, exact=self.table != "*" or self.revoked):
            return False
        return self.table in ("*", table)


class Grants:
    """The grants of one user; the caller adds the lines of the user's roles."""

    def __init__(self, lines: Iterable[str]) -> None:
        every = [grant for line in lines if (grant := _parse(line))]
        self._grants = [grant for grant in every if not grant.routine]
        self._routines = [grant for grant in every if grant.routine]

    def allows(self, privilege: str, schema: str = "", table: str = "") -> bool:
        """Whether the privilege holds globally, or on the schema, or on the table.

        With an empty ``schema`` only a global grant counts; with an empty ``table`` a grant on one table does not.
        """
        held = False
        for grant in self._grants:
            if not grant.gives(privilege):
                continue
            covers = grant.covers(schema, table) if schema else grant.schema == "*"
            if covers:
                held = not grant.revoked
        return held

    def tables(self) -> frozenset[tuple[str, str]]:
        """The tables that grants name by themselves."""
        return frozenset((grant.schema.replace("\\", ""), grant.table) for grant in self._grants if grant.table != "*")

    def columns(self, schema: str, table: str) -> frozenset[tuple[str, str]]:
        """The privileges on single columns of a table: pairs of privilege and column."""
        own = (grant.columns for grant in self._grants if (grant.schema, grant.table) == (schema, table))
        return frozenset(pair for columns in own for pair in columns)

    def routines(self, schema: str) -> frozenset[tuple[str, str, str]]:
        """The privileges on single routines of a schema: kind, name, privilege."""
        return frozenset(
            (grant.routine, grant.table, privilege)
            for grant in self._routines
            if grant.schema == schema
            for privilege in grant.privileges
        )

    def withdrawn_schemas(self) -> frozenset[str]:
        """The schemas that privileges on all schemas do not include, by partial revokes."""
        return frozenset(grant.schema for grant in self._grants if grant.revoked)


def fetch_grants(conn: Connection[Any], flavor: str) -> Grants:
    """The grants of the connection's user, including those of its roles."""
    lines = [str(row[0]) for row in query(conn, "SHOW GRANTS")]
    roles = roles_of(lines)
    if roles and flavor == "mysql":
        using = f"SHOW GRANTS FOR CURRENT_USER() USING {', '.join(roles)}"
        lines = [str(row[0]) for row in query(conn, using)]
    elif flavor == "mariadb":
        for role in roles:
            lines += _role_grants(conn, role)
    return Grants(lines)


def _role_grants(conn: Connection[Any], role: str) -> list[str]:
    try:
        return [str(row[0]) for row in query(conn, f"SHOW GRANTS FOR {role}")]
    except pymysql.err.OperationalError:
        return []  # grants of a role that the user may not see are not reliable


def roles_of(lines: Iterable[str]) -> tuple[str, ...]:
    """The roles that SHOW GRANTS names, as that server quotes them."""
    names: list[str] = []
    for line in lines:
        match = _ROLE.match(line)
        if match and " ON " not in line.upper().partition(" TO ")[0]:
            names += [name.strip() for name in match["roles"].split(",")]
    return tuple(names)


def _parse(line: str) -> _Grant | None:
    revoke = _REVOKE.match(line)
    match = revoke or _GRANT.match(line)
    if match is None:
        return None
    names = _OBJECT.match(match["object"])
    if names is None:
        return None
    privileges = _privileges(match["privileges"])
    if not revoke and _PASSED_ON.search(line, match.end()):
        privileges |= {GRANT_OPTION}
    return _Grant(
        privileges,
        _name(names["schema"]),
        _name(names["table"]),
        bool(revoke),
        "" if revoke else (match["routine"] or "").lower(),
        frozenset(
            (" ".join(privilege.upper().split()), _name(column.strip()))
            for privilege, columns in _OF_COLUMNS.findall(match["privileges"])
            for column in columns.split(",")
        ),
    )


def _privileges(text: str) -> frozenset[str]:
    # Grants on columns, SELECT (`a`, `b`), do not cover a whole table.
    bare = _OF_COLUMNS.sub("", text)
    names = {" ".join(part.upper().split()) for part in bare.split(",")}
    if "ALL PRIVILEGES" in names or "ALL" in names:
        return frozenset({"ALL"})
    return frozenset(_SAME.get(name, name) for name in names if name)


def _name(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _like(pattern: str, name: str, *, exact: bool) -> bool:
    """Schema names of grants on a whole schema are LIKE patterns; those of grants on a table are not."""
    if exact:
        return pattern.replace("\\", "") == name
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wildcard = {"%": ".*", "_": "."}
    regex = "".join(wildcard.get(part) or re.escape(part.removeprefix("\\")) for part in parts)
    return re.fullmatch(regex, name, re.DOTALL) is not None
