"""The DDL corpus, run at an upstream and carried into a TiDB as a task does it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from deploy.local.mysql import SQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.syncer.checkpoint.ddl_table import DDLRecord
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import DDL, BatchProgress
from dm_worker.syncer.ddl.executor import DDLExecutor, DDLStep, StatementContext
from dm_worker.syncer.ddl.session import DDLSession, StatementFailed
from dm_worker.syncer.ddl.trial import Trial
from dm_worker.syncer.ddl.variables import UpstreamSession, defaults_of
from pkg.binlog.events import QueryEvent
from pkg.binlog.position import Location, Position
from pkg.ddl import DDLStatement, as_heeded, parse, rewrite, split
from pkg.ddl.sql_modes import sql_mode_text
from pkg.errors import DMError
from pkg.mysql.names import TableId, quote
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import fetch_server_defaults
from pkg.schema_tracker.render import create_table
from tests.ddl_corpus import Flavor, Version, cases
from tests.integration.ddl.corpus_run import SCHEMA, Logged, Step, corpus_schemas, run_cases, tables_of
from tests.integration.ddl.structures import comparable

NOWHERE = Location(Position("", 0))
#: Of a statement in the list.
_LENGTH = 100
_LIST = Path(__file__).with_name("corpus_differences.txt")
#: What TiDB keeps and does not show, or shows without being asked.
_WIDTH = re.compile(r"\b((?:tiny|small|medium|big)?int|year)\(\d+\)| zerofill")
#: Of a long text, what TiDB does not understand begins here.
_SYNTAX = re.compile(r"You have an error in your SQL syntax; .*? near (\".{1,25}).*", re.DOTALL)
_PLACE = re.compile(r" \(startLocation.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Difference:
    """``what``: TiDB's error, or the part of the structure that is another one."""

    case: str
    statement: str
    what: str


def reviewed(flavor: Flavor, group: str) -> list[Difference]:
    """What the list says of a group of cases, whose heads are in it with the flavor, the group and the case."""
    return [one for known, name, one in _read() if name == group and known == flavor]


def _read() -> Iterator[tuple[str, str, Difference]]:
    flavor = group = case = ""
    for line in _LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            flavor, group, case = line[3:].split(" / ", 2)
        elif line and not line.startswith("#"):
            statement, _, what = line.rpartition("  -->  ")
            yield flavor, group, Difference(case, statement, what)


class _NothingRan:
    """The records of statements of which none is ever repeated."""

    def read_ddl(self, place: Position, index: int) -> DDLRecord | None:
        return None

    def write(self, intent: BatchProgress, *, ddl: DDLRecord, through: object = None) -> None:
        """Nothing is read back."""


def carry(session: DDLSession, logged: Logged, upstream: UpstreamSession) -> str:
    """Executes in TiDB what the binlog has of a statement; why TiDB does not, or ''."""
    try:
        statement = as_heeded(_understood(logged.query, upstream))
        if statement is None or statement.kind == "skip":
            return ""
        for part in split(statement):
            _execute(session, part, logged, upstream)
    except DMError as exc:
        text = _SYNTAX.sub(r"near \1", _PLACE.sub("", exc.raw_cause or exc.message)).replace(logged.query.sql, "…")
        return " ".join(text.split())
    return ""


def _understood(query: QueryEvent, upstream: UpstreamSession) -> DDLStatement:
    return parse(
        query.sql,
        sql_mode=sql_mode_text(query.sql_mode),
        default_schema=query.schema,
        flavor=upstream.flavor,
        version=upstream.version,
        session=defaults_of(query),
    )


def _execute(session: DDLSession, part: DDLStatement, logged: Logged, upstream: UpstreamSession) -> None:
    executor = DDLExecutor(
        store=cast(MetaStore, _NothingRan()),
        session=session,
        trial=cast(Trial, None),
        target_flavor="tidb",
        upstream=upstream,
        should_stop=lambda: False,
    )
    text = rewrite(part, _same, target_flavor="tidb")
    step = DDLStep(part, text, part.tables, _same)
    context = StatementContext(logged.query, logged.timestamp)
    executor.once(Position("b", 4), 0, step, context, BatchProgress(1, 1, DDL, NOWHERE, NOWHERE))


class CorpusIntoTiDB:
    """The statements of one upstream's version."""

    def __init__(self, upstream: SQLServer, flavor: Flavor, version: Version, tidb: TiDBServer) -> None:
        self._upstream = upstream
        self._flavor = flavor
        self._version = version
        self._tidb = tidb

    def differences(self, group: str) -> list[Difference]:
        """What is different after each statement of the group's cases that made it so."""
        with closing(self._upstream.connect()) as conn:
            defaults = fetch_server_defaults(conn)
        chosen = [case for case in cases() if case.group == group and case.for_server(self._flavor, self._version)]
        ran = run_cases(self._upstream, self._flavor, defaults.version, chosen)
        session = UpstreamSession(self._flavor, defaults.version, defaults.explicit_timestamp)
        return [
            found for title, steps in ran.items() for found in _CaseIntoTiDB(title, self._tidb, session).follow(steps)
        ]


class _CaseIntoTiDB:
    """One case, in schemas that are empty at first."""

    def __init__(self, title: str, tidb: TiDBServer, upstream: UpstreamSession) -> None:
        self._title = title
        self._tidb = tidb
        self._upstream = upstream
        self._watch = tidb.connect()
        #: Tables that are different already.
        self._apart: dict[TableId, str] = {}

    def follow(self, steps: list[Step]) -> Iterator[Difference]:
        with closing(self._watch), closing(DDLSession(self._tidb.db_config, foreign_keys=True)) as session:
            for schema in corpus_schemas(self._watch):
                session.run(f"DROP DATABASE {quote(schema)}")
            for step in steps:
                failed = [text for logged in step.logged if (text := carry(session, logged, self._upstream))]
                statement = _beginning(" ".join(step.line.sql.split()) or step.line.expected)
                apart = self._different(step)
                new = {name: what for name, what in apart.items() if name not in self._apart}
                if new or (failed and not self._apart):
                    yield Difference(self._title, statement, "; ".join(failed or sorted({*new.values()})))
                    self._restore(session, step, new)
                self._apart = self._different(step)

    def _different(self, step: Step) -> dict[TableId, str]:
        """By table, what TiDB shows differently."""
        found, expected = tables_of(self._watch), step.tables
        return {
            name: what
            for name in sorted({*found, *expected})
            if (what := difference(expected.get(name), found.get(name)))
        }

    def _restore(self, session: DDLSession, step: Step, names: dict[TableId, str]) -> None:
        """Gives TiDB the upstream's tables, as far as it can have them, so that what follows is judged by itself."""
        for name in names:
            session.run(f"DROP TABLE IF EXISTS {quote(name[0])}.{quote(name[1])}")
            info = step.tables.get(name)
            if info is None:
                continue
            made = parse(create_table(info), default_schema=name[0], flavor=self._upstream.flavor)
            event = QueryEvent(0, 0, 0, SCHEMA, b"")
            with suppress(DMError, StatementFailed):  # TiDB has no such table: what is about it is not judged
                session.execute(rewrite(made, _same), made.kind, event, 1, self._upstream)


def _same(schema: str, table: str) -> tuple[str, str]:
    return schema, table


def difference(expected: TableInfo | None, found: TableInfo | None) -> str:
    """What of a table is another one in TiDB; '' if nothing is."""
    if expected is None or found is None:
        return "" if expected is found else "no table" if found is None else "a table"
    one, other = _plain(expected), _plain(found)
    return ", ".join(f"{what} {_shortly(one[what], other[what])}" for what in one if one[what] != other[what])


def _shortly(expected: Sequence[str], found: Sequence[str]) -> str:
    """What only one of them has, or both if that is nothing."""
    lost, new = [x for x in expected if x not in found], [x for x in found if x not in expected]
    before, now = (lost, new) if lost or new else (expected, found)
    return f"{' + '.join(before) or 'none'} became {' + '.join(now) or 'none'}"


def _plain(info: TableInfo) -> dict[str, list[str]]:
    """What must be equal, without what TiDB only shows in another way."""
    found = comparable(info)
    types = [
        " ".join([name, kind, "" if null else "NOT NULL", gen])
        for name, _, kind, null, _, _, _, gen in found["columns"]
    ]
    collations = [f"{name} {collation}" for name, *_, collation, _ in found["columns"] if collation]
    unique = {name for name, _ in found["unique"]}
    parts = {index.name: [f"{part.column}{part.length or ''}" for part in index.parts] for index in info.indexes}
    return {
        "columns": [" ".join(_shown(text).split()) for text in types],
        "collations": [_shown(text) for text in collations],
        "AUTO_INCREMENT": [column.name for column in info.columns if column.auto_increment],
        "keys": sorted(f"{name} {'UNIQUE ' * (name in unique)}({', '.join(p)})" for name, p in parts.items()),
        "default collation": [_shown(info.collation)],
        "parents": [".".join(parent) for parent in found["foreign keys"]],
    }


def _shown(text: str) -> str:
    """A type or collation in TiDB's words."""
    return _WIDTH.sub(lambda found: found[1] or "", text).replace("utf8mb3", "utf8")


def _beginning(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"
