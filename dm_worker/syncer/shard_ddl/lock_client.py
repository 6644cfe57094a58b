"""The thread that communicates with the lock service, so that replication never waits for etcd."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from dm_worker.syncer.shard_ddl.lock_protocol import (
    Arrived,
    Decided,
    ExecutionError,
    LockMove,
    LockNews,
    LockRequest,
    Revoked,
    is_to_be_told,
    next_move,
)
from dm_worker.syncer.shard_ddl.source_groups import AcknowledgeDDL
from pkg import errors
from pkg.errors import DMError
from pkg.etcd import WatchEvent
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, StoredRecord
from pkg.mysql.names import TableId
from pkg.process.log import get_logger

log = get_logger("syncer.shard")

#: Seconds between retries while etcd does not answer.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_STOP_TIMEOUT = 10.0


class RunningMirror(Protocol):
    """Follows keys until it is stopped."""

    def stop(self) -> None: ...


class LockService(Protocol):
    """A source's client of the locks of one task; :class:`dm_worker.syncer.shard_ddl.lock_reports.EtcdLockService`."""

    def publish_tables(self, tables: ShardTables) -> None: ...
    def report(self, info: ShardInfo) -> bool: ...
    def reported(self, lock: LockId) -> ShardInfo | None: ...
    def withdraw(self, lock: LockId) -> bool: ...
    def operation(self, lock: LockId) -> StoredRecord[ShardOperation] | None: ...
    def confirm(self, lock: LockId, operation: StoredRecord[ShardOperation]) -> bool: ...
    def tell_error(self, lock: LockId, operation: StoredRecord[ShardOperation], error: str) -> bool: ...
    def start_mirrors(
        self, on_change: Callable[[Sequence[WatchEvent]], None], on_error: Callable[[BaseException], None]
    ) -> Sequence[RunningMirror]: ...


class LockClient:
    """Executes requests, one per lock, from :meth:`start` to :meth:`stop`; :meth:`take_news` returns the results."""

    def __init__(self, lock_service: LockService, task: str, source: str) -> None:
        self._lock_service = lock_service
        self._task = task
        self._source = source
        self._requests: dict[TableId, LockRequest] = {}
        self._decided: dict[TableId, int] = {}
        self._tables: ShardTables | None = None
        #: Errors that the lock service may not know yet.
        self._errors: dict[TableId, ExecutionError] = {}
        self._news: deque[LockNews] = deque()
        self._has_news: Callable[[], None] = lambda: None
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._stir = False
        self._end = False
        self._mirrors: Sequence[RunningMirror] = ()
        self._thread = threading.Thread(target=self._main, name=f"shard-ddl-{task}", daemon=True)

    def start(self, has_news: Callable[[], None] = lambda: None) -> None:
        """``has_news`` is called, from any thread, when :meth:`take_news` has something new."""
        self._has_news = has_news
        self._mirrors = self._lock_service.start_mirrors(lambda _: self._wake(), self._fail)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._end = True
            self._changed.notify_all()
        for mirror in self._mirrors:
            mirror.stop()
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT)

    def request(self, request: LockRequest) -> None:
        """Sets what the source wants of the lock of ``request.target`` from now on."""
        with self._changed:
            self._requests[request.target] = request
            self._decided.pop(request.target, None)
            # Results of the former request may no longer hold.
            self._news = deque(one for one in self._news if one.target != request.target)
            self._wake()

    def publish(self, tables: ShardTables) -> None:
        """Reports where upstream tables are routed; replaces an older report that is still pending."""
        with self._changed:
            self._tables = tables
            self._wake()

    def tell_error(self, error: ExecutionError) -> None:
        """Reports the error to the other sources; also when :meth:`stop` follows at once."""
        with self._changed:
            self._errors[error.target] = error
            self._wake()

    def take_news(self) -> list[LockNews]:
        """The news since the last call. Raises DMError when the lock service can't be followed any more."""
        with self._changed:
            if self._failure is not None:
                raise errors.wrap(self._failure)
            news, self._news = list(self._news), deque()
            return news

    def _wake(self) -> None:
        with self._changed:
            self._stir = True
            self._changed.notify_all()

    def _fail(self, exc: BaseException) -> None:
        with self._changed:
            self._failure = exc
        self._has_news()

    # -- the thread ---------------------------------------------------------------------------------------------

    def _main(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._end or self._stir, timeout=pause or None)
                if self._end:
                    break
                self._stir = False
            try:
                self._turn()
                pause = 0.0
            except DMError as exc:
                if not exc.retryable:
                    self._fail(exc)
                    return
                pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
                log.warning("cannot exchange shard DDL with etcd; trying again", task=self._task, error=str(exc))
            except Exception as exc:  # noqa: BLE001 - the main loop must hear of it, whatever it is
                self._fail(exc)
                return
        self._report_last_errors()

    def _report_last_errors(self) -> None:
        """The run often ends because of these errors. The source reports them itself, too: one attempt is enough."""
        try:
            self._report_errors()
        except DMError as exc:
            log.warning("cannot report to etcd why a shard DDL failed", task=self._task, error=str(exc))

    def _turn(self) -> None:
        with self._changed:
            tables, requests = self._tables, list(self._requests.values())
        if tables is not None:
            # Before any other report: a source with a report is waited for.
            self._lock_service.publish_tables(tables)
            with self._changed:
                if self._tables is tables:
                    self._tables = None
        for request in requests:
            self._advance(request)
        self._report_errors()

    def _report_errors(self) -> None:
        with self._changed:
            errors_now = list(self._errors.values())
        for error in errors_now:
            lock = LockId(self._task, *error.target)
            operation = self._lock_service.operation(lock)
            while operation is not None and is_to_be_told(error, operation):
                self._lock_service.tell_error(lock, operation, error.text)
                operation = self._lock_service.operation(lock)
            with self._changed:
                if self._errors.get(error.target) is error:
                    del self._errors[error.target]

    def _advance(self, request: LockRequest) -> None:
        lock = LockId(self._task, *request.target)
        while True:
            operation = self._lock_service.operation(lock)
            self._compare(request, operation)
            move = next_move(request, operation, self._lock_service.reported(lock))
            if isinstance(move, Decided | Arrived):
                self._pass_on(request, move)
                return
            if move is LockMove.WAIT or (move is LockMove.REPORT and self._report(lock, request)):
                return
            if move is LockMove.CONFIRM:
                assert operation is not None
                self._lock_service.confirm(lock, operation)
            elif move is LockMove.WITHDRAW:
                self._lock_service.withdraw(lock)

    def _compare(self, request: LockRequest, operation: StoredRecord[ShardOperation] | None) -> None:
        """Reports when the known decision is gone or replaced."""
        with self._changed:
            told = self._decided.get(request.target)
            if self._requests.get(request.target) is not request or told is None:
                return
            if operation is None or operation.create_revision != told:
                del self._decided[request.target]
                self._add_news(Revoked(request.target))

    def _report(self, lock: LockId, request: LockRequest) -> bool:
        since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        log.info(
            "waiting with a DDL of merged tables", task=self._task, lock=str(lock), ddls="; ".join(request.statements)
        )
        return self._lock_service.report(
            ShardInfo(self._task, self._source, lock.schema, lock.table, request.statements, since)
        )

    def _pass_on(self, request: LockRequest, move: Decided | Arrived) -> None:
        with self._changed:
            if self._requests.get(request.target) is not request:
                return
            if isinstance(request, AcknowledgeDDL):
                del self._requests[request.target]
            if isinstance(move, Decided):
                if self._decided.get(move.target) == move.revision:
                    return
                self._decided[move.target] = move.revision
            self._add_news(move)

    def _add_news(self, news: LockNews) -> None:
        self._news.append(news)
        self._has_news()
