"""Reads the programs and views of a server's schemas, and which of them its user may not see."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pymysql.connections import Connection

from dm_master.cutover.facts import Objects
from dm_master.inspection.inspected_server import InspectedServer
from pkg.mysql.introspect import ServerInfo, list_other_objects, query
from pkg.mysql.names import TableId

#: Kind, schema, name, then what defines the object.
_DEFINITIONS = (
    "SELECT 'view', TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION, CHECK_OPTION, SECURITY_TYPE"
    " FROM information_schema.VIEWS",
    "SELECT 'trigger', TRIGGER_SCHEMA, TRIGGER_NAME, ACTION_STATEMENT, ACTION_TIMING, EVENT_MANIPULATION,"
    " EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS",
    "SELECT LOWER(ROUTINE_TYPE), ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_DEFINITION, DTD_IDENTIFIER, IS_DETERMINISTIC,"
    " SQL_DATA_ACCESS, SECURITY_TYPE FROM information_schema.ROUTINES",
    "SELECT 'event', EVENT_SCHEMA, EVENT_NAME, EVENT_DEFINITION, EVENT_TYPE, EXECUTE_AT, INTERVAL_VALUE,"
    " INTERVAL_FIELD, ON_COMPLETION FROM information_schema.EVENTS",
)
_PARAMETERS = (
    "SELECT LOWER(ROUTINE_TYPE), SPECIFIC_SCHEMA, SPECIFIC_NAME, PARAMETER_MODE, PARAMETER_NAME, DTD_IDENTIFIER"
    " FROM information_schema.PARAMETERS WHERE ORDINAL_POSITION > 0"
    " ORDER BY SPECIFIC_SCHEMA, SPECIFIC_NAME, ROUTINE_TYPE, ORDINAL_POSITION"
)
#: From this version of MySQL on a privilege shows routines; before, and in MariaDB, the table that keeps them.
_SHOWS_ROUTINES_SINCE = (8, 0, 20)


def read_objects(conn: Connection[Any], schemas: Collection[str]) -> Objects:
    """The objects of the schemas that the user can see."""
    found: dict[str, dict[TableId, tuple[str, ...]]] = {}
    for schema, name, kind in list_other_objects(conn):
        if schema in schemas and kind.lower() != "view":
            found.setdefault(kind.lower(), {})[schema, name] = ()
    for kind, schema, name, *parts in (row for sql in _DEFINITIONS for row in query(conn, sql)):
        if str(schema) in schemas:
            texts = tuple("" if part is None else str(part) for part in parts)
            found.setdefault(str(kind), {})[str(schema), str(name)] = texts
    if found.keys() & {"procedure", "function"}:
        for kind, schema, name, *parts in query(conn, _PARAMETERS):
            of_kind, key = found.get(str(kind), {}), (str(schema), str(name))
            if key in of_kind:
                of_kind[key] += (" ".join(str(part or "") for part in parts),)
    return found


def hidden_kinds(server: InspectedServer, tables: Collection[TableId]) -> dict[str, str]:
    """The kinds of objects that the user may not see as a whole, with the privileges that it needs. ``tables``: the
    migrated ones of this server."""
    return dict(_hidden(server, tables, sorted({schema for schema, _ in tables})))


def _hidden(
    server: InspectedServer, tables: Collection[TableId], schemas: Collection[str]
) -> Iterator[tuple[str, str]]:
    grants = server.grants
    if not all(grants.allows("SHOW VIEW", schema) and grants.allows("SELECT", schema) for schema in schemas):
        yield "view", "SELECT and SHOW VIEW on the schemas"
    if server.info.flavor == "tidb":
        return
    if not all(grants.allows("TRIGGER", *table) for table in tables):
        yield "trigger", "TRIGGER on the tables"
    if not all(grants.allows("EVENT", schema) for schema in schemas):
        yield "event", "EVENT on the schemas"
    right, has = _sees_routines(server)
    if not has:
        yield from (("procedure", right), ("function", right))


def _sees_routines(server: InspectedServer) -> tuple[str, bool]:
    if _has_privilege_for_routines(server.info):
        return "SHOW_ROUTINE", any(server.grants.allows(right) for right in ("SHOW_ROUTINE", "SELECT"))
    if server.info.flavor == "mysql" and server.info.version >= (8, 0, 0):
        return "SELECT on *.*", server.grants.allows("SELECT")
    return "SELECT on mysql.proc", server.grants.allows("SELECT", "mysql", "proc")


def _has_privilege_for_routines(info: ServerInfo) -> bool:
    return info.flavor == "mysql" and info.version >= _SHOWS_ROUTINES_SINCE
