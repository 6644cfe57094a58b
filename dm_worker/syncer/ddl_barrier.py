"""A statement in the stream: filtered, routed, executed once at the target, and followed by the schema tracker.

Everything before it is applied and checkpointed when it gets here. DDL can't be part of a transaction, so the intent
is recorded with a fingerprint of the target's tables first: after a crash, an unchanged fingerprint means that the
statement did not run, a changed one that it did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from dm_worker.syncer.checkpoint import DDLRecord, MetaStore
from dm_worker.syncer.ddl_parts import StatementParts
from dm_worker.syncer.ddl_session import DDLSession, StatementFailed
from dm_worker.syncer.instructions import Statement
from dm_worker.syncer.located import between, located
from dm_worker.syncer.protocol import Progress
from dm_worker.syncer.rules import Rules
from dm_worker.syncer.schema_source import SchemaSource
from pkg import ddl, errors
from pkg.binlog.events import Query, parse_query
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.errors.workarounds import PASS_STATEMENT
from pkg.log import get_logger
from pkg.mysql.names import qualified, quote
from pkg.mysql.retry import retrying

log = get_logger("syncer.ddl")

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
    ) -> None:
        self._cfg = cfg
        self._route = rules.route
        self._source = source
        self._statements = StatementParts(rules, source, cfg.flavor)
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
            parts = self._statements.migrated(query)
            steps = [(part.number, self._step(part.parsed)) for part in self._statements.for_target(parts)]
            for number, step in steps:
                self._once(statement, query, number, step, intent)
            for part in parts:
                self._source.apply(part.parsed)
        except DMError as exc:
            raise located(exc, between(statement.start, statement.behind)) from exc
        return bool(parts)

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
        known = self._store.read_ddl(statement.place, index)
        if known is not None and known.done:
            return
        record = known
        now = self._fingerprint(step)
        if record is None:
            record = DDLRecord(statement.place, index, step.text, now)
            self._store.write(intent, ddl=record)
        if record.fingerprint == now:
            log.info("executing a DDL", statement=step.text, place=str(statement.place))
            self._run(step, query, statement)
        else:
            log.info("a DDL was executed before a restart", statement=step.text, place=str(statement.place))
        self._store.write(intent, ddl=replace(record, done=True))

    def _fingerprint(self, step: _Step) -> str:
        return retrying(lambda: self._session.fingerprint(step.targets), should_stop=self._should_stop)

    def _run(self, step: _Step, query: Query, statement: Statement) -> None:
        before = self._fingerprint(step)

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
