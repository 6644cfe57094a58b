"""Executes a statement at the target exactly once, also across crashes.

DDL can't be part of a transaction, so the intent is recorded first, with the current structure of the target's tables,
on the connection that will run the statement. After a crash, that connection is ended before anything else happens
(:mod:`ddl_fence`), and the tables' structure then shows what happened to the statement (:mod:`outcome_proof`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dm_worker.syncer.checkpoint.ddl_table import DDLRecord, ShownTables
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.checkpoint.protocol import BatchProgress
from dm_worker.syncer.ddl.differences import Sides, adds_ids, changes_times, doubts, refused, replaced_columns
from dm_worker.syncer.ddl.filled_columns import FilledOtherwise
from dm_worker.syncer.ddl.operator_orders import is_given
from dm_worker.syncer.ddl.outcome_proof import StatementOutcome, exchanges, judge
from dm_worker.syncer.ddl.session import DDLSession, StatementFailed
from dm_worker.syncer.ddl.target_jobs import wait_until_finished
from dm_worker.syncer.ddl.trial import Trial
from dm_worker.syncer.ddl.upstream_collations import UpstreamCollations
from dm_worker.syncer.ddl.variables import UpstreamSession
from dm_worker.syncer.online_ddl.ghost_records import NO_QUERY
from dm_worker.syncer.planning.instructions import BinlogStatement
from pkg import ddl, errors
from pkg.binlog.events import QueryEvent
from pkg.binlog.position import Position
from pkg.ddl.serial_parts import serial_parts
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.retry import retrying
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger

log = get_logger("syncer.ddl")


@dataclass(frozen=True, slots=True)
class DDLStep:
    """One statement for the target: its origin, its SQL, the target's names that it refers to, and the route between
    them. ``source``: the upstream's table before it, where the target's has the same rows and their order matters;
    ``unknown``: it would matter, and is unknown. ``had`` and ``beside``: as in :class:`Sides`, where they matter."""

    parsed: ddl.DDLStatement
    text: str
    targets: tuple[tuple[str, str], ...]
    route: ddl.TableRewrite
    source: TableInfo | None = None
    unknown: bool = False
    had: frozenset[str] | None = None
    beside: TableId | None = None

    def parts(self, record: DDLRecord) -> list[ddl.DDLStatement]:
        """The parts of an ALTER TABLE, each as its own statement, in the order in which ``record`` numbers them."""
        return ddl.split_alter(self.parsed) if record.in_text_order else serial_parts(self.parsed)


@dataclass(frozen=True, slots=True)
class RoutedPart:
    """A part of a statement for the target: its number among the parts, and the session in which it runs."""

    number: int
    session: QueryEvent
    step: DDLStep


@dataclass(frozen=True, slots=True)
class StatementContext:
    """The context in which a statement ran upstream: its session and its time (unix seconds)."""

    query: QueryEvent
    timestamp: int


def contexts_text(contexts: Iterable[StatementContext]) -> str:
    """The contexts as a string, for statements that run later."""
    return json.dumps([_context_data(one.query, one.timestamp) for one in contexts])


def _context_data(query: QueryEvent, timestamp: int) -> list[object]:
    return [query.sql_mode, query.charsets, query.time_zone, timestamp, *(getattr(query, name) for name in _OTHERS)]


#: Further parts of the session in a context's string, in this order. Strings of earlier versions have fewer.
_OTHERS = (
    "explicit_defaults_for_timestamp",
    "utf8mb4_collation",
    "flags",
    "auto_increment",
    "microseconds",
    "lc_time_names",
    "charset_collations",
    "error_code",
    "unknown_variable",
)


def contexts_of(text: str) -> list[StatementContext]:
    """Parses the string of :func:`contexts_text`."""
    found = []
    for sql_mode, charsets, time_zone, timestamp, *values in json.loads(text):
        others = {name: _tuples(value) for name, value in zip(_OTHERS, values, strict=False)}
        session = {"sql_mode": sql_mode, "charsets": _tuples(charsets), "time_zone": str(time_zone), **others}
        found.append(StatementContext(replace(NO_QUERY, **session), int(timestamp)))
    return found


def _tuples(value: Any) -> Any:
    """Turns JSON lists back into tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _shown(names: Iterable[tuple[str, str]], definitions: Iterable[str]) -> str:
    """The target's output for tables, for a message."""
    found = zip(names, definitions, strict=True)
    return ", ".join(text or f"no {qualified(*name) if name[1] else quote(name[0])}" for name, text in found)


class DDLExecutor:
    """Executes for one run. ``collations`` are written out in the target's SQL; None: statements are unchanged."""

    def __init__(
        self,
        *,
        store: MetaStore,
        session: DDLSession,
        trial: Trial,
        target_flavor: str,
        upstream: UpstreamSession,
        should_stop: Callable[[], bool],
        collations: UpstreamCollations | None = None,
    ) -> None:
        self._store = store
        self._collations = collations
        self._session = session
        self._trial = trial
        self.target_flavor = target_flavor
        self.upstream = upstream
        self._should_stop = should_stop

    @property
    def folds_names(self) -> bool:
        """Whether names that differ only in case are the same at the target. Raises DMError."""
        return retrying(self._session.target, should_stop=self._should_stop).folds_names

    def has_table(self, name: TableId) -> bool:
        """Whether the target has the table. Raises DMError."""
        return bool(retrying(lambda: self._session.shown([name]), should_stop=self._should_stop).definitions[0])

    def execute(self, statement: BinlogStatement, part: RoutedPart, intent: BatchProgress) -> None:
        """Executes a part of ``statement`` unless it already ran, and records that with ``intent``. Raises DMError."""
        context = StatementContext(part.session, statement.event.timestamp)
        record = self.once(statement.position, part.number, part.step, context, intent)
        self._store.write(intent, ddl=record)

    def once(
        self, position: Position, index: int, step: DDLStep, context: StatementContext, intent: BatchProgress
    ) -> DDLRecord:
        """Executes the step unless it already ran: (``position``, ``index``) is its name. Returns the record to write.

        ``intent`` is the progress to write with the intent's record. Raises DMError.
        """
        record = self._store.read_ddl(position, index) or DDLRecord(position, index, step.text, "")
        if record.done:
            return record
        if record.part is None and not self._whole(record, step, context, intent):
            record = replace(record, part=0, fingerprint="")
        if record.part is not None:
            self._parts(record, step, context, intent)
        if not is_given(record.index):
            self._rename_foreign_keys(step)
        return replace(record, done=True)

    def withdrawn(self, record: DDLRecord, step: DDLStep, context: StatementContext) -> DDLRecord:
        """Settles a begun statement that a new order replaces. If its outcome is unknown, it counts as not run."""
        part = step.parsed if record.part is None else step.parts(record)[record.part]

        def settled() -> StatementOutcome:
            return self._verdict(record, part, step, context, self._shown(record, step, part))

        verdict = retrying(settled, should_stop=self._should_stop)
        log.info(
            "a DDL was executing when its operator order changed",
            statement=record.statement, outcome=verdict.value, part=record.part,
        )  # fmt: skip
        ran = verdict is StatementOutcome.RAN
        if record.part is not None:
            return replace(record, part=record.part + ran, fingerprint="")
        return replace(record, done=True) if ran else replace(record, fingerprint="")

    def _whole(self, record: DDLRecord, step: DDLStep, context: StatementContext, intent: BatchProgress) -> bool:
        """Executes the statement; False when it has to be executed part by part.

        Each shard that merges runs the same DDL once: its effect may already be there. And TiDB rejects some ALTER
        TABLE statements of several parts.
        """
        try:
            self._execute(record, step, step.parsed, context, intent)
        except StatementFailed as exc:
            if exc.number in ddl.ignorable_errors(step.parsed):
                log.info("a DDL already had its effect", statement=step.text, error=exc.error.raw_cause)
                return True
            if exc.may_pass_in_parts and len(step.parts(record)) > 1:
                return False
            raise self._refused(record, step, exc, intent) from exc
        return True

    def _parts(self, record: DDLRecord, step: DDLStep, context: StatementContext, intent: BatchProgress) -> None:
        """Executes the parts from that of the record on, each with its own intent: once one of them ran, the
        statement's tables have changed, regardless of the result of the next."""
        first = record.part or 0
        for number, part in enumerate(step.parts(record)[first:], first):
            if number > first:
                record = replace(record, part=number, fingerprint="")
            try:
                self._execute(record, step, part, context, intent)
            except StatementFailed as exc:
                if exc.number not in ddl.ignorable_errors(part):
                    raise self._refused(record, step, exc, intent) from exc
                log.info("a part of a DDL already had its effect", statement=part.sql, error=exc.error.raw_cause)

    def _execute(
        self, record: DDLRecord, step: DDLStep, part: ddl.DDLStatement, context: StatementContext, intent: BatchProgress
    ) -> None:
        """Executes the record's statement (the step's, or a part of it) unless it already ran. Raises DMError and
        StatementFailed.

        Collations are written out only here: records and comparisons do not depend on the task's setting.
        """
        text = self._text(part, step)
        begun = record

        def attempt() -> None:
            nonlocal begun
            now = self._shown(begun, step, part)
            if begun.fingerprint and not self._is_due(begun, part, step, context, now):
                log.info("a DDL was already executed", statement=text, position=str(record.position))
                return
            if not is_given(record.index):
                # The operator is responsible for an ordered statement.
                self._ensure_alike(part, step, context, now)
            begun = replace(begun, statement=step.text, fingerprint=now.digest, before=now)
            # On the statement's own connection: it can't begin once the epoch has changed, nor later.
            self._store.write(intent, ddl=begun, through=self._session.transaction)
            named = self._text(self._completed(begun, part, step, context, now), step)
            log.info("executing a DDL", statement=named, position=str(record.position))
            self._run(named, part, context)

        def note(exc: DMError, _: int) -> None:
            log.warning("trying a DDL again", statement=text, error=str(exc))

        retrying(attempt, should_stop=self._should_stop, on_retry=note)

    def _text(self, part: ddl.DDLStatement, step: DDLStep) -> str:
        return step.text if part is step.parsed else ddl.rewrite(part, step.route, target_flavor=self.target_flavor)

    def _completed(
        self,
        record: DDLRecord,
        part: ddl.DDLStatement,
        step: DDLStep,
        context: StatementContext,
        shown: ShownTables,
    ) -> ddl.DDLStatement:
        """The statement with explicit values where TiDB's rules differ from the upstream's: names of keys, and what
        TIMESTAMP means. ``shown``: its tables before it. The target's keys have the upstream's names, so they show
        which names are free. Raises DMError."""
        if is_given(record.index):
            return part  # an operator's statement runs unchanged
        if self.target_flavor != "tidb":
            return self._with_check_names(part, step, shown) if self.target_flavor == "mariadb" else part
        timestamps = not self.upstream.explicit_timestamp_of(context.query) and ddl.leaves_timestamps_open(part)
        if not timestamps and not ddl.leaves_names_out(part):
            return part
        table = None
        if part.kind != "create table":
            if not shown.definitions[0]:
                return part
            try:
                table = ddl.parse(
                    shown.definitions[0], default_schema=step.targets[0][0], flavor=self.target_flavor
                ).body
            except DMError as exc:
                if timestamps:
                    raise
                log.warning("the target names the keys of a DDL itself", statement=part.sql, error=exc.message)
                return part
        if timestamps:
            part = ddl.with_timestamp_defaults(part, step.parsed, table)
        return ddl.with_key_names(part, ddl.key_names(part, table, step.parsed)) if ddl.leaves_names_out(part) else part

    def _with_check_names(self, part: ddl.DDLStatement, step: DDLStep, shown: ShownTables) -> ddl.DDLStatement:
        """A MySQL statement with explicit names for CHECK constraints, where MariaDB would generate others."""
        if not ddl.has_checks(part) or (part.kind != "create table" and not shown.definitions[0]):
            return part
        table = None
        if part.kind != "create table":
            try:
                table = ddl.parse(
                    shown.definitions[0], default_schema=step.targets[0][0], flavor=self.target_flavor
                ).body
            except DMError as exc:
                log.warning("the target names the checks of a DDL itself", statement=part.sql, error=exc.message)
                return part
        return ddl.with_check_names(part, table)

    def _rename_foreign_keys(self, step: DDLStep) -> None:
        """Renames a renamed table's foreign keys as the upstream did. TiDB leaves their names unchanged.

        Each key separately, and only those with an old name: after a crash, the next run renames the rest.
        """
        if self.target_flavor != "tidb" or step.parsed.renamed is None:
            return
        old, new = step.parsed.renamed
        target = step.route(*new)

        def attempt() -> None:
            wait_until_finished(lambda: self._session.unfinished_jobs([target]), [target], self._should_stop)
            shown = self._session.shown([target]).definitions[0]
            for name, sql in ddl.renamed_with_table(shown, target, old[1], new[1]):
                log.info("renaming a foreign key as its table", key=name, statement=sql)
                self._session.run(sql)

        retrying(attempt, should_stop=self._should_stop)

    def _shown(self, record: DDLRecord, step: DDLStep, part: ddl.DDLStatement) -> ShownTables:
        """The statement's current tables. Waits while the target still executes a statement that was begun."""
        if record.fingerprint:
            wait_until_finished(lambda: self._session.unfinished_jobs(step.targets), step.targets, self._should_stop)
        return self._session.shown(step.targets, ids=exchanges(part))

    def _run(self, text: str, part: ddl.DDLStatement, context: StatementContext) -> None:
        if self._collations is not None:
            text = self._collations.written_out(text, part.dialect, context.query)
        self._session.execute(text, part.kind, context.query, context.timestamp, self.upstream)

    def _is_due(
        self, record: DDLRecord, part: ddl.DDLStatement, step: DDLStep, context: StatementContext, now: ShownTables
    ) -> bool:
        """Whether a statement that was begun has to run. Raises 36061 when the outcome is unknown."""
        verdict = self._verdict(record, part, step, context, now)
        if verdict is StatementOutcome.UNKNOWN:
            raise self._unknown(record, step, now)
        return verdict is not StatementOutcome.RAN

    def _verdict(
        self, record: DDLRecord, part: ddl.DDLStatement, step: DDLStep, context: StatementContext, now: ShownTables
    ) -> StatementOutcome:
        before = record.before
        if before is None:
            # A record of an earlier version has only the fingerprint.
            return StatementOutcome.DID_NOT_RUN if record.fingerprint == now.digest else StatementOutcome.RAN

        def leads_to(after: Sequence[str]) -> bool | None:
            text = self._text(self._completed(record, part, step, context, before), step)
            routed = ddl.parse_dialect(text, part.dialect, part.default_schema)
            return self._trial.leads_to(
                routed, step.targets, before.definitions, after, lambda text: self._run(text, part, context)
            )

        return judge(part, before, now, leads_to)

    def _unknown(self, record: DDLRecord, step: DDLStep, now: ShownTables) -> DMError:
        assert record.before is not None
        shown = [
            f"{_shown(step.targets, definitions)} {when}"
            for definitions, when in ((record.before.definitions, "before it"), (now.definitions, "now"))
        ]
        return errors.new(
            Code.SyncerUnitHandleDDLFailed,
            f"it is not known whether the DDL ran at the target before a crash or a lost connection: {step.text}; "
            f"the target had {'; it has '.join(shown)}",
            scope="downstream",
            workaround="If it did not run, or ran only in part: restore the structure that the tables had before it "
            "and resume the task, which executes it. If it ran, and something else also changed the "
            f"tables: skip it. {Advice.SKIP_OR_REPLACE}",
        )

    def _ensure_alike(self, part: ddl.DDLStatement, step: DDLStep, context: StatementContext, now: ShownTables) -> None:
        """Raises 36068 for a statement that may have another effect at the target than upstream."""
        needs_copy = adds_ids(part) or replaced_columns(part) or changes_times(part)
        copy = self._session.table(*step.targets[0]) if needs_copy else None
        sides = Sides(
            self.upstream,
            self._session.target(),
            step.source,
            copy,
            now.definitions[0],
            unknown=step.unknown,
            had=step.had,
            beside=step.beside,
        )
        for doubt in doubts(part, context.query, sides):
            if doubt.rows and not self._session.has_rows(*step.targets[0], doubt.rows):
                continue
            if doubt.filled is not None and self._fills_alike(doubt.filled, part, context):
                continue
            raise refused(part, doubt)

    def _fills_alike(self, found: FilledOtherwise, part: ddl.DDLStatement, context: StatementContext) -> bool:
        if not found.definition:
            return False
        shown = self._trial.column(found.definition, lambda text: self._run(text, part, context))
        return bool(shown) and found.is_shown_in(shown, self.target_flavor)

    def _refused(self, record: DDLRecord, step: DDLStep, failed: StatementFailed, intent: BatchProgress) -> DMError:
        """Withdraws the intent: changes of its tables before the next retry are not its effect."""
        self._store.write(intent, ddl=replace(record, fingerprint=""))
        return self._failed(step, failed)

    def _failed(self, step: DDLStep, failed: StatementFailed) -> DMError:
        names = ", ".join(qualified(*name) if name[1] else quote(name[0]) for name in step.targets)
        return errors.new(
            Code.SyncerUnitHandleDDLFailed,
            f"the DDL for {names} failed: {failed.error.message}",
            raw=failed.error.raw_cause,
            scope="downstream",
            workaround=failed.error.workaround
            or f"Change the target table so that the statement can run, then resume the task. {Advice.SKIP_OR_REPLACE}",
        )
