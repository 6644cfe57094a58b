"""Executor side: writes the rows of one bucket and its marker in one transaction, exactly once.

Runs inside Spark's Python workers: plain functions, connections kept per process, no driver state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.syncer import statements
from dm_worker.syncer.batch import BucketResult, TablePlan, Ticket
from dm_worker.syncer.combine import Content
from dm_worker.syncer.protocol import Marker, Verdict, judge
from dm_worker.syncer.statements import SQL, Form
from pkg import errors
from pkg.config.model import DBConfig
from pkg.errors import DMError
from pkg.mysql.connection import classify, connect, error_number, is_lost
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified
from pkg.mysql.retry import retrying

#: What all data needs to arrive as it is; the task's own session settings come on top.
SESSION = {
    "time_zone": "+00:00",
    "sql_mode": "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION",
    "foreign_key_checks": "0",
}
#: A restarting server is away for a minute or so: about two minutes of attempts.
ATTEMPTS, BASE, CAP = 60, 0.05, 3.0
#: What an operator does about a row that the target refuses, by the server's error number.
REPAIRS = {
    1048: "Let the target's column be NULL as the upstream's is, then resume the task.",
    1054: "Add the column to the target table, with the values of the upstream's rows, then resume the task.",
    1062: "Another row of the target has this key. Remove that row, or drop the unique key if only the target has it, "
    "then resume the task.",
    1146: "Bring the target table back with its rows, or leave the upstream table out with block-allow-list; then "
    "resume the task.",
    1264: "Give the target's column a type that the value fits, then resume the task.",
    1364: "Give the target's column a default, then resume the task.",
    1366: "Give the target's column a type and charset that the value fits, then resume the task.",
    1406: "Give the target's column a type that the value fits, then resume the task.",
    1452: "Bring the row that the foreign key refers to, or drop the foreign key; then resume the task.",
}
REPAIR = "Mend what the message tells of the target, then resume the task: it goes on where it stopped."
_TRUNCATED = 1265
_ENUM_WORKAROUND = (
    "The target's strict session takes no ENUM value that is not among the members. Where the upstream holds ENUM's "
    "error value (e + 0 = 0), set it to a member there, or let the task take it: set target-database.session "
    'sql_mode: "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO", which also cuts other values that do not fit, until the '
    "task has passed this place. Otherwise add the member to the target's column."
)
#: Idle connections are checked before use when they rested this long (seconds).
REST = 10.0


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """How a task reaches the target: ``markers`` is the quoted name of the marker table."""

    config: DBConfig
    session: tuple[tuple[str, str], ...]
    markers: str
    form: Form


_Address = tuple[DBConfig, tuple[tuple[str, str], ...]]


class _Pool:
    """The idle connections of this process, by target."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[_Address, list[tuple[Connection[Any], float]]] = {}

    @contextmanager
    def connection(self, spec: TargetSpec) -> Iterator[Connection[Any]]:
        conn = self._take(spec)
        try:
            yield conn
        except BaseException:
            # In an unknown state, or lost: the server rolls back what was open.
            conn.close() if conn.open else None
            raise
        with self._lock:
            self._idle.setdefault((spec.config, spec.session), []).append((conn, time.monotonic()))

    def _take(self, spec: TargetSpec) -> Connection[Any]:
        while True:
            with self._lock:
                idle = self._idle.get((spec.config, spec.session))
                found = idle.pop() if idle else None
            if found is None:
                return open_connection(spec.config, dict(spec.session))
            conn, since = found
            if time.monotonic() - since < REST or _alive(conn):
                return conn


def _alive(conn: Connection[Any]) -> bool:
    try:
        conn.ping(reconnect=False)
    except (pymysql.Error, OSError):
        return False
    return True


_POOL = _Pool()


def open_connection(config: DBConfig, session: Mapping[str, str]) -> Connection[Any]:
    """A writer's connection. Raises DMError."""
    conn = connect(config, scope="downstream", autocommit=False, session={**SESSION, **session})
    try:
        log_bin, log_format = query(conn, "SELECT @@log_bin, @@binlog_format")[0]
        if not int(log_bin) or str(log_format).upper() != "STATEMENT":
            # Without gap locks, writers of neighbouring keys don't deadlock.
            query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        conn.commit()
    except pymysql.Error as exc:
        raise classify(exc, scope="downstream", statement="SET SESSION TRANSACTION …") from exc
    return conn


def apply_bucket(
    spec: TargetSpec,
    ticket: Ticket,
    bucket: int,
    content: Content,
    plans: Mapping[int, TablePlan],
    should_stop: Callable[[], bool] | None = None,
) -> BucketResult:
    """Writes the bucket's rows unless an earlier attempt did; tries again what is worth it. Raises DMError."""

    def attempt() -> BucketResult:
        with _POOL.connection(spec) as conn:
            return _transaction(conn, spec, ticket, bucket, content, plans)

    return retrying(attempt, should_stop=should_stop, attempts=ATTEMPTS, base=BASE, cap=CAP)


def _transaction(
    conn: Connection[Any],
    spec: TargetSpec,
    ticket: Ticket,
    bucket: int,
    content: Content,
    plans: Mapping[int, TablePlan],
) -> BucketResult:
    result = BucketResult(bucket, content.changes)
    try:
        if not _take_marker(conn, spec, ticket, bucket):
            conn.rollback()
            result.skipped = True
            return result
    except (pymysql.Error, OSError) as exc:
        raise classify(exc, scope="downstream", table=spec.markers) from exc
    for sql in _all_statements(content, plans, spec.form):
        _run(conn, sql, plans[sql.plan])
        result.statements += 1
    try:
        # When the answer to this is lost, the next attempt finds the marker either way.
        conn.commit()
    except (pymysql.Error, OSError) as exc:
        raise classify(exc, scope="downstream", statement="COMMIT") from exc
    return result


def _take_marker(conn: Connection[Any], spec: TargetSpec, ticket: Ticket, bucket: int) -> bool:
    """Claims the bucket for the batch; False when its rows are in already. Raises DMError when fenced."""
    with conn.cursor() as cursor:
        changed = cursor.execute(
            f"UPDATE {spec.markers} SET batch = %s WHERE id = %s AND bucket = %s AND epoch = %s AND batch < %s",
            (ticket.number, ticket.source_id, bucket, ticket.epoch, ticket.number),
        )
    if changed == 1:
        return True
    rows = query(
        conn, f"SELECT batch, epoch FROM {spec.markers} WHERE id = %s AND bucket = %s", (ticket.source_id, bucket)
    )
    marker = Marker(int(rows[0][0]), int(rows[0][1])) if rows else None
    verdict = judge(marker, ticket.number, ticket.epoch)
    if verdict is Verdict.APPLIED:
        return False
    if verdict is Verdict.APPLY:
        # Another attempt of this very bucket rolled back between the two statements.
        raise errors.new("DBExecuteFailed", f"the marker of bucket {bucket} changed meanwhile", retryable=True)
    raise fenced(spec.markers, ticket, marker)


def fenced(table: str, ticket: Ticket, marker: Marker | None) -> DMError:
    """The error of a writer whose right to write is gone."""
    found = "no marker row" if marker is None else f"epoch {marker.epoch}, batch {marker.batch}"
    return errors.new(
        "SyncerEvent",
        f"batch {ticket.number} of epoch {ticket.epoch} of source {ticket.source_id} may not write: "
        f"{table} has {found}",
        scope="downstream",
        workaround="Another worker took over this subtask, or its meta tables were changed. Check with query-status "
        "which worker runs it; resume the task to take over.",
    )


def _all_statements(content: Content, plans: Mapping[int, TablePlan], form: Form) -> Iterator[SQL]:
    for group in content.groups:
        yield statements.for_group(plans[group.plan], group, form)
    for rows in statements.in_order(plans, content.ordered):
        yield from statements.for_ordered(plans, rows, form)


def _run(conn: Connection[Any], sql: SQL, plan: TablePlan) -> None:
    target = qualified(*plan.target)
    try:
        with conn.cursor() as cursor:
            cursor.execute(sql.text)
            matched = cursor.rowcount
    except (pymysql.Error, OSError) as exc:
        if is_lost(exc):
            raise classify(exc, scope="downstream", table=target) from exc
        text = sql.text.decode("utf-8", "backslashreplace")
        error = classify(exc, scope="downstream", statement=text, table=target)
        if error_number(exc) == _TRUNCATED and any(column.type_name == "enum" for column in plan.columns):
            raise error.with_workaround(_ENUM_WORKAROUND) from exc
        repair = "" if error.retryable else REPAIRS.get(error_number(exc), REPAIR)
        raise error.with_workaround(repair) from exc
    if sql.expect is not None and matched != sql.expect:
        text = sql.text[:2000].decode("utf-8", "backslashreplace")
        raise errors.new(
            "SyncerUnitDMLOldNewValueMismatch",
            f"the target table {target} has no row that equals the old row of the change of {qualified(*plan.source)} "
            f"that ends at binlog offset {sql.position}: {text}",
            scope="downstream",
            workaround="Something else changed the target. Bring the row back as the upstream has it and resume the "
            "task, or migrate the table again. A primary key would identify rows for good.",
        )
