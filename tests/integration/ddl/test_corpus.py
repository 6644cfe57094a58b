"""The corpus on real servers: what their binlogs hold is parsed, followed, classified and carried over exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from pymysql.connections import Connection

from deploy.local.mysql import MYSQL_VERSION, MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from dm_worker.syncer.ddl.session import DDLSession
from dm_worker.syncer.ddl.variables import UpstreamSession, defaults_of
from pkg.binlog.events import QueryEvent
from pkg.ddl import DDLStatement, parse, parse_dialect, rewrite, split, uniform, with_collations
from pkg.ddl.sql_modes import sql_mode_text
from pkg.ddl.statement import RenameTable
from pkg.errors import Code, DMError
from pkg.mysql.introspect import fetch_table_info, query
from pkg.mysql.names import quote
from pkg.schema_tracker import SchemaTracker, ServerDefaults, fetch_server_defaults, parse_create_table
from tests.ddl_corpus import Case, Flavor, Version, cases, named_types
from tests.integration.ddl.corpus_run import SCHEMA, Logged, Step, Tables, corpus_schemas, run_cases, tables_of
from tests.integration.ddl.structures import comparable

ROUTED = "_routed"


def route(schema: str, table: str) -> tuple[str, str]:
    return schema + ROUTED, table and f"{table[:62]}_r"


class Run:
    """All cases, executed on one server."""

    def __init__(self, server: SQLServer, flavor: Flavor, version: Version) -> None:
        self.server = server
        self.flavor = flavor
        self.conn: Connection[Any] = server.connect()
        self.defaults: ServerDefaults = fetch_server_defaults(self.conn)
        self.steps = run_cases(server, flavor, self.defaults.version, cases_for(flavor, version))


def cases_for(flavor: Flavor, version: Version) -> list[Case]:
    return [case for case in cases() if case.for_server(flavor, version)]


#: What the harness starts is at least that.
MARIADB: Version = (10, 11, 0)
#: What the harness starts is exactly that.
MYSQL: dict[str, Version] = {"5.6": (5, 6, 24), "5.7": (5, 7, 22), "8.0": (8, 0, 12)}
#: The oldest and the newest, which differ most, and the one that all tests are to run on.
MYSQL_CASES = [
    (version, case.title)
    for version in sorted({"5.6", "8.0", MYSQL_VERSION})
    for case in cases_for("mysql", MYSQL[version])
]


@pytest.fixture(scope="module")
def mariadb_run(_mariadb_upstream: MariaDBServer) -> Run:
    return Run(_mariadb_upstream, "mariadb", MARIADB)


@pytest.fixture(scope="module")
def mysql_run() -> Iterator[Callable[[str], Run]]:
    """The run of each version, made when it is first asked for."""
    with ExitStack() as stack:

        @cache
        def run_on(version: str) -> Run:
            # Without GTID, under which these versions refuse CREATE TABLE … SELECT.
            server = MySQLServer(version=version)
            stack.enter_context(up(server))
            run = Run(server, "mysql", MYSQL[version])
            stack.callback(run.conn.close)
            assert run.defaults.version == MYSQL[version]
            return run

        yield run_on


def upstream_of(run: Run) -> UpstreamSession:
    return UpstreamSession(run.flavor, run.defaults.version, run.defaults.explicit_timestamp)


def understood(query: QueryEvent, flavor: Flavor) -> DDLStatement:
    """As the syncer parses it."""
    mode = sql_mode_text(query.sql_mode)
    return parse(query.sql, sql_mode=mode, default_schema=query.schema, flavor=flavor, session=defaults_of(query))


class Follower:
    """A tracker that receives what the binlog holds."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tracker = SchemaTracker(run.defaults)

    def follow(self, logged: Logged) -> list[str]:
        """The event's types."""
        statement = understood(logged.query, self.run.flavor)
        if statement.kind == "skip":
            return ["skip"]
        ref = statement.refs[0]
        before = self.tracker.table(ref.schema, ref.table)
        self.tracker.apply(statement)
        target = next((a.target for a in statement.actions if isinstance(a, RenameTable)), ref)
        after = self.tracker.table(target.schema, target.table)
        types = named_types(statement, before, after)
        self.carry_over(statement, logged)
        return types

    def carry_over(self, statement: DDLStatement, logged: Logged) -> None:
        """What else is done with every statement."""

    def check(self, step: Step) -> None:
        followed = {(table.schema, table.name): table for table in self.tracker.tables()}
        compare(followed, step.tables, f"{step.line.place}: {step.line.sql}")

    def check_at_end(self, step: Step) -> None:
        """What else is compared after a case."""


class Replica(Follower):
    """Executes the rewritten statements too, as the syncer does, in other schemas of the same server."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        for schema in corpus_schemas(run.conn, ROUTED):
            query(run.conn, f"DROP DATABASE {quote(schema)}")
        # With foreign keys, as the sessions upstream: without, MariaDB gives an unnamed one that comes with a new
        # column the name of the table's first, and refuses it (1823).
        self.session = DDLSession(run.server.db_config, foreign_keys=True)

    def carry_over(self, statement: DDLStatement, logged: Logged) -> None:
        for part in split(statement):
            text = self.spelt(rewrite(part, route, target_flavor=self.run.flavor), part)
            self.session.execute(text, part.kind, logged.query, logged.timestamp, upstream_of(self.run))
            for schema, table in part.tables:
                self.check_table(schema, table, text)

    def spelt(self, text: str, part: DDLStatement) -> str:
        return text

    def check_table(self, schema: str, table: str, text: str) -> None:
        want = self.tracker.table(schema, table)
        have = fetch_table_info(self.run.conn, *route(schema, table)) if table else None
        if want is not None and have is not None:
            assert comparable(have)["columns"] == comparable(want)["columns"], text

    def check_at_end(self, step: Step) -> None:
        expected = {route(*name): info for name, info in step.tables.items()}
        compare(tables_of(self.run.conn, ROUTED), expected, step.line.place, rerouted=True)
        self.session.close()


class UniformReplica(Replica):
    """Executes what shard groups hold of the rewritten statements."""

    def spelt(self, text: str, part: DDLStatement) -> str:
        return uniform(text, part.dialect)


class StrictReplica(Replica):
    """Executes the rewritten statements with the collations that they leave out."""

    def spelt(self, text: str, part: DDLStatement) -> str:
        return with_collations(parse_dialect(text, part.dialect, ""), self.run.defaults.default_collation)


def compare(have: Tables, want: Tables, place: str, *, rerouted: bool = False) -> None:
    assert sorted(have) == sorted(want), place
    for name, info in want.items():
        expected, actual = comparable(info), comparable(have[name])
        parents, known = set(expected.pop("foreign keys")), set(actual.pop("foreign keys"))
        if rerouted:
            parents = {route(*parent) for parent in parents}
        # Which foreign key a DROP FOREIGN KEY means is not tracked: pairs may stay.
        assert parents <= known, place
        # Nor when the server gives up an index of its own that a foreign key needed.
        assert set(expected.pop("indexes")) <= set(actual.pop("indexes")), place
        assert actual == expected, place


def follow_case(follower: Follower, steps: list[Step]) -> None:
    before: Tables = {}
    if any(step.line.expected == "refused" for step in steps):
        for step in steps:
            if step.line.expected == "refused":
                assert_refused(step, follower.run.flavor)
        return
    for step in steps:
        found = [types for logged in step.logged for types in follower.follow(logged)]
        if step.logged or step.tables != before:
            assert_types(step, found)
            follower.check(step)
        before = step.tables
    for text in steps[-1].creates:
        info = parse_create_table(text, SCHEMA, follower.run.defaults)
        assert comparable(info) == comparable(before[SCHEMA, info.name]), text
    follower.check_at_end(steps[-1])


def assert_refused(step: Step, flavor: Flavor) -> None:
    """Stopped with the statement, the position in it, and a remedy."""
    assert step.logged, step.line.place
    for logged in step.logged:
        with pytest.raises(DMError) as caught:
            understood(logged.query, flavor)
        assert caught.value.kind is Code.SyncerParseDDL, step.line.place
        assert logged.query.sql[:100] in caught.value.message
        assert caught.value.workaround


def assert_types(step: Step, found: list[str]) -> None:
    line = step.line
    place = f"{line.place}: {line.sql}"
    if line.expected in ("skip", "temporary", "session"):
        assert set(found) <= {"skip"}, place
    elif not line.counts:
        assert not found, place
    elif line.sql:
        assert " + ".join(found) == line.expected.removeprefix("logged as "), place


@pytest.mark.parametrize("replica", [Replica, UniformReplica, StrictReplica])
@pytest.mark.parametrize("title", [case.title for case in cases_for("mariadb", MARIADB)])
def test_mariadb_is_followed_and_carried_over(mariadb_run: Run, title: str, replica: type[Replica]) -> None:
    follow_case(replica(mariadb_run), mariadb_run.steps[title])


@pytest.mark.parametrize(("version", "title"), MYSQL_CASES)
def test_mysql_is_followed(mysql_run: Callable[[str], Run], version: str, title: str) -> None:
    run = mysql_run(version)
    follow_case(Follower(run), run.steps[title])
