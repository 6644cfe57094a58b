"""Writes the rows of one bucket and its marker in one transaction, exactly once.

Runs inside Spark's Python workers, and for tiny batches in the driver: plain functions, connections of a pool, no state
of the driver. A bucket takes two round trips: first the marker and all statements; then COMMIT, if every answer is as
expected.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice

import pymysql

from dm_worker.syncer.execution import (
    bulk_execution,
    keyless_writer,
    load_data,
    refused_rows,
    row_statements,
    value_checks,
)
from dm_worker.syncer.execution.bulk_choice import BulkChoice
from dm_worker.syncer.execution.computed_rows import RowByRow
from dm_worker.syncer.execution.keyless import KeylessRows
from dm_worker.syncer.execution.keyless_writer import NeedsSingleRows, NoSuchRow, RowRefused
from dm_worker.syncer.execution.marker_claim import MARKER, MarkerClaim
from dm_worker.syncer.execution.merge import BucketContent, RowGroup
from dm_worker.syncer.execution.row_statements import LoadStatement, RowStatement
from dm_worker.syncer.execution.target_connections import (
    SESSION,
    TargetSpec,
    TargetWriter,
    WriterPool,
)
from dm_worker.syncer.figures.batch_report import BucketReport
from dm_worker.syncer.planning.batch import WriteToken
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg import errors
from pkg.config.target_session import writing_session
from pkg.errors import Code, DMError
from pkg.mysql.bulk import PreparedStatement
from pkg.mysql.connection import classify, is_lost, is_retryable
from pkg.mysql.names import qualified
from pkg.mysql.pipeline import AHEAD, Refused, send_ahead
from pkg.mysql.retry import retrying

#: A restarting server is unavailable for about a minute: retry for about two minutes.
ATTEMPTS, BASE, CAP = 60, 0.05, 3.0


@dataclass(slots=True)
class BucketResult:
    """The result of one bucket's transaction. ``skipped``: an earlier attempt had already applied it.

    ``failures``: number of attempts that failed for a transient reason (a deadlock, a lock wait, a lost connection),
    ``cause`` the last one's error, ``waited`` the seconds since the first of them. ``commit``: seconds of the COMMIT.
    ``report``: the task's measurements.
    """

    bucket: int
    changes: int = 0
    statements: int = 0
    skipped: bool = False
    failures: int = 0
    cause: str = ""
    waited: float = 0.0
    commit: float = 0.0
    report: BucketReport | None = None


#: The writers of the tasks that Spark runs in this process.
_POOL = WriterPool()


class _NotExact(Exception):
    """Rows did not load exactly, or the target refused something: plain statements show why."""


class _OldLimit(Exception):
    """A statement exceeds a limit that the connection may have read before the server's limit changed."""


class RowsCollide(Exception):
    """A row could not be updated in place: another one still has its new value of a unique key."""


class _NotClaimed(Exception):
    """The marker did not accept the batch."""


def apply_bucket(
    spec: TargetSpec,
    token: WriteToken,
    bucket: int,
    content: BucketContent,
    plans: Mapping[int, TablePlan],
    pool: WriterPool | None = None,
) -> BucketResult:
    """Writes the bucket's rows unless an earlier attempt did; retries transient errors until the ``pool`` ends. Without
    ``pool`` it is that of Spark's tasks in this process. Raises DMError, and ``RowsCollide`` for content that must be
    merged for a form that ``renews`` rows."""
    writers = _POOL if pool is None else pool

    def attempt() -> BucketResult:
        ahead = AHEAD if writers.may_send_ahead(spec.address) else 1
        try:
            with writers.writer(spec.address) as writer:
                bucket_writer = _BucketWriter(writers, writer, spec, token, bucket, plans, ahead)
                try:
                    return bucket_writer.run(content, fast=True)
                except _NotExact:
                    writer.conn.rollback()
                    with writer.checking_in_place():
                        return bucket_writer.run(content, fast=False)
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", statement="ROLLBACK") from exc
        except _OldLimit:
            writers.forget(spec.address)
            return attempt()
        except DMError as exc:
            if ahead > 1 and exc.kind is Code.DBBadConn:
                writers.lost_ahead(spec.address)
            raise

    failed: list[tuple[DMError, float]] = []

    def note(exc: DMError, _: int) -> None:
        failed.append((exc, time.monotonic()))

    result = retrying(
        attempt, should_stop=lambda: writers.has_ended, attempts=ATTEMPTS, base=BASE, cap=CAP, on_retry=note
    )
    if not failed:
        return result
    # A task has no log.
    waited = time.monotonic() - failed[0][1]
    return replace(result, failures=len(failed), cause=str(failed[-1][0]), waited=waited)


class _BucketWriter:
    """One bucket's transaction on one connection."""

    def __init__(
        self,
        pool: WriterPool,
        writer: TargetWriter,
        spec: TargetSpec,
        token: WriteToken,
        bucket: int,
        plans: Mapping[int, TablePlan],
        ahead: int,
    ) -> None:
        self._pool = pool
        self._writer = writer
        self._conn = writer.conn
        self._spec = spec
        self._token = token
        self._bucket = bucket
        self._plans = plans
        self._ahead = ahead
        self._marker = MarkerClaim(writer.conn, spec, token, bucket)
        self._choice = BulkChoice(pool, writer, spec, plans, alone=ahead == 1)
        self._statements = 0
        self._by_row: RowByRow | None = None
        self._reorders = False

    @property
    def _most(self) -> int:
        """The server's limit for a statement, in bytes."""
        return self._writer.most_bytes - 1

    def run(self, content: BucketContent, *, fast: bool) -> BucketResult:
        """Runs the whole transaction, with loads, bulk executions, multisets and another order if ``fast``.

        Raises DMError, and ``_NotExact`` when it must run without them.
        """
        value_checks.ensure_kept(content, self._plans)
        self._statements = 0
        self._reorders = fast
        self._by_row = None if fast or not _computes(content, self._plans) else self._row_by_row()
        if self._token.replanned and self._marker.holds_once():
            content = without_once(content, self._plans)
        loadable = self._choice.loadable(content) if fast and self._writer.loads else frozenset()
        bulk = self._choice.bulk_statements(content, loadable) if fast else {}
        steps = self._steps(content, loadable, bulk, self._choice.mergeable(content) if fast else frozenset())
        try:
            others = self._write(chain([self._marker.statement()], steps))
        except _NotClaimed:
            # A statement after the marker may have changed whether foreign keys are checked.
            related = any(plan.family for plan in self._plans.values())
            self._marker.ensure_applied(*[row_statements.switch(MARKER, on=self._spec.form.checks)] * related)
            return BucketResult(self._bucket, content.changes, skipped=True)
        except Refused as exc:
            raise self._refusal(content, exc.statement, exc.cause, fast=fast) from exc.cause
        assert fast or not others
        began = time.perf_counter()
        try:
            # If the answer to this is lost, the marker shows the next attempt what happened.
            self._conn.commit()
        except (pymysql.Error, OSError) as exc:
            if fast and self._writer.checks_late and refused_rows.is_duplicate(exc):
                raise _NotExact from exc
            raise classify(exc, scope="downstream", statement="COMMIT") from exc
        return BucketResult(self._bucket, content.changes, self._statements, commit=time.perf_counter() - began)

    # -- content ----------------------------------------------------------------------------------------------------

    def _steps(
        self,
        content: BucketContent,
        loadable: frozenset[tuple[int, int]],
        bulk: Mapping[tuple[int, int], PreparedStatement],
        mergeable: frozenset[int],
    ) -> Iterator[RowStatement | LoadStatement | KeylessRows]:
        most = self._most
        for step in row_statements.for_content(
            self._plans,
            content,
            self._spec.form,
            lambda plan, kind: (plan.number, kind) in loadable,
            lambda plan: plan.number in mergeable,
            most,
            reorder=self._reorders,
        ):
            if isinstance(step, RowStatement) and len(step.text) > most:
                if self._writer.reused:
                    raise _OldLimit
                plan = self._plans[step.plan]
                raise refused_rows.too_long(
                    plan, row_statements.row_name(plan, step), len(step.text) + 1, self._writer.most_bytes
                )
            if isinstance(step, RowStatement) and step.group is not None:
                statement = bulk.get((step.plan, step.group.kind))
                if statement is not None:
                    step = bulk_execution.in_bulk(self._plans[step.plan], step, step.group, statement, most)
            yield step

    # -- writing ----------------------------------------------------------------------------------------------------

    def _write(self, steps: Iterator[RowStatement | LoadStatement | KeylessRows]) -> int:
        """Runs the steps in order; returns how many of them were more than a statement. Raises Refused, DMError,
        ``_NotExact``."""
        others = 0
        for is_statement, run in groupby(steps, lambda step: isinstance(step, RowStatement)):
            if is_statement:
                self._send(step for step in run if isinstance(step, RowStatement))
                continue
            for step in run:
                others += 1
                if isinstance(step, LoadStatement):
                    self._load(step)
                elif isinstance(step, KeylessRows):
                    self._merge(step)
        return others

    def _row_by_row(self) -> RowByRow:
        mode = writing_session(SESSION, dict(self._spec.session))["sql_mode"]
        return RowByRow(self._conn, self._spec.form, mode, lambda sql: self._send_run(iter([sql])))

    def _send(self, run: Iterator[RowStatement]) -> None:
        if self._by_row is None:
            self._send_run(run)
            return
        for sql in run:
            if sql.plan == MARKER:
                self._send_run(iter([sql]))
            else:
                self._by_row.write(sql, self._plans[sql.plan])

    def _send_run(self, run: Iterator[RowStatement]) -> None:
        with closing(send_ahead(self._conn, run, lambda sql: sql.sent, ahead=self._ahead)) as answers:
            for sql, answer in answers:
                if sql.found_rows(answer.matched, answer.info):
                    self._statements += sql.plan != MARKER
                elif sql.plan == MARKER:
                    raise _NotClaimed
                elif self._reorders and self._plans[sql.plan].links:
                    # In the binlog's order the row may be there.
                    raise _NotExact(self._plans[sql.plan].target)
                else:
                    raise self._mismatch(sql)

    def _load(self, step: LoadStatement) -> None:
        target = self._plans[step.plan].target
        try:
            answer = load_data.load(self._conn, step.text, (group.body for group in step.groups))
        except (pymysql.Error, OSError) as exc:
            if is_retryable(exc):
                raise classify(exc, scope="downstream", table=qualified(*target)) from exc
            raise self._not_exact(target) from exc
        if not load_data.exact(answer, step.count):
            raise self._not_exact(target)
        self._statements += 1

    def _merge(self, step: KeylessRows) -> None:
        """Writes rows without a key as a multiset."""
        plan = step.plan
        try:
            self._statements += keyless_writer.write(self._conn, step, self._spec.form, self._most)
        except NoSuchRow as exc:
            raise self._mismatch(exc.statement) from exc
        except RowRefused as exc:
            if plan.computed:
                raise _NotExact(plan.target) from exc
            raise refused_rows.refusal(exc.cause, plan, exc.row, 0, self._plans.values()) from exc
        except NeedsSingleRows as exc:
            raise _NotExact(plan.target) from exc
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", table=qualified(*plan.target)) from exc

    def _not_exact(self, target: tuple[str, str]) -> _NotExact:
        self._pool.refuse_loads(self._spec.address, target)
        return _NotExact(target)

    # -- errors -----------------------------------------------------------------------------------------------------

    def _mismatch(self, sql: RowStatement) -> DMError:
        plan = self._plans[sql.plan]
        text = sql.text[:2000].decode("utf-8", "backslashreplace")
        return errors.new(
            Code.SyncerUnitDMLOldNewValueMismatch,
            f"the target table {qualified(*plan.target)} has no row equal to the old row of the change of "
            f"{qualified(*plan.source)} that ends at binlog offset {sql.position}: {text}",
            scope="downstream",
            workaround="Something else changed the target. Restore the row as the upstream has it and resume the "
            "task, or migrate the table again. A primary key prevents this error.",
        )

    def _refusal(self, content: BucketContent, sql: RowStatement, exc: Exception, *, fast: bool) -> Exception:
        """The exception to raise for a refused statement."""
        if sql.plan == MARKER:
            return classify(exc, scope="downstream", table=self._spec.markers)
        plan = self._plans[sql.plan]
        if is_retryable(exc):
            return classify(exc, scope="downstream", table=qualified(*plan.target))
        if refused_rows.is_duplicate(exc) and row_statements.may_collide(plan, sql, self._spec.form):
            return RowsCollide()
        if fast:
            # Without loads and bulk executions, the number of statements identifies the preceding ones.
            return _NotExact()
        if not refused_rows.is_of_a_row(exc):
            return refused_rows.statement_refusal(exc, plan)
        if sql.group is not None and sql.group.count > 1:
            try:
                sql, exc = self._hunt(content, sql, sql.group, exc)
            except Refused as other:
                sql, exc, plan = other.statement, other.cause, self._plans[other.statement.plan]
                if is_retryable(exc):
                    # Another writer blocked the replay, which does not involve the rows.
                    return classify(exc, scope="downstream", table=qualified(*plan.target))
                # Otherwise the rows have changed: now another one is refused.
            except (pymysql.Error, OSError) as lost:
                return classify(lost, scope="downstream", table=qualified(*plan.target))
        return refused_rows.refusal(exc, plan, row_statements.row_name(plan, sql), sql.position, self._plans.values())

    def _hunt(
        self, content: BucketContent, failed: RowStatement, group: RowGroup, exc: Exception
    ) -> tuple[RowStatement, Exception]:
        """The statement of the one refused row, and the server's error for it. Rolls the transaction back and replays
        it up to the failed statement; commits nothing."""
        form, plan = self._spec.form, self._plans[failed.plan]
        self._conn.rollback()
        before = islice(self._steps(content, frozenset(), {}, frozenset()), self._statements)
        self._replay(step for step in before if isinstance(step, RowStatement))
        last = exc

        def of(first: int, end: int) -> RowStatement:
            return row_statements.for_group(plan, row_statements.part(group, first, end), form)

        def refused(first: int, end: int) -> bool:
            nonlocal last
            try:
                self._replay(iter([of(first, end)]))
            except Refused as error:
                if is_lost(error.cause) or is_retryable(error.cause):
                    raise error.cause from error
                last = error.cause
                return True
            return False

        bad = refused_rows.first_bad(group.count, refused)
        refused(bad, bad + 1)
        self._conn.rollback()
        return of(bad, bad + 1), last

    def _replay(self, run: Iterator[RowStatement]) -> None:
        with closing(send_ahead(self._conn, run, lambda sql: sql.sent, ahead=self._ahead)) as answers:
            for _ in answers:
                pass


def _computes(content: BucketContent, plans: Mapping[int, TablePlan]) -> bool:
    """Whether a target of the content has generated columns."""
    numbers = {group.plan for group in content.groups}
    numbers |= {row[2] for rows in content.ordered.values() for row in rows}
    return any(plans[number].computed for number in numbers)


def without_once(content: BucketContent, plans: Mapping[int, TablePlan]) -> BucketContent:
    """The content without the rows of ``only_once`` tables, which are all among the ordered rows."""
    ordered = {target: [row for row in rows if not plans[row[2]].only_once] for target, rows in content.ordered.items()}
    return replace(content, ordered={target: rows for target, rows in ordered.items() if rows})
