"""Checks whether the target accepts the tables that a full copy creates, by trying each one on the target.

A target that keeps temporary tables in session memory (TiDB) creates each table as a temporary one: only this session
sees it, nothing is stored. Other servers prepare the statement, which shows whether they accept it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_master.inspection.inspected_server import QUERY_TIMEOUT, InspectedServer
from dm_master.precheck import creation_trial
from dm_master.precheck.creation_trial import TrialAnswer
from dm_master.precheck.result import CheckFinding, from_error, warn
from dm_master.rules.inspected_upstream import InspectedUpstream
from dm_master.task_setup.server_steps import known_defaults
from dm_master.task_setup.task_split import target_session
from pkg.config.model import TaskConfig
from pkg.ddl import Dialect, parse, with_collations
from pkg.ddl.creation import creation_text, creation_words
from pkg.ddl.target_collations import TargetCollations, alike
from pkg.errors import DMError
from pkg.mysql.collation_likeness import difference, fetch_equalities
from pkg.mysql.connection import connect, error_number, is_retryable
from pkg.mysql.introspect import list_all_tables, query, server_info, show_create, show_create_if_there, variable
from pkg.mysql.names import TableId, qualified, quote, quote_string
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker.server import fetch_collations, fetch_server_defaults

_NAME = "dm_check_table"
#: The most connections for the trials, and the tables for each connection before another one is opened.
_AT_ONCE, _PER_CONNECTION = 8, 50
#: A variable that only servers with temporary tables in session memory have.
_IN_MEMORY = "tidb_tmp_table_max_size"
#: The schema for them if the target has none of the task's schemas yet.
_SCHEMA = "mysql"
#: No privilege for the trial, or an unknown statement: these errors do not concern the table.
_NO_TRIAL = frozenset({1044, 1142, 1227, 1295, 1410, 1461, 8121})


class CreationTrial:
    """Tries tables on the target, over a connection with the session of a load. ``collations``: the target's."""

    def __init__(self, conn: Connection[Any], collations: TargetCollations, schemas: Iterable[str]) -> None:
        self._conn = conn
        self.collations = collations
        self.family = server_info(conn).flavor
        #: Whether it creates the tables; otherwise it prepares their statements.
        self.creates = variable(conn, _IN_MEMORY) is not None
        there = {str(row[0]).lower() for row in query(conn, "SHOW DATABASES")}
        schema = next((name for name in schemas if name.lower() in there), _SCHEMA)
        self._name = qualified(schema, _NAME)
        self._answers: dict[str, TrialAnswer] = {}

    @functools.cached_property
    def has_tiflash(self) -> bool:
        """Whether the cluster has TiFlash; also true if the user may not see that (no PROCESS privilege)."""
        try:
            return bool(
                query(self._conn, "SELECT 1 FROM information_schema.CLUSTER_INFO WHERE TYPE = 'tiflash' LIMIT 1")
            )
        except pymysql.Error as exc:
            if error_number(exc) not in _NO_TRIAL:
                raise
            return True

    def ask(self, create: str) -> tuple[str, TrialAnswer]:
        """The SQL tried for a CREATE TABLE, and the target's answer. Raises pymysql.Error."""
        text = creation_trial.trial_text(create, self._name, temporary=self.creates)
        if text not in self._answers:
            self._answers[text] = self._created(text) if self.creates else self._prepared(text)
        return text, self._answers[text]

    def _created(self, text: str) -> TrialAnswer:
        with self._conn.cursor() as cursor:
            try:
                cursor.execute(text)
            except pymysql.Error as exc:
                if is_retryable(exc):
                    raise
                if error_number(exc) not in _NO_TRIAL:
                    return TrialAnswer(error_number(exc), str(exc.args[1]), self._warnings())
                self.creates = False
                return self._prepared(text.replace("CREATE TEMPORARY", "CREATE", 1))
            warnings = self._warnings() if cursor.warning_count else ()
        query(self._conn, f"DROP TEMPORARY TABLE {self._name}")
        return TrialAnswer(warnings=warnings)

    def _prepared(self, text: str) -> TrialAnswer:
        try:
            query(self._conn, f"PREPARE dm_check FROM {quote_string(text)}")
        except pymysql.Error as exc:
            if is_retryable(exc):
                raise
            if error_number(exc) not in _NO_TRIAL:
                return TrialAnswer(error_number(exc), str(exc.args[1]))
        return creation_trial.unknown_collation(text, self.collations.known)

    def _warnings(self) -> tuple[tuple[int, str], ...]:
        rows = query(self._conn, "SHOW WARNINGS")
        return tuple((int(number), str(text)) for level, number, text in rows if level == "Warning")


@dataclass(frozen=True, slots=True)
class _Creation:
    """A table that the full copy creates, with its upstream definition, as the dump writes it."""

    source_id: str
    source: TableId
    target: TableId
    flavor: str
    create: str
    info: TableInfo | None

    @property
    def subject(self) -> str:
        return f"{self.source_id} {qualified(*self.source)}"


def check_creations(
    task: TaskConfig, target: InspectedServer, upstreams: Sequence[InspectedUpstream]
) -> list[CheckFinding]:
    """The findings about each table that the task's full copy creates. Raises pymysql.Error and DMError."""
    known = sorted(set(fetch_collations(target.conn).values()))
    collations = TargetCollations.of(known, task.target_collations)
    findings: list[CheckFinding] = []
    taken: list[tuple[_Creation, TrialAnswer]] = []
    in_part = False
    for upstream, tables in _new_tables(upstreams, _existing(target)):
        creations, problems = _creations(task, upstream, tables)
        session = dict(target_session(known_defaults(target.conn), upstream.variable("sql_mode"), task))
        session["foreign_key_checks"] = "0"
        likes = _likes(upstream, target, collations, [*_defaults(upstream), *_collations(creations)])
        answers = _Answers(task, session, collations, likes)
        problems += answers.of(creations) + _refused_schemas(upstream, target, collations, likes)
        certain = upstream.starts_now(target)
        findings += problems if certain else [replace(one, severity="warn") for one in problems]
        taken += answers.taken
        in_part |= answers.in_part
    for upstream in upstreams:
        defaults = _defaults(upstream)
        likes = _likes(upstream, target, collations, defaults)
        findings += creation_trial.lost_defaults(defaults, collations, likes)
    return [*findings, *_doubts(target, taken, collations), *_checked_in_part(target, in_part)]


def _collations(creations: Iterable[_Creation]) -> set[str]:
    """The collations of the tables' columns."""
    infos = (creation.info for creation in creations if creation.info is not None)
    return {column.collation for info in infos for column in info.columns if column.collation}


def _defaults(upstream: InspectedUpstream) -> dict[str, list[str]]:
    """The upstream's default collations, and the objects that have each."""
    found = {upstream.variable("collation_server"): [f"the upstream {upstream.subtask.source_id}"]}
    schemas = {schema for schema, _ in upstream.tables}
    rows = query(upstream.conn, "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA")
    for schema, collation in rows:
        if schema in schemas:
            found.setdefault(str(collation), []).append(f"the schema {quote(str(schema))}")
    return {collation: where for collation, where in found.items() if collation}


def _likes(
    upstream: InspectedUpstream, target: InspectedServer, collations: TargetCollations, wanted: Iterable[str]
) -> dict[str, str]:
    """For each collation that the target lacks, its own one that compares most alike, by queries on both servers."""
    found = {}
    for name in sorted({name.lower() for name in wanted}):
        if collations.name_of(name).lower() in collations.known:
            continue
        there, candidates = fetch_equalities(upstream.conn, name), alike(name, collations.known)
        answers = {one: fetch_equalities(target.conn, one) for one in candidates} if there else {}
        known = {one: difference(there, answer) for one, answer in answers.items() if answer}
        if known:
            found[re.sub(r"^utf8mb3(?=_)", "utf8", name)] = min(known, key=lambda one: known[one])
    return found


def _existing(target: InspectedServer) -> Callable[[TableId], bool]:
    """A function that returns whether the target has a table."""
    folds = target.variable("lower_case_table_names") not in ("", "0")

    def key(name: TableId) -> TableId:
        return (name[0].lower(), name[1].lower()) if folds else name

    there = {key((schema, table)) for schema, names in list_all_tables(target.conn).items() for table in names}
    return lambda name: key(name) in there


def _new_tables(
    upstreams: Sequence[InspectedUpstream], exists: Callable[[TableId], bool]
) -> Iterator[tuple[InspectedUpstream, list[tuple[TableId, TableId]]]]:
    """Each new target table once, with its source: the load creates one table for all that merge."""
    seen: set[TableId] = set()
    for upstream in upstreams:
        found = []
        for source, name in upstream.routed.items():
            if name not in seen and not exists(name):
                found.append((source, name))
            seen.add(name)
        if found:
            yield upstream, found


def _creations(
    task: TaskConfig, upstream: InspectedUpstream, tables: Iterable[tuple[TableId, TableId]]
) -> tuple[list[_Creation], list[CheckFinding]]:
    """The tables that still exist, and failures for definitions that cannot be parsed."""
    source_id, flavor = upstream.subtask.source_id, upstream.info.flavor
    server = fetch_server_defaults(upstream.conn) if task.collation_compatible == "strict" else None
    found, failed = [], []
    for source, name in tables:
        create = show_create_if_there(upstream.conn, *source)
        creation = _Creation(source_id, source, name, flavor, create, upstream.structures.get(source))
        try:
            if create and server is not None:
                parsed = parse(create, default_schema=source[0], flavor=server.flavor, version=server.version)
                creation = replace(creation, create=with_collations(parsed, server.default_collation))
        except DMError as exc:
            failed.append(replace(from_error(exc), subject=creation.subject))
        else:
            found += [creation] if create else []
    return found, failed


class _Answers:
    """The target's answers, over several connections in parallel: each answer takes one or two round trips."""

    def __init__(
        self, task: TaskConfig, session: Mapping[str, str], collations: TargetCollations, likes: Mapping[str, str]
    ) -> None:
        self._likes = likes
        self._task = task
        self._session = session
        self._collations = collations
        self.taken: list[tuple[_Creation, TrialAnswer]] = []
        #: Whether the target's user lacks the privilege to create the trial tables.
        self.in_part = False

    def of(self, creations: Sequence[_Creation]) -> list[CheckFinding]:
        """The findings about all of them, in order."""
        if not creations:
            return []
        count = min(_AT_ONCE, -(-len(creations) // _PER_CONNECTION))
        with ThreadPoolExecutor(count, "precheck-creations") as pool:
            parts = list(pool.map(self._part, (creations[i::count] for i in range(count))))
        rounds = [one for some in zip_longest(*parts) for one in some if one is not None]
        self.taken += [(creation, answer) for creation, answer, _ in rounds if answer.taken]
        return [finding for *_, found in rounds for finding in found]

    def _part(self, creations: Sequence[_Creation]) -> list[tuple[_Creation, TrialAnswer, list[CheckFinding]]]:
        target, schemas = self._task.target, [self._task.meta_schema, *{each.target[0] for each in creations}]
        with contextlib.closing(
            connect(target, scope="downstream", session=self._session, read_timeout=QUERY_TIMEOUT)
        ) as conn:
            trial = CreationTrial(conn, self._collations, schemas)
            creates = trial.creates
            found = [(creation, *_ask(trial, creation, self._likes)) for creation in creations]
            self.in_part |= creates and not trial.creates
        return found


def _ask(trial: CreationTrial, creation: _Creation, likes: Mapping[str, str]) -> tuple[TrialAnswer, list[CheckFinding]]:
    """The target's answer for one table, and the findings."""
    create = creation.create
    text, answer = trial.ask(create)
    if not answer.taken:
        # Parse it only in this case: the load's own statement, with keywords that the target may accept.
        try:
            create = creation_text(
                create, schema=creation.source[0], flavor=creation.flavor, route=lambda *_: creation.target
            )
            create = creation_words(create, creation.flavor, trial.family, trial.collations).statements[-1]
        except DMError as exc:
            return answer, [replace(from_error(exc), subject=creation.subject)]
        text, answer = trial.ask(create)
    findings = []
    plain, indexes = creation_trial.without_fulltext(create)
    if indexes and creation_trial.is_about_tiflash(answer):
        if not trial.has_tiflash:
            findings.append(creation_trial.needs_tiflash(creation.subject, indexes))
        text, answer = trial.ask(plain)
    if answer.taken and not trial.creates and trial.family == "mysql":
        answer = creation_trial.whole_value_key(creation.info)
    if answer.taken and trial.family == "tidb":
        findings += creation_trial.null_counters(creation.subject, creation.target, creation.info)
    if not answer.taken:
        known = sorted(trial.collations.known)
        findings.append(creation_trial.refusal(creation.subject, creation.target, text, answer, known, likes))
    return answer, findings


def _refused_schemas(
    upstream: InspectedUpstream, target: InspectedServer, collations: TargetCollations, likes: Mapping[str, str]
) -> list[CheckFinding]:
    """Schemas that the load creates with a collation that the target lacks."""
    known, dialect = sorted(collations.known), Dialect.of("", upstream.info.flavor)
    there = {str(row[0]).lower() for row in query(target.conn, "SHOW DATABASES")}
    found = []
    for schema in sorted({schema for schema, _ in upstream.tables}):
        name = upstream.rules.router.route(schema, "")[0]
        if name.lower() not in there:
            create = collations.in_text(show_create(upstream.conn, schema), dialect)
            answer = creation_trial.unknown_collation(create, known)
            if not answer.taken:
                found.append(creation_trial.refused_schema(upstream.subtask.source_id, name, answer, known, likes))
    return found


def _doubts(
    target: InspectedServer, taken: Sequence[tuple[_Creation, TrialAnswer]], collations: TargetCollations
) -> list[CheckFinding]:
    """Warnings about changes to tables that the target accepts."""
    tidb = target.info.flavor == "tidb"
    infos = [(creation, creation.info) for creation, _ in taken if creation.info is not None]
    return [
        *creation_trial.changed((creation.target, answer) for creation, answer in taken),
        *creation_trial.lost_collations(((creation.subject, info) for creation, info in infos), collations),
        *creation_trial.hidden_members((creation.subject, info) for creation, info in infos),
        *creation_trial.bytes_as_defaults((creation.subject, creation.create) for creation, _ in taken if tidb),
        *creation_trial.long_rows(((creation.target, info) for creation, info in infos), _most_bytes(target)),
    ]


def _most_bytes(target: InspectedServer) -> int:
    """Bytes of the longest row that the target accepts; 0 if there is no such limit, or it is unknown."""
    session = target.variable("tidb_txn_entry_size_limit")
    if session not in ("", "0"):
        return int(session)
    config = json.loads(target.variable("tidb_config") or "{}")
    return int(config.get("performance", {}).get("txn-entry-size-limit", 0))


def _checked_in_part(target: InspectedServer, in_part: bool) -> list[CheckFinding]:
    if not in_part:
        return []
    return [
        warn(
            "whether the target takes the tables is checked in part only, as the user may not create temporary tables",
            f"GRANT CREATE TEMPORARY TABLES ON *.* TO '{target.config.user}' on the target, then check again.",
        )
    ]
