"""Executes a statement at the target once, whatever happens in between.

DDL can't be part of a transaction, so the intent is recorded with a fingerprint of the target's tables first: after a
crash, an unchanged fingerprint means that the statement did not run, a changed one that it did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dm_worker.syncer.checkpoint import DDLRecord, MetaStore
from dm_worker.syncer.ddl_session import DDLSession, StatementFailed
from dm_worker.syncer.protocol import Progress
from dm_worker.syncer.upstream_collations import UpstreamCollations
from pkg import ddl, errors
from pkg.binlog.events import Query
from pkg.binlog.position import Position
from pkg.errors import DMError
from pkg.errors.workarounds import PASS_STATEMENT
from pkg.log import get_logger
from pkg.mysql.names import qualified, quote
from pkg.mysql.retry import retrying

log = get_logger("syncer.ddl")

#: TiDB's number for all that it does not support, and what it says of several parts that it takes one by one.
_UNSUPPORTED_IN_TIDB = 8200
_SEVERAL_PARTS = "unsupported multi schema change"


@dataclass(frozen=True, slots=True)
class Step:
    """One statement for the target: what it came from, its text, the names at the target it is about, and the route
    that led from the one to the other."""

    parsed: ddl.Statement
    text: str
    targets: tuple[tuple[str, str], ...]
    route: ddl.Route


@dataclass(frozen=True, slots=True)
class Context:
    """What a statement ran in upstream: its session and its time (unix seconds)."""

    query: Query
    timestamp: int


def contexts_text(contexts: Iterable[Context]) -> str:
    """All that matters of them when their statements run later."""
    return json.dumps([_context_data(one.query, one.timestamp) for one in contexts])


def _context_data(query: Query, timestamp: int) -> list[object]:
    others = [query.explicit_defaults_for_timestamp, query.utf8mb4_collation]
    return [query.sql_mode, query.charsets, query.time_zone, timestamp, *others]


def contexts_of(text: str) -> list[Context]:
    """What :func:`contexts_text` made a text of."""
    found = []
    # Texts of earlier versions end with the timestamp, or with what follows it.
    for sql_mode, charsets, time_zone, timestamp, *others in json.loads(text):
        known = None if charsets is None else (int(charsets[0]), int(charsets[1]), int(charsets[2]))
        explicit, utf8mb4 = [*others, None, None][:2]
        query = Query(
            *(0, 0, 0, "", b""),
            sql_mode=sql_mode,
            charsets=known,
            time_zone=str(time_zone),
            explicit_defaults_for_timestamp=explicit,
            utf8mb4_collation=utf8mb4,
        )
        found.append(Context(query, int(timestamp)))
    return found


def _may_pass_in_parts(failed: StatementFailed) -> bool:
    """Whether a refused ALTER TABLE of several parts, none of which ran, may run part by part."""
    if failed.number == _UNSUPPORTED_IN_TIDB:
        return _SEVERAL_PARTS in failed.error.raw_cause.lower()
    return failed.number in ddl.IGNORABLE_ERRORS["alter table"]


class DDLExecutor:
    """Executes for one run. ``collations`` are written out in what the target gets; None: statements stay."""

    def __init__(
        self,
        *,
        store: MetaStore,
        session: DDLSession,
        target_flavor: str,
        explicit_timestamp: bool,
        should_stop: Callable[[], bool],
        collations: UpstreamCollations | None = None,
    ) -> None:
        self._store = store
        self._collations = collations
        self._session = session
        self.target_flavor = target_flavor
        self._explicit_timestamp = explicit_timestamp
        self._should_stop = should_stop

    def once(self, place: Position, index: int, step: Step, context: Context, intent: Progress) -> DDLRecord:
        """Executes the step unless it was: (``place``, ``index``) is its name. Returns the record to be written then.

        ``intent`` is the progress to write with the intent's record. Raises DMError.
        """
        record = self._store.read_ddl(place, index) or DDLRecord(place, index, step.text, "")
        if record.done:
            return record
        if record.part is None and not self._whole(record, step, context, intent):
            record = replace(record, part=0, fingerprint="")
        if record.part is not None:
            self._parts(record, step, context, intent)
        return replace(record, done=True)

    def wound_up(self, record: DDLRecord, targets: Iterable[tuple[str, str]]) -> DDLRecord:
        """What is known of a statement that was under way and will not be begun again: whether it ran."""
        ran = self._fingerprint(targets) != record.fingerprint
        log.info(
            "a DDL was under way when its order changed", statement=record.statement, executed=ran, part=record.part
        )
        if record.part is not None:
            return replace(record, part=record.part + ran, fingerprint="")
        return replace(record, done=True) if ran else replace(record, fingerprint="")

    def _fingerprint(self, names: Iterable[tuple[str, str]]) -> str:
        return retrying(lambda: self._session.fingerprint(names), should_stop=self._should_stop)

    def _whole(self, record: DDLRecord, step: Step, context: Context, intent: Progress) -> bool:
        """Executes the statement; False when it has to be executed part by part.

        Shards that merge run the same DDL once each: its effect may be there already. And TiDB does not take every
        ALTER TABLE of several parts.
        """
        try:
            self._execute(record, step, step.text, context, intent)
        except StatementFailed as exc:
            if exc.number in ddl.ignorable_errors(step.parsed):
                log.info("a DDL had its effect before", statement=step.text, error=exc.error.raw_cause)
                return True
            if _may_pass_in_parts(exc) and len(ddl.split_alter(step.parsed)) > 1:
                return False
            raise self._refused(record, step, exc, intent) from exc
        return True

    def _parts(self, record: DDLRecord, step: Step, context: Context, intent: Progress) -> None:
        """Executes the parts from that of the record on, each with an intent of its own: once one of them ran, the
        statement's tables are not as they were, whatever became of the next."""
        first = record.part or 0
        for number, part in enumerate(ddl.split_alter(step.parsed)[first:], first):
            if number > first:
                record = replace(record, part=number, fingerprint="")
            text = ddl.rewrite(part, step.route, target_flavor=self.target_flavor)
            try:
                self._execute(record, step, text, context, intent)
            except StatementFailed as exc:
                if exc.number not in ddl.ignorable_errors(part):
                    raise self._refused(record, step, exc, intent) from exc
                log.info("a part of a DDL had its effect before", statement=text, error=exc.error.raw_cause)

    def _execute(self, record: DDLRecord, step: Step, text: str, context: Context, intent: Progress) -> None:
        """Executes what the record is about unless it was. Raises DMError and StatementFailed.

        Collations are written out here alone: what is recorded and compared does not depend on the task's setting.
        """
        if self._collations is not None:
            text = self._collations.written_out(text, step.parsed.dialect, context.query)
        before = self._fingerprint(step.targets)
        if not record.fingerprint:
            self._store.write(intent, ddl=replace(record, statement=step.text, fingerprint=before))
        elif record.fingerprint != before:
            log.info("a DDL was executed before a restart", statement=text, place=str(record.place))
            return
        log.info("executing a DDL", statement=text, place=str(record.place))

        def attempt() -> None:
            self._session.execute(text, step.parsed.kind, context.query, context.timestamp, self._explicit_timestamp)

        def again() -> None:
            # A connection that was lost in between tells nothing: look whether the statement had its effect.
            if self._session.fingerprint(step.targets) == before:
                attempt()

        try:
            attempt()
        except DMError as exc:
            if not exc.retryable or self._should_stop():
                raise
            log.warning("a DDL is tried again", statement=text, error=str(exc))
            retrying(again, should_stop=self._should_stop)

    def _refused(self, record: DDLRecord, step: Step, failed: StatementFailed, intent: Progress) -> DMError:
        """Withdraws the intent: whatever is done to its tables before the next try is not its effect."""
        self._store.write(intent, ddl=replace(record, fingerprint=""))
        return self._failed(step, failed)

    def _failed(self, step: Step, failed: StatementFailed) -> DMError:
        names = ", ".join(qualified(*name) if name[1] else quote(name[0]) for name in step.targets)
        return errors.new(
            "SyncerUnitHandleDDLFailed",
            f"the DDL for {names} failed: {failed.error.message}",
            raw=failed.error.raw_cause,
            scope="downstream",
            workaround=failed.error.workaround
            or f"Make the target's table as the statement needs it, then resume the task. {PASS_STATEMENT}",
        )
