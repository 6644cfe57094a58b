"""A load's Spark tasks: load files into the target, each file's progress with its rows.

Runs in Spark's Python workers. Errors are returned as values; a failed task fences off the other tasks.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pymysql
from pymysql.connections import Connection

from dm_worker.loader.bulk_rows import BulkFailed, BulkRows, TargetTables
from dm_worker.loader.dump_literals import UTF8
from dm_worker.loader.row_rewriter import RowRewriter, RowRules
from dm_worker.loader.sql_file import FileStatement, read_statements
from dm_worker.loader.value_checks import ValueChecks, upstream_structure
from dm_worker.meta.load_progress import fence_off, fenced
from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql import generated
from pkg.mysql.connection import classify, connect, error_number, error_text
from pkg.mysql.introspect import fetch_table_info, query
from pkg.mysql.names import qualified, quote
from pkg.mysql.retry import retrying
from pkg.mysql.target_values import fetch_target_values
from pkg.mysql.wire import send
from pkg.settings.connections import DBConfig

#: Retries are limited by time, not by number.
ATTEMPTS = 1000
_DUPLICATE_KEY = 1062
_PACKET_TOO_LARGE = 1153
_TRUNCATED = 1265
#: A session statement that may change the charset of the file's text.
_CHARSET = re.compile(rb"\bnames\b|character_set", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """The parameters of a task. ``table`` is the progress table, ``on_duplicate`` '' for an error.

    A transaction has ``transaction_bytes`` of statements. A file fails after ``retry_seconds`` of failures without any
    progress. ``flavor`` is the upstream's; ``lossy``: the target may change values.
    """

    target: DBConfig
    session: Mapping[str, str]
    table: str
    source_id: str
    epoch: int
    on_duplicate: str
    folder: str
    transaction_bytes: int
    retry_seconds: float
    flavor: str = "mysql"
    lossy: bool = False


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A data file: its source table, its target, the rules for its rows, and the file with its table's ``structure``,
    if the dump has it."""

    name: str
    size: int
    schema: str
    table: str
    target_schema: str
    target_table: str
    rules: RowRules | None = None
    structure: str = ""

    @property
    def target(self) -> str:
        return qualified(self.target_schema, self.target_table)


@dataclass(frozen=True, slots=True)
class FileReport:
    """The result of a file; ``fenced`` when the run had ended meanwhile."""

    name: str
    error: DMError | None = None
    fenced: bool = False


class _Fenced(Exception):
    """The run is no longer the current one."""


def run_load_task(spec: LoadSpec, shares: Iterator[list[FileSpec]]) -> Iterator[FileReport]:
    """The body of a task: loads its files one after the other, up to the first that fails."""
    targets = TargetTables()
    # All of the partition is read first: Spark ends a Python worker whose task leaves a part of it unread.
    for file in [file for share in shares for file in share]:
        report = _load(spec, file, targets)
        yield report
        if report.error is not None or report.fenced:
            return


def _load(spec: LoadSpec, file: FileSpec, targets: TargetTables) -> FileReport:
    loader = FileLoader(spec, file, targets)
    try:
        loader.run()
    except _Fenced:
        return FileReport(file.name, fenced=True)
    except DMError as exc:
        # When the target cannot be reached, the other tasks get the same error themselves.
        with contextlib.suppress(DMError, pymysql.Error):
            conn = connect(spec.target, scope="downstream")
            fence_off(conn, spec.table, spec.source_id, spec.epoch)
            conn.close()
        return FileReport(file.name, error=exc)
    return FileReport(file.name)


class FileLoader:
    """Loads one file from its stored offset to its end, with a new connection after each error."""

    def __init__(self, spec: LoadSpec, file: FileSpec, targets: TargetTables) -> None:
        self._spec = spec
        self._file = file
        self._targets = targets
        self._path = Path(spec.folder) / file.name
        self._head = b""
        self._tail = b""
        self._committed = -1

    def _rewriter(self, conn: Connection[Any]) -> RowRewriter | None:
        @functools.cache
        def charset() -> str:
            found = query(conn, "SELECT @@character_set_client")[0][0]
            # After SET NAMES binary, the server returns all text as bytes.
            return found.decode() if isinstance(found, bytes) else str(found)

        rules = self._file.rules
        return None if rules is None else RowRewriter(rules, self._file.name, charset, lambda: self._takes_bytes)

    @functools.cached_property
    def _takes_bytes(self) -> bool:
        """Whether the target takes text in any charset by its bytes."""
        with self._plain() as conn:
            return fetch_target_values(conn).text_by_bytes

    @contextlib.contextmanager
    def _plain(self) -> Iterator[Connection[Any]]:
        """A separate connection: after the file's SET NAMES, the loading connection may return bytes."""
        with contextlib.closing(connect(self._spec.target, scope="downstream")) as conn:
            yield conn

    def run(self) -> None:
        """Loads the file. Raises DMError for errors that retries do not resolve, _Fenced when the run has ended."""
        while True:
            before = self._committed
            try:
                retrying(self._load_rest, attempts=ATTEMPTS, budget=self._spec.retry_seconds)
                return
            except BulkFailed:
                # Repeat from the last commit, on a new connection: INSERT succeeds or names the row.
                continue
            except DMError as exc:
                if not exc.retryable or self._committed == before:
                    raise

    def _load_rest(self) -> None:
        conn = connect(self._spec.target, scope="downstream", session=self._spec.session, bulk=True)
        try:
            self._load_over(conn)
        except pymysql.Error as exc:
            raise self._explain(exc, self._computed(exc)) from exc
        except OSError as exc:
            raise errors.new(
                Code.LoadUnitDispatchSQLFromFile,
                f"cannot read dump file {self._path}",
                raw=exc,
                workaround="Check that the folder exists and is readable, then resume the task.",
            ) from exc
        finally:
            with contextlib.suppress(pymysql.Error, OSError):
                conn.close()

    def _load_over(self, conn: Connection[Any]) -> None:
        rows = query(conn, f"SELECT `offset`, finished FROM {self._spec.table} WHERE {self._where()}", self._key())
        if not rows:
            raise _Fenced
        offset, finished = int(rows[0][0]), bool(rows[0][1])
        if finished:
            return
        checks = self._value_checks(conn)
        bulk = BulkRows(conn, self._targets, (self._file.target_schema, self._file.target_table))
        with self._path.open("rb") as data:
            if offset:
                self._repeat_preamble(conn, data)
            self._load_from(conn, data, offset, bulk, checks)

    def _value_checks(self, conn: Connection[Any]) -> ValueChecks | None:
        file, spec = self._file, self._spec
        upstream = upstream_structure(Path(spec.folder), file.structure, (file.schema, file.table), spec.flavor)
        target = None
        if upstream is not None:
            target = self._targets.structure(conn, (file.target_schema, file.target_table))
        if upstream is None or target is None:
            return None
        return ValueChecks.of(file.name, upstream, target, file.rules, allowed=spec.lossy)

    def _repeat_preamble(self, conn: Connection[Any], data: BinaryIO) -> None:
        """Session statements at the file's head (character set, time zone) apply to all rows after them."""
        for statement in read_statements(data, 0, self._file.name):
            if statement.kind == "rows":
                return
            if statement.kind == "session":
                self._set_session(conn, bytes(statement.text))

    def _set_session(self, conn: Connection[Any], text: bytes) -> None:
        """Executes a session statement of the file. Raises an error when the target would then misread
        the file's text."""
        conn.query(text)
        if not _CHARSET.search(text):
            return
        ((found,),) = query(conn, "SELECT @@character_set_client")
        charset = found.decode() if isinstance(found, bytes) else str(found)
        if charset in UTF8 or charset == "ascii" or self._takes_bytes:
            return
        if charset != "binary":
            what = f"has its text in {charset}, which the target reads as UTF-8"
        elif columns := self._latin1_columns():
            what = f"has its text as bytes, and the target keeps latin1 ({', '.join(columns)}) in UTF-8"
        else:
            return
        raise errors.new(
            Code.LoadUnitInvalidInsertSQL,
            f"{self._file.name} {what}: other text would be stored",
            workaround="Dump again with --default-character-set=utf8mb4, or let the task dump.",
        )

    def _latin1_columns(self) -> list[str]:
        """The target's columns that get the file's text unchanged."""
        with self._plain() as conn:
            info = fetch_table_info(conn, self._file.target_schema, self._file.target_table)
        rules = self._file.rules
        mapped = {t.target for t in rules.mapping.transforms} if rules is not None and rules.mapping else set()
        changed = {rules.columns[i].lower() for i in mapped} if rules is not None else set()
        columns = info.columns if info is not None else ()
        return [quote(c.name) for c in columns if c.charset == "latin1" and c.name.lower() not in changed]

    def _load_from(
        self, conn: Connection[Any], data: BinaryIO, offset: int, bulk: BulkRows, checks: ValueChecks | None
    ) -> None:
        size, begun = 0, False
        position = offset
        rewriter = self._rewriter(conn)
        for statement in read_statements(data, offset, self._file.name):
            if statement.kind == "session":
                self._set_session(conn, bytes(statement.text))
                bulk.session_changed()
                rewriter = self._rewriter(conn)
            elif statement.kind == "rows":
                if not begun:
                    self._begin(conn, offset)
                    begun = True
                head, tail = self._rewritten(conn, statement)
                size += len(statement.text)
                if checks is not None:
                    checks.ensure_kept(statement)
                if rewriter is not None:
                    statement = rewriter.rewrite(statement)
                if not bulk.write(head, statement, tail):
                    self._insert(conn, head, statement, tail)
            position = statement.end
            if size >= self._spec.transaction_bytes:
                self._commit(conn, position, finished=False)
                offset, size, begun = position, 0, False
        if not begun:
            self._begin(conn, offset)
        self._commit(conn, self._file.size, finished=True)

    def _insert(self, conn: Connection[Any], head: bytes, statement: FileStatement, tail: bytes) -> None:
        try:
            send(conn, head, statement.text[statement.head :], tail)
        except pymysql.Error as exc:
            if error_number(exc) != generated.OUT_OF_RANGE:
                raise
            # The upstream's session may have allowed a negative difference in a generated column's expression.
            ((mode,),) = query(conn, "SELECT @@sql_mode")
            mode = mode.decode() if isinstance(mode, bytes) else mode
            query(conn, "SET SESSION sql_mode = %s", (generated.with_unsigned(mode),))
            send(conn, head, statement.text[statement.head :], tail)
            query(conn, "SET SESSION sql_mode = %s", (mode,))

    def _begin(self, conn: Connection[Any], offset: int) -> None:
        """Opens a transaction that locks the file's progress row, so that no other run writes its rows."""
        conn.begin()
        sql = f"SELECT `offset` FROM {self._spec.table} WHERE {self._where()} FOR UPDATE"
        rows = query(conn, sql, self._key())
        if not rows:
            conn.rollback()
            raise _Fenced
        if int(rows[0][0]) != offset:
            conn.rollback()
            raise errors.new(
                Code.LoadTaskCheckPointNotMatch,
                f"another attempt is loading {self._file.name}",
                retryable=True,
            )

    def _commit(self, conn: Connection[Any], offset: int, *, finished: bool) -> None:
        with conn.cursor() as cursor:
            found = cursor.execute(
                f"UPDATE {self._spec.table} SET `offset` = %s, finished = %s WHERE {self._where()}",
                (offset, int(finished), *self._key()),
            )
        if found != 1:
            conn.rollback()
            raise _Fenced
        conn.commit()
        self._committed = offset

    def _where(self) -> str:
        return "id = %s AND file = %s AND epoch = %s"

    def _key(self) -> tuple[str, str, int]:
        return self._spec.source_id, self._file.name, self._spec.epoch

    def _rewritten(self, conn: Connection[Any], statement: FileStatement) -> tuple[bytes, bytes]:
        """The SQL before and after the rows: the target's name, and the clause for ``on-duplicate-logical``."""
        if statement.table.lower() != self._file.table.lower():
            raise errors.new(
                Code.LoadUnitInvalidInsertSQL,
                f"{self._file.name} has rows of table {statement.table}, but its name is that of {self._file.table}",
                workaround="Rename the file after its table, or dump again.",
            )
        if not self._head:
            self._head, self._tail = self._template(conn)
        return self._head, self._tail

    def _template(self, conn: Connection[Any]) -> tuple[bytes, bytes]:
        if self._spec.on_duplicate == "replace":
            return f"REPLACE INTO {self._file.target}".encode(), b""
        tail = ""
        if self._spec.on_duplicate == "ignore":
            # INSERT IGNORE would also hide every other error.
            with conn.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {self._file.target} LIMIT 0")
                column = quote(cursor.description[0][0])
            tail = f" ON DUPLICATE KEY UPDATE {column} = {self._file.target}.{column}"
        return f"INSERT INTO {self._file.target}".encode(), tail.encode()

    def _computed(self, exc: pymysql.Error) -> list[str]:
        """The target's generated columns, when the error may come from one."""
        if error_number(exc) not in generated.REFUSALS:
            return []
        try:
            with self._plain() as conn:
                info = fetch_table_info(conn, self._file.target_schema, self._file.target_table)
        except (DMError, pymysql.Error, OSError) as other:
            raise self._explain(exc, []) from other
        return [column.name for column in info.columns if column.generated] if info is not None else []

    def _explain(self, exc: pymysql.Error, computed: Sequence[str]) -> DMError:
        number = error_number(exc)
        cause = classify(exc, scope="downstream", table=self._file.target)
        if computed:
            otherwise = _HINTS.get(number, cause.workaround or _FIX_AND_RESUME)
            target = (self._file.target_schema, self._file.target_table)
            return self._failed(exc, generated.advice(target, computed, otherwise))
        if number not in _HINTS:
            return cause if cause.retryable else self._failed(exc, cause.workaround or _FIX_AND_RESUME)
        return self._failed(exc, _HINTS[number])

    def _failed(self, exc: pymysql.Error, workaround: str) -> DMError:
        file = self._file
        return errors.new(
            Code.LoadLightningRuntime,
            f"cannot load {file.name} (rows of {qualified(file.schema, file.table)}) into {file.target}:"
            f" {error_text(exc)}",
            raw=error_text(exc),
            scope="downstream",
            workaround=workaround,
        )


_FIX_AND_RESUME = (
    "Change the target table so that it accepts the row (see the message), then resume the task; it continues "
    "from where it stopped."
)
_DUPLICATE_HINT = (
    "The target already has a row with this key: rows that were there before, or two merged shards that use the "
    "same key. Remove or change one of the rows, or give the shards distinct keys. Or set `on-duplicate-logical` "
    "of loaders to `replace` (the later row stays) or `ignore` (the earlier row stays). Then resume the task. If the "
    "key has a generated column, or an expression, that depends on the session's time_zone, the upstream may have both "
    "rows: drop the key at the target then."
)
_PACKET_HINT = (
    "Raise max_allowed_packet of the target above the statement's size, then resume the task; or dump again with "
    "a smaller statement-size."
)
_TRUNCATED_HINT = (
    "The column does not accept this value in strict sql_mode; an example is the empty error value of an ENUM "
    "(index 0), which a non-strict upstream can store. Correct the rows on the upstream, then copy again (stop "
    "the task, empty the target table, start it with --remove-meta). Or let the target accept such values "
    'unchecked: set `session: {sql_mode: "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"}` of target-database, then '
    "start the task again."
)
_HINTS = {_DUPLICATE_KEY: _DUPLICATE_HINT, _PACKET_TOO_LARGE: _PACKET_HINT, _TRUNCATED: _TRUNCATED_HINT}


def load_fenced_error(spec: LoadSpec, reports: list[FileReport]) -> DMError:
    """The error of a run whose tasks were all fenced by another run."""
    return fenced(spec.source_id, next((report.name for report in reports if report.fenced), ""))
