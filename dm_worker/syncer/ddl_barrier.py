"""A statement in the stream: filtered, routed, executed once at the target, and followed by the schema tracker.

Everything before it is applied and checkpointed when it gets here. DDL can't be part of a transaction, so the intent
is recorded with a fingerprint of the target's tables first: after a crash, an unchanged fingerprint means that the
statement did not run, a changed one that it did.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dm_worker.syncer.checkpoint import DDLRecord, MetaStore
from dm_worker.syncer.ddl_parts import StatementParts
from dm_worker.syncer.ddl_session import DDLSession, StatementFailed, sql_mode_text
from dm_worker.syncer.instructions import Statement
from dm_worker.syncer.located import between, located
from dm_worker.syncer.operated import OperatedStatements, Pieces, typed
from dm_worker.syncer.operators import STRIDE
from dm_worker.syncer.protocol import Progress
from dm_worker.syncer.rules import Rules
from dm_worker.syncer.schema_source import SchemaSource
from pkg import ddl, errors
from pkg.binlog.events import Query, parse_query
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.errors.workarounds import PASS_EVENT, PASS_STATEMENT, RENEW_STRUCTURE, pass_statement, renew_structure
from pkg.ha.binlog_operator import Orders, position_name
from pkg.log import get_logger
from pkg.mysql.names import qualified, quote
from pkg.mysql.retry import retrying

log = get_logger("syncer.ddl")

_REFUSED = 36061

#: Writes progress in state ``ddl`` (or ``idle`` behind the statement) together with the statement's record.
WriteIntent = Callable[[DDLRecord], None]


@dataclass(frozen=True, slots=True)
class _Step:
    """One statement for the target: what it came from, its text, and the names at the target it is about."""

    parsed: ddl.Statement
    text: str
    targets: tuple[tuple[str, str], ...]


class DDLBarrier:
    """Handles the statements of one run."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        *,
        rules: Rules,
        source: SchemaSource,
        store: MetaStore,
        session: DDLSession,
        target_flavor: str,
        explicit_timestamp: bool,
        should_stop: Callable[[], bool],
        orders: Orders = tuple,
    ) -> None:
        self._cfg = cfg
        self._route = rules.route
        self._source = source
        self._statements = OperatedStatements(StatementParts(rules, source, cfg.flavor), store, orders)
        self._store = store
        self._session = session
        self._target_flavor = target_flavor
        self._explicit_timestamp = explicit_timestamp
        self._should_stop = should_stop
        self._online = [re.compile(rule) for rule in (*cfg.shadow_table_rules, *cfg.trash_table_rules)]

    def execute(self, statement: Statement, intent: Progress) -> bool:
        """Executes the statement unless it was; True when structures may have changed.

        ``intent`` is the progress to write with each record. Raises DMError naming the range in the binlog.
        """
        query = parse_query(statement.event, statement.place.name)
        try:
            pieces = self._statements.pieces(
                statement, query, intent, settle=lambda: self._settle(statement, query, intent)
            )
            steps = [(piece, self._step(piece.part.parsed)) for piece in pieces.target]
            for piece, step in steps:
                self._once(statement, piece.session, piece.part.number, step, intent)
            self._follow(pieces)
        except DMError as exc:
            raise self._explained(exc, statement) from exc
        return bool(pieces.target or pieces.followed)

    def _follow(self, pieces: Pieces) -> None:
        for part in pieces.followed:
            try:
                self._source.apply(part.parsed)
            except DMError as exc:
                if not pieces.lenient:
                    raise
                log.warning("the structures do not follow a statement that is passed over", error=exc.message)

    def _explained(self, exc: DMError, statement: Statement) -> DMError:
        """The error with its place, and with the commands that get past it."""
        found = located(exc, between(statement.start, statement.behind))
        if exc.retryable:
            return found
        command = pass_statement(self._cfg.name, self._cfg.source_id, position_name(statement.at))
        own = exc.workaround.replace(PASS_STATEMENT, "").replace(PASS_EVENT, "").strip()
        own = own.replace(RENEW_STRUCTURE, renew_structure(self._cfg.name, self._cfg.source_id))
        return found.advising(f"{own} {command}".strip())

    # -- what to execute ----------------------------------------------------------------------------------------

    def _step(self, part: ddl.Statement) -> _Step:
        self._refuse_online_ddl(part)
        targets = tuple(dict.fromkeys(self._route(*name) for name in part.tables))
        text = ddl.rewrite(part, self._route, target_flavor=self._target_flavor)
        return _Step(part, text, targets)

    def _refuse_online_ddl(self, part: ddl.Statement) -> None:
        if not self._cfg.online_ddl:
            return
        for schema, table in part.tables:
            if any(rule.search(table) for rule in self._online):
                raise errors.new(
                    "SyncerUnitOnlineDDLSchemeNotSupport",
                    f"online DDL is not supported yet, and {qualified(schema, table)} looks like a table of an "
                    f"online-DDL tool: {part.sql[:500]}",
                    workaround="Set online-ddl: false to replicate the tool's tables like others, or leave them out "
                    "with block-allow-list and run the DDL on the target by hand.",
                )

    # -- executing once -----------------------------------------------------------------------------------------

    def _once(self, statement: Statement, query: Query, index: int, step: _Step, intent: Progress) -> None:
        record = self._store.read_ddl(statement.place, index)
        if record is not None and record.done:
            return
        now = self._fingerprint(step.targets)
        if record is None or not record.fingerprint:
            record = DDLRecord(statement.place, index, step.text, now)
            self._store.write(intent, ddl=record)
        if record.fingerprint == now:
            log.info("executing a DDL", statement=step.text, place=str(statement.place))
            try:
                self._run(step, query, statement)
            except DMError as exc:
                if exc.code == _REFUSED:
                    # Whatever is done to its tables before the next try is not its effect.
                    self._store.write(intent, ddl=replace(record, fingerprint=""))
                raise
        else:
            log.info("a DDL was executed before a restart", statement=step.text, place=str(statement.place))
        self._store.write(intent, ddl=replace(record, done=True))

    def _settle(self, statement: Statement, query: Query, intent: Progress) -> None:
        """Another order decides from now on: what was under way either ran, or it never will as it was begun."""
        for record in self._store.read_ddls(statement.place):
            if record.done or not record.fingerprint:
                continue
            mode = typed(query).sql_mode if record.index >= STRIDE else query.sql_mode
            parsed = ddl.parse(record.statement, sql_mode=sql_mode_text(mode), flavor=self._cfg.flavor)
            ran = self._fingerprint(parsed.tables) != record.fingerprint
            log.info("a DDL was under way when its order changed", statement=record.statement, executed=ran)
            settled = replace(record, done=True) if ran else replace(record, fingerprint="")
            self._store.write(intent, ddl=settled)

    def _fingerprint(self, names: Iterable[tuple[str, str]]) -> str:
        return retrying(lambda: self._session.fingerprint(names), should_stop=self._should_stop)

    def _run(self, step: _Step, query: Query, statement: Statement) -> None:
        before = self._fingerprint(step.targets)

        def attempt(text: str) -> None:
            self._session.execute(text, query, statement.event.timestamp, self._explicit_timestamp)

        def again(text: str) -> None:
            # A connection that was lost in between tells nothing: look whether the statement had its effect.
            if self._session.fingerprint(step.targets) == before:
                attempt(text)

        try:
            try:
                attempt(step.text)
            except DMError as exc:
                if not exc.retryable or self._should_stop():
                    raise
                log.warning("a DDL is tried again", statement=step.text, error=str(exc))
                retrying(lambda: again(step.text), should_stop=self._should_stop)
        except StatementFailed as exc:
            self._ignore_or_raise(step, exc, attempt)

    def _ignore_or_raise(self, step: _Step, failed: StatementFailed, attempt: Callable[[str], None]) -> None:
        """Shards that merge run the same DDL once each: its effect may be there already."""
        if failed.number in ddl.ignorable_errors(step.parsed):
            log.info("a DDL had its effect before", statement=step.text, error=failed.error.raw_cause)
            return
        parts = ddl.split_alter(step.parsed)
        if len(parts) > 1 and failed.number in ddl.IGNORABLE_ERRORS["alter table"]:
            for part in parts:
                text = ddl.rewrite(part, self._route, target_flavor=self._target_flavor)
                try:
                    attempt(text)
                except StatementFailed as exc:
                    if exc.number not in ddl.ignorable_errors(part):
                        raise self._failed(step, exc) from exc
            return
        raise self._failed(step, failed) from failed

    def _failed(self, step: _Step, failed: StatementFailed) -> DMError:
        names = ", ".join(qualified(*name) if name[1] else quote(name[0]) for name in step.targets)
        return errors.new(
            "SyncerUnitHandleDDLFailed",
            f"the DDL for {names} failed: {failed.error.message}",
            raw=failed.error.raw_cause,
            scope="downstream",
            workaround=failed.error.workaround
            or f"Make the target's table as the statement needs it, then resume the task. {PASS_STATEMENT}",
        )
