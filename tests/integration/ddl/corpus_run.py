"""Runs the corpus on a server, and gives what its binlog then holds, statement by statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from pkg.binlog import constants as c
from pkg.binlog.events import QueryEvent, parse_query
from pkg.binlog.streams.server_position import master_status
from pkg.ddl import classify
from pkg.ddl.sql_modes import sql_mode_text
from pkg.mysql.introspect import fetch_table_infos, list_schemas, list_tables, query
from pkg.mysql.names import qualified
from pkg.mysql.schema import TableInfo
from tests.ddl_corpus import Case, Flavor, Line, Version
from tests.integration.binlog_replay import events_between, here

SCHEMA = "corpus"
#: What MySQL 5.6 has by default: later versions refuse values and lengths that it takes.
_MYSQL_MODE = "NO_ENGINE_SUBSTITUTION"
Tables = Mapping[tuple[str, str], TableInfo]


@dataclass(frozen=True, slots=True)
class Logged:
    """A QUERY event, and when its session ran it."""

    query: QueryEvent
    timestamp: int


@dataclass(slots=True)
class Step:
    """One line: what the binlog has of it (no transactions' ends), and all tables after it.

    ``creates`` is what SHOW CREATE TABLE prints for those of :data:`SCHEMA` at the end of a case.
    """

    line: Line
    end: int
    tables: Tables
    logged: list[Logged] = field(default_factory=list)
    creates: list[str] = field(default_factory=list)


def run_cases(server: SQLServer, flavor: Flavor, version: Version, cases: Iterable[Case]) -> dict[str, list[Step]]:
    """Title → its lines for that server, each case in a session and a schema (:data:`SCHEMA`) of its own."""
    server.execute("FLUSH BINARY LOGS")
    start = here(server)
    watch = server.connect()
    try:
        steps = {case.title: _run(server, watch, case.for_server(flavor, version)) for case in cases}
    finally:
        watch.close()
    end = here(server).position
    assert end.name == start.position.name
    events = [event for event in events_between(server, start, end) if not event.artificial]
    at = 0
    for step in (step for case in steps.values() for step in case):
        while at < len(events) and events[at].log_pos <= step.end:
            if events[at].type in (c.QUERY_EVENT, c.MARIADB_QUERY_COMPRESSED_EVENT):
                logged = Logged(parse_query(events[at]), events[at].timestamp)
                if classify(logged.query.sql, sql_mode=sql_mode_text(logged.query.sql_mode)) != "transaction":
                    step.logged.append(logged)
            at += 1
    return steps


def _run(server: SQLServer, watch: Connection[Any], lines: list[Line]) -> list[Step]:
    conn = server.connect()
    steps: list[Step] = []
    try:
        for schema in corpus_schemas(watch):
            query(conn, f"DROP DATABASE {schema}")
        if server.flavor == "mysql":
            query(conn, f"SET sql_mode = '{_MYSQL_MODE}'")
        query(conn, f"CREATE DATABASE {SCHEMA}")
        query(conn, f"USE {SCHEMA}")
        steps.append(Step(Line("create database", "", lines[0].mark, ""), _binlog_end(server, watch), {}))
        for line in lines:
            if line.expected == "charset":
                conn.set_character_set(line.sql)  # type: ignore[no-untyped-call]
            else:
                query(conn, line.sql)
            steps.append(Step(line, _binlog_end(server, watch), tables_of(watch)))
        steps[-1].creates = _creates(server, [name for name in steps[-1].tables if name[0] == SCHEMA])
    finally:
        conn.close()
    return steps


def _creates(server: SQLServer, names: list[tuple[str, str]]) -> list[str]:
    # The default of a binary column stands there in its own bytes.
    conn = server.connect(use_unicode=False)
    try:
        found = [query(conn, f"SHOW CREATE TABLE {qualified(*name)}")[0][1] for name in names]
    finally:
        conn.close()
    return [text.decode("utf-8", "replace") for text in found]


def _binlog_end(server: SQLServer, conn: Connection[Any]) -> int:
    location = master_status(conn, server.flavor)
    assert location is not None
    return location.position.pos


def corpus_schemas(conn: Connection[Any], ending: str = "") -> list[str]:
    names = [name for name in list_schemas(conn) if name.startswith(SCHEMA)]
    return [name for name in names if name.endswith(ending)]


def tables_of(conn: Connection[Any], ending: str = "") -> Tables:
    """All base tables of the corpus's schemas whose names end like that."""
    found: dict[tuple[str, str], TableInfo] = {}
    for schema in corpus_schemas(conn, ending):
        infos = fetch_table_infos(conn, schema, list_tables(conn, schema))
        found.update({(schema, name): info for name, info in infos.items()})
    return found
