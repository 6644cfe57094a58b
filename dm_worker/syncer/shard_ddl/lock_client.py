"""The thread that talks to level 2, so that replication never waits for etcd."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from dm_worker.syncer.shard_ddl.group import Table
from dm_worker.syncer.shard_ddl.lock_protocol import Arrived, Decided, News, Revoked, Say, Wish, next_move
from dm_worker.syncer.shard_ddl.source_groups import Acknowledge
from pkg import errors
from pkg.errors import DMError
from pkg.etcd import WatchEvent
from pkg.ha.shard_ddl import ShardInfo, ShardOperation, ShardTables
from pkg.ha.shard_ddl_steps import LockId, StoredRecord
from pkg.process.log import get_logger

log = get_logger("syncer.shard")

#: Seconds between tries while etcd does not answer.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_STOP_PATIENCE = 10.0


class Mirror(Protocol):
    """Follows keys until it is stopped."""

    def stop(self) -> None: ...


class Level2(Protocol):
    """A source's part in the locks of one task; see :class:`dm_worker.syncer.shard_ddl.lock_reports.ShardReports`."""

    def publish_tables(self, tables: ShardTables) -> None: ...
    def report(self, info: ShardInfo) -> bool: ...
    def reported(self, lock: LockId) -> ShardInfo | None: ...
    def withdraw(self, lock: LockId) -> bool: ...
    def operation(self, lock: LockId) -> StoredRecord[ShardOperation] | None: ...
    def confirm(self, lock: LockId, operation: StoredRecord[ShardOperation]) -> bool: ...
    def follow(
        self, on_change: Callable[[Sequence[WatchEvent]], None], on_error: Callable[[BaseException], None]
    ) -> Sequence[Mirror]: ...


class ShardLink:
    """Fulfils wishes, one per lock, from :meth:`start` to :meth:`stop`; what comes of them is :meth:`heard`."""

    def __init__(self, level2: Level2, task: str, source: str) -> None:
        self._level2 = level2
        self._task = task
        self._source = source
        self._wishes: dict[Table, Wish] = {}
        self._decided: dict[Table, int] = {}
        self._tables: ShardTables | None = None
        self._news: deque[News] = deque()
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._stir = False
        self._end = False
        self._mirrors: Sequence[Mirror] = ()
        self._thread = threading.Thread(target=self._main, name=f"shard-ddl-{task}", daemon=True)

    def start(self) -> None:
        self._mirrors = self._level2.follow(lambda _: self._wake(), self._fail)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._end = True
            self._changed.notify_all()
        for mirror in self._mirrors:
            mirror.stop()
        if self._thread.ident is not None:
            self._thread.join(_STOP_PATIENCE)

    def wish(self, wish: Wish) -> None:
        """From now on this is what the source wants of the lock of ``wish.target``."""
        with self._changed:
            self._wishes[wish.target] = wish
            self._decided.pop(wish.target, None)
            # What came of the former wish may not hold any more.
            self._news = deque(one for one in self._news if one.target != wish.target)
            self._wake()

    def publish(self, tables: ShardTables) -> None:
        """Tells which upstream tables go where; an older telling that is still to be made is left out."""
        with self._changed:
            self._tables = tables
            self._wake()

    def heard(self) -> list[News]:
        """What is new. Raises DMError when level 2 can't be followed any more."""
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

    # -- the thread ---------------------------------------------------------------------------------------------

    def _main(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._end or self._stir, timeout=pause or None)
                if self._end:
                    return
                self._stir = False
            try:
                self._turn()
                pause = 0.0
            except DMError as exc:
                if not exc.retryable:
                    self._fail(exc)
                    return
                pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
                log.warning("can't talk about shard DDL, trying again", task=self._task, error=str(exc))
            except Exception as exc:  # noqa: BLE001 - the main loop must hear of it, whatever it is
                self._fail(exc)
                return

    def _turn(self) -> None:
        with self._changed:
            tables, wishes = self._tables, list(self._wishes.values())
        if tables is not None:
            # Before anything is reported: who reports is waited for.
            self._level2.publish_tables(tables)
            with self._changed:
                if self._tables is tables:
                    self._tables = None
        for wish in wishes:
            self._pursue(wish)

    def _pursue(self, wish: Wish) -> None:
        lock = LockId(self._task, *wish.target)
        while True:
            operation = self._level2.operation(lock)
            self._compare(wish, operation)
            move = next_move(wish, operation, self._level2.reported(lock))
            if isinstance(move, Decided | Arrived):
                self._tell(wish, move)
                return
            if move is Say.WAIT or (move is Say.REPORT and self._report(lock, wish)):
                return
            if move is Say.CONFIRM:
                assert operation is not None
                self._level2.confirm(lock, operation)
            elif move is Say.WITHDRAW:
                self._level2.withdraw(lock)

    def _compare(self, wish: Wish, operation: StoredRecord[ShardOperation] | None) -> None:
        """Tells when the decision that was told is there no more, or is another one now."""
        with self._changed:
            told = self._decided.get(wish.target)
            if self._wishes.get(wish.target) is not wish or told is None:
                return
            if operation is None or operation.create_revision != told:
                del self._decided[wish.target]
                self._news.append(Revoked(wish.target))

    def _report(self, lock: LockId, wish: Wish) -> bool:
        since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        log.info(
            "waiting with a DDL of merged tables", task=self._task, lock=str(lock), ddls="; ".join(wish.statements)
        )
        return self._level2.report(ShardInfo(self._task, self._source, lock.schema, lock.table, wish.statements, since))

    def _tell(self, wish: Wish, move: Decided | Arrived) -> None:
        with self._changed:
            if self._wishes.get(wish.target) is not wish:
                return
            if isinstance(wish, Acknowledge):
                del self._wishes[wish.target]
            if isinstance(move, Decided):
                if self._decided.get(move.target) == move.revision:
                    return
                self._decided[move.target] = move.revision
            self._news.append(move)
