"""The jobs with which a target continues a DDL after its connection has ended, or after its own restart.

TiDB puts a DDL into a queue of its cluster, and the connection only waits for it. So a table's structure does not show
the result of a statement until its job has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified, quote
from pkg.process.log import get_logger

log = get_logger("ddl")

#: Seconds to wait for a job, which may build an index of a large table.
JOB_TIMEOUT = 24 * 3600.0
_INTERVAL = 0.5
_LOG_INTERVAL = 10.0
_NO_SUCH_TABLE = frozenset({1109, 1146})
#: TiDB finds jobs in these states without its history.
_UNFINISHED = "'none', 'queueing', 'running', 'done', 'pausing', 'paused', 'cancelling', 'rollingback'"
_JOBS = (
    "SELECT JOB_ID, DB_NAME, TABLE_NAME, JOB_TYPE, STATE, ROW_COUNT, QUERY FROM information_schema.DDL_JOBS"
    f" WHERE STATE IN ({_UNFINISHED})"
)


@dataclass(frozen=True, slots=True)
class TargetJob:
    """A DDL that the target has not finished. ``rows``: the number that it has written so far."""

    number: int
    state: str
    rows: int
    statement: str

    @property
    def text(self) -> str:
        return f"{self.progress}: {self.statement[:500]}"

    @property
    def progress(self) -> str:
        return f"job {self.number} ({self.state}, {self.rows} rows)"


def about(rows: Iterable[Sequence[Any]], targets: Iterable[TableId]) -> list[TargetJob]:
    """The jobs in TiDB's list that may change the tables or schemas ``targets``.

    A job of several tables names them all, a renaming names the new name, a job of a schema names no table; the steps
    of one job have separate lines.
    """
    wanted = {(schema.lower(), table.lower()) for schema, table in targets}
    schemas = {schema for schema, _ in wanted}
    tables = {table for _, table in wanted if table}
    whole = {schema for schema, table in wanted if not table}
    found = []
    for number, schema, names, kind, state, written, statement in rows:
        if str(schema).lower() not in schemas or "subjob" in str(kind):
            continue
        named = {name.strip() for name in str(names or "").lower().split(",")} - {""}
        if str(schema).lower() in whole or not named or named & tables:
            found.append(TargetJob(int(number), str(state), int(written or 0), _text(statement)))
    return found


def _text(statement: object) -> str:
    return statement.decode("utf-8", "replace") if isinstance(statement, bytes) else str(statement or "")


def unfinished_jobs(conn: Connection[Any], targets: Iterable[TableId]) -> list[TargetJob]:
    """The jobs of a TiDB that may change these tables or schemas. Raises driver errors."""
    try:
        return about(query(conn, _JOBS), targets)
    except pymysql.Error as exc:
        if error_number(exc) not in _NO_SUCH_TABLE:
            raise
        # TiDB before 4.0.
        log.warning("the target does not list its DDL jobs: none that outlives its connection is waited for")
        return []


def wait_until_finished(
    jobs: Callable[[], Sequence[TargetJob]],
    targets: Sequence[TableId],
    should_stop: Callable[[], bool],
    timeout: float = JOB_TIMEOUT,
) -> None:
    """Returns when ``jobs`` returns none any more. Raises DMError: retryable when a stop is requested, not retryable
    when they do not end."""
    begun = logged = time.monotonic()
    told = False
    while found := jobs():
        now = time.monotonic()
        if should_stop():
            raise errors.new(Code.DBExecuteFailed, f"stopped while the target executes {found[0].text}", retryable=True)
        if now - begun > timeout:
            raise _stays(found[0], targets, timeout)
        if not told or now - logged >= _LOG_INTERVAL:
            told, logged = True, now
            log.info(
                "waiting for a DDL job of the target, which continues without the connection that began it",
                job=found[0].number, state=found[0].state, rows=found[0].rows, statement=found[0].statement[:200],
            )  # fmt: skip
        time.sleep(_INTERVAL)


def _stays(job: TargetJob, targets: Sequence[TableId], timeout: float) -> DMError:
    names = ", ".join(qualified(*name) if name[1] else quote(name[0]) for name in targets)
    return errors.new(
        Code.DBExecuteFailed,
        f"after {timeout:.0f} s the target has not finished a DDL job about {names}: {job.text}",
        scope="downstream",
        workaround="Look at it with ADMIN SHOW DDL JOBS on the target. Let it continue (ADMIN RESUME DDL JOBS "
        f"{job.number} if it is paused), or end it with ADMIN CANCEL DDL JOBS {job.number}: the statement is then "
        "executed again. Resume the task.",
    )
