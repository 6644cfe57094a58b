"""Executor side: writes the rows of one bucket and its marker in one transaction, exactly once.

Runs inside Spark's Python workers: plain functions, connections kept per process, no driver state. A bucket takes two
round trips: the marker and the statements, sent one behind the other; then COMMIT, when every answer is as it must be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice

import pymysql

from dm_worker.syncer.checkpoint.lost_ownership import fell_back
from dm_worker.syncer.checkpoint.protocol import Marker, MarkerVerdict, judge_marker
from dm_worker.syncer.execution import bulk_execution, keyless_writer, load_data, refused_rows, row_statements
from dm_worker.syncer.execution.computed_rows import RowByRow
from dm_worker.syncer.execution.keyless import KeylessRows, plan_for
from dm_worker.syncer.execution.keyless_writer import NeedsSingleRows, NoSuchRow, RowRefused
from dm_worker.syncer.execution.merge import DELETE_KEYS, INSERT_ROWS, UPSERT_ROWS, BucketContent, RowGroup
from dm_worker.syncer.execution.row_statements import LoadStatement, RowStatement, StatementForm
from dm_worker.syncer.execution.target_connections import (
    MOST_PREPARED,
    SESSION,
    TargetAddress,
    TargetWriter,
    WriterPool,
)
from dm_worker.syncer.planning.batch import BucketResult, WriteToken
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg import errors
from pkg.config.target_session import writing_session
from pkg.errors import Code, DMError
from pkg.mysql.bulk import PreparedStatement
from pkg.mysql.connection import classify, is_lost, is_retryable
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified
from pkg.mysql.pipeline import AHEAD, Refused, send_ahead
from pkg.mysql.retry import retrying
from pkg.settings.connections import DBConfig

#: A restarting server is away for a minute or so: about two minutes of attempts.
ATTEMPTS, BASE, CAP = 60, 0.05, 3.0
#: The plan number of the marker's statement.
_MARKER = -1


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """How a task reaches the target: ``markers`` and ``batches`` are the quoted names of the protocol's tables."""

    config: DBConfig
    session: tuple[tuple[str, str], ...]
    markers: str
    batches: str
    form: StatementForm

    @property
    def address(self) -> TargetAddress:
        return self.config, self.session


_POOL = WriterPool()


class _NotExact(Exception):
    """Rows did not load as they are, or something was refused: statements alone tell more."""


class _OldLimit(Exception):
    """A statement is too long for a connection that may be older than the server's limit."""


class _NotClaimed(Exception):
    """The marker did not let the batch in."""


def apply_bucket(
    spec: TargetSpec,
    token: WriteToken,
    bucket: int,
    content: BucketContent,
    plans: Mapping[int, TablePlan],
    should_stop: Callable[[], bool] | None = None,
) -> BucketResult:
    """Writes the bucket's rows unless an earlier attempt did; tries again what is worth it. Raises DMError."""

    def attempt() -> BucketResult:
        ahead = AHEAD if _POOL.may_send_ahead(spec.address) else 1
        try:
            with _POOL.writer(spec.address) as writer:
                bucket_writer = _BucketWriter(writer, spec, token, bucket, plans, ahead)
                try:
                    return bucket_writer.run(content, fast=True)
                except _NotExact:
                    writer.conn.rollback()
                    return bucket_writer.run(content, fast=False)
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", statement="ROLLBACK") from exc
        except _OldLimit:
            _POOL.forget(spec.address)
            return attempt()
        except DMError as exc:
            if ahead > 1 and exc.kind is Code.DBBadConn:
                _POOL.lost_ahead(spec.address)
            raise

    failed: list[tuple[DMError, float]] = []

    def note(exc: DMError, _: int) -> None:
        failed.append((exc, time.monotonic()))

    result = retrying(attempt, should_stop=should_stop, attempts=ATTEMPTS, base=BASE, cap=CAP, on_retry=note)
    if not failed:
        return result
    # A task has no log of its own.
    waited = time.monotonic() - failed[0][1]
    return replace(result, failures=len(failed), cause=str(failed[-1][0]), waited=waited)


class _BucketWriter:
    """One bucket's transaction on one connection."""

    def __init__(
        self,
        writer: TargetWriter,
        spec: TargetSpec,
        token: WriteToken,
        bucket: int,
        plans: Mapping[int, TablePlan],
        ahead: int,
    ) -> None:
        self._writer = writer
        self._conn = writer.conn
        self._spec = spec
        self._token = token
        self._bucket = bucket
        self._plans = plans
        self._ahead = ahead
        self._statements = 0
        self._by_row: RowByRow | None = None

    @property
    def _most(self) -> int:
        """Bytes that the server takes as a statement."""
        return self._writer.most_bytes - 1

    def run(self, content: BucketContent, *, fast: bool) -> BucketResult:
        """The whole transaction, with loads, bulk executions and multisets if ``fast``.

        Raises DMError, and ``_NotExact`` when it must be done without them.
        """
        self._statements = 0
        self._by_row = None if fast or not _computes(content, self._plans) else self._row_by_row()
        if self._token.replanned and self._holds_once():
            content = without_once(content, self._plans)
        loadable = self._loadable(content) if fast and self._writer.loads else frozenset()
        bulk = self._bulk_statements(content, loadable) if fast else {}
        steps = self._steps(content, loadable, bulk, self._mergeable(content) if fast else frozenset())
        try:
            others = self._write(chain([self._marker()], steps))
        except _NotClaimed:
            return self._left_out(content)
        except Refused as exc:
            raise self._refusal(content, exc.statement, exc.cause, fast=fast) from exc.cause
        assert fast or not others
        try:
            # When the answer to this is lost, the next attempt finds the marker either way.
            self._conn.commit()
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", statement="COMMIT") from exc
        return BucketResult(self._bucket, content.changes, self._statements)

    def _holds_once(self) -> bool:
        """Whether an earlier attempt, under another plan, wrote the bucket's rows of ``only_once`` tables. Locks the
        marker."""
        sql = f"SELECT batch FROM {self._spec.markers} WHERE id = %s AND bucket = %s AND batch >= %s FOR UPDATE"
        try:
            found = query(self._conn, sql, (self._token.source_id, self._bucket, self._token.keyless_since))
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", table=self._spec.markers) from exc
        return bool(found)

    # -- what is written --------------------------------------------------------------------------------------------

    def _marker(self) -> RowStatement:
        """Claims the bucket for the batch; matches no row when its rows are in already, or when fenced, or where the
        batch's intent is not: this state of the target is an older one."""
        token = self._token
        intent = (token.source_id, token.epoch, token.number)
        with self._conn.cursor() as cursor:
            text = cursor.mogrify(
                f"UPDATE {self._spec.markers} SET batch = %s, connection = CONNECTION_ID()"
                " WHERE id = %s AND bucket = %s AND epoch = %s"
                f" AND batch < %s AND EXISTS ({self._intent()})",
                (token.number, token.source_id, self._bucket, token.epoch, token.number, *intent),
            )
        return RowStatement(text.encode(), _MARKER, expect=1)

    def _intent(self) -> str:
        return f"SELECT 1 FROM {self._spec.batches} WHERE id = %s AND epoch = %s AND batch = %s"

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

    def _loadable(self, content: BucketContent) -> frozenset[tuple[int, int]]:
        """The plans and kinds of groups whose rows may be loaded."""
        form, address = self._spec.form, self._spec.address
        found = set()
        for (number, kind), count in _counts(content).items():
            plan = self._plans[number]
            if count < load_data.LEAST_ROWS or not row_statements.loadable(plan, kind, form):
                continue
            if kind == UPSERT_ROWS and self._executes_in_bulk(plan):
                # Updates in place cost less than a load's replacements.
                continue
            if not _POOL.may_load(address, plan.target):
                continue
            if plan.numbered and not self._writer.loads_side_by_side:
                continue
            # An upsert is loaded as a replacement. Where a trigger would tell them apart, it stays an upsert.
            if kind == INSERT_ROWS or row_statements.replaces(plan, kind, form) or not self._has_triggers(plan):
                found.add((number, kind))
        return frozenset(found)

    def _mergeable(self, content: BucketContent) -> frozenset[int]:
        """The plans whose rows without a key may be written as a multiset."""
        if not row_statements.mergeable(self._spec.form):
            return frozenset()
        runs = row_statements.in_order(self._plans, content.ordered)
        plans = [plan for rows in runs if (plan := plan_for(self._plans, rows)) is not None]
        # A trigger would see an update as another row's end.
        return frozenset(plan.number for plan in plans if not self._has_triggers(plan))

    def _executes_in_bulk(self, plan: TablePlan) -> bool:
        # What a lost connection had on its way may be what a proxy did not know.
        return self._writer.bulk and self._ahead > 1 and bool(plan.bulk)

    def _bulk_statements(
        self, content: BucketContent, loadable: frozenset[tuple[int, int]]
    ) -> dict[tuple[int, int], PreparedStatement]:
        """The statements of the plans and kinds whose rows go by bulk executions."""
        found: dict[tuple[int, int], PreparedStatement] = {}
        for (number, kind), count in _counts(content).items():
            plan = self._plans[number]
            if kind == DELETE_KEYS or count < bulk_execution.LEAST_ROWS or (number, kind) in loadable:
                continue
            if not self._executes_in_bulk(plan) or len(found) == MOST_PREPARED:
                continue
            try:
                text = row_statements.template(plan, kind, self._spec.form)
                found[number, kind] = self._writer.prepare(text, len(plan.write))
            except (pymysql.Error, OSError) as exc:
                if is_retryable(exc):
                    raise classify(exc, scope="downstream", table=qualified(*plan.target)) from exc
                # The INSERT will tell what is wrong.
        return found

    def _has_triggers(self, plan: TablePlan) -> bool:
        try:
            return _POOL.has_triggers(self._spec.address, self._conn, plan.target)
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", statement="SELECT … FROM information_schema.TRIGGERS") from exc

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
            if sql.plan == _MARKER:
                self._send_run(iter([sql]))
            else:
                self._by_row.write(sql, self._plans[sql.plan])

    def _send_run(self, run: Iterator[RowStatement]) -> None:
        with closing(send_ahead(self._conn, run, lambda sql: sql.sent, ahead=self._ahead)) as answers:
            for sql, answer in answers:
                if sql.expect is None or answer.matched == sql.expect:
                    self._statements += sql.plan != _MARKER
                elif sql.plan == _MARKER:
                    raise _NotClaimed
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
        """Rows without a key as a multiset."""
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
        _POOL.refuse_loads(self._spec.address, target)
        return _NotExact(target)

    def _left_out(self, content: BucketContent) -> BucketResult:
        """The marker did not match: the rows are in already, or this writer may write no more. Raises DMError."""
        token, markers = self._token, self._spec.markers
        try:
            rows = query(
                self._conn,
                f"SELECT batch, epoch FROM {markers} WHERE id = %s AND bucket = %s",
                (token.source_id, self._bucket),
            )
            intent = query(self._conn, self._intent(), (token.source_id, token.epoch, token.number))
            self._conn.rollback()
            if any(plan.family for plan in self._plans.values()):
                # What was sent behind the marker may have changed it, and others use this connection next.
                query(self._conn, row_statements.switch(_MARKER, on=self._spec.form.checks).text.decode())
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", table=markers) from exc
        marker = Marker(int(rows[0][0]), int(rows[0][1])) if rows else None
        verdict = judge_marker(marker, token.number, token.epoch)
        if verdict is MarkerVerdict.APPLIED:
            return BucketResult(self._bucket, content.changes, skipped=True)
        if marker is None or marker.epoch < token.epoch or (verdict is MarkerVerdict.APPLY and not intent):
            raise fell_back(markers if marker is None else self._spec.batches, token.source_id)
        if verdict is MarkerVerdict.APPLY:
            # Another attempt of this very bucket rolled back between the two statements.
            raise errors.new(
                Code.DBExecuteFailed, f"the marker of bucket {self._bucket} changed meanwhile", retryable=True
            )
        raise fenced(markers, token, marker)

    # -- what went wrong --------------------------------------------------------------------------------------------

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
        """What to raise for a refused statement."""
        if sql.plan == _MARKER:
            return classify(exc, scope="downstream", table=self._spec.markers)
        plan = self._plans[sql.plan]
        if is_retryable(exc):
            return classify(exc, scope="downstream", table=qualified(*plan.target))
        if fast:
            # Without loads and bulk executions, the statements before this one can be told by their number.
            return _NotExact()
        if not refused_rows.is_of_a_row(exc):
            return refused_rows.statement_refusal(exc, plan)
        if sql.group is not None and sql.group.count > 1:
            try:
                sql, exc = self._hunt(content, sql, sql.group, exc)
            except Refused as other:
                sql, exc, plan = other.statement, other.cause, self._plans[other.statement.plan]
                if is_retryable(exc):
                    # Another writer was in the way of the replay, which tells nothing about the rows.
                    return classify(exc, scope="downstream", table=qualified(*plan.target))
                # Otherwise the rows changed meanwhile: now it is another one.
            except (pymysql.Error, OSError) as lost:
                return classify(lost, scope="downstream", table=qualified(*plan.target))
        return refused_rows.refusal(exc, plan, row_statements.row_name(plan, sql), sql.position, self._plans.values())

    def _hunt(
        self, content: BucketContent, failed: RowStatement, group: RowGroup, exc: Exception
    ) -> tuple[RowStatement, Exception]:
        """The statement of the one row at fault, and the server's error for it. The transaction is rolled back and
        replayed up to the failed statement; nothing of it is committed."""
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


def _counts(content: BucketContent) -> dict[tuple[int, int], int]:
    """Rows of the groups by plan and kind."""
    counts: dict[tuple[int, int], int] = {}
    for group in content.groups:
        counts[group.plan, group.kind] = counts.get((group.plan, group.kind), 0) + group.count
    return counts


def _computes(content: BucketContent, plans: Mapping[int, TablePlan]) -> bool:
    """Whether a target of the content has generated columns."""
    numbers = {group.plan for group in content.groups}
    numbers |= {row[2] for rows in content.ordered.values() for row in rows}
    return any(plans[number].computed for number in numbers)


def without_once(content: BucketContent, plans: Mapping[int, TablePlan]) -> BucketContent:
    """The content without the rows of ``only_once`` tables. They are all among the rows in order."""
    ordered = {target: [row for row in rows if not plans[row[2]].only_once] for target, rows in content.ordered.items()}
    return replace(content, ordered={target: rows for target, rows in ordered.items() if rows})


def fenced(table: str, token: WriteToken, marker: Marker) -> DMError:
    """The error of a writer whose right to write is gone."""
    found = f"epoch {marker.epoch}, batch {marker.batch}"
    return errors.new(
        Code.SyncerEvent,
        f"batch {token.number} of epoch {token.epoch} of source {token.source_id} may not write: {table} has {found}",
        scope="downstream",
        workaround="Another worker took over this subtask, or its meta tables were changed. query-status shows which "
        "worker runs it. Resume the task to take it over again.",
    )
