"""Runs the DDL locks while this master leads: follows their records, commits their decisions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from dm_master.election.campaign import LeaderKey
from dm_master.shardddl import lock_errors
from dm_master.shardddl.locks import LockDecision, Locks, UnlockOrder, UnlockProgress
from pkg.errors import DMError, wrap
from pkg.etcd import KV, EtcdClient, PrefixMirror, WatchEvent
from pkg.ha.keys import SHARD_DDL_PREFIX
from pkg.ha.shard_ddl_steps import LockId, LockStep
from pkg.process.log import get_logger

log = get_logger("shard-ddl")

R = TypeVar("R")
#: The locks of the shard mode.
L = TypeVar("L", bound=Locks)

#: Task → the sources that run it, no older than etcd's state at the call. Raises ``DMError``.
TaskSources = Callable[[], Mapping[str, frozenset[str]]]
#: Called for each new problem, with the task and one of the kinds below.
OnTrouble = Callable[[str, str], None]

#: Kinds of problems, named as in DM's metric.
DIFFERENT_DDLS = "InfoPut - SyncLockError"
CANNOT_COMMIT = "InfoPut - HandleLockError"

#: Seconds between attempts after a failure: the first time, and at most.
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_SYNC_POLL = 0.2
#: Attempts of an order on a lock that changes meanwhile, and seconds to wait for its change.
_ORDER_ATTEMPTS = 5
_ORDER_PAUSE = 1.0


class LockStore:
    """The locks' records in etcd, for the master that leads: reads, follows and changes them.

    Methods raise 42501 (``retryable``: the outcome of a commit is unknown, so the records must be read again).
    """

    def __init__(self, client: EtcdClient, prefix: str = SHARD_DDL_PREFIX) -> None:
        """``prefix``: of the shard mode's records."""
        self._client = client
        self._prefix = prefix

    def load(self) -> list[KV]:
        """All records."""
        kvs, _ = self._client.get_prefix(self._prefix)
        return kvs

    def start_mirror(
        self, on_change: Callable[[Sequence[WatchEvent]], None], on_error: Callable[[BaseException], None]
    ) -> PrefixMirror:
        """A started mirror of all records: ``on_change`` gets the events for :meth:`Locks.apply`, the current
        records first."""
        return PrefixMirror(self._client, self._prefix, on_change, on_error=on_error).start()

    def commit(self, step: LockStep, leader: LeaderKey) -> int:
        """Carries out ``step`` if ``leader`` still leads; returns the revision of the change, or 0 if the term
        is over or the records have changed since the step was decided: follow them and decide again."""
        done = self._client.txn([leader.compare, *step.compare], step.ops)
        return done.revision if done.succeeded else 0


class LockCoordinator(Generic[L]):
    """The locks of one shard mode while this master leads. The locks of a term are read only from etcd's records.

    ``store`` reads and writes these records; ``locks`` creates the empty locks, which decide the next steps.
    """

    def __init__(
        self,
        store: LockStore,
        locks: Callable[[], L],
        sources: TaskSources,
        on_trouble: OnTrouble = lambda task, kind: None,
    ) -> None:
        self._store = store
        self._new_locks = locks
        self._sources = sources
        self._on_trouble = on_trouble
        self._term: LockTerm[L] | None = None

    def start(self, leader: LeaderKey) -> None:
        """Starts to work in the background. For ``Election.on_elected``."""
        self._term = LockTerm(self._store, self._new_locks, leader, self._sources, self._on_trouble)
        self._term.start()

    def stop(self) -> None:
        """Stops working, for ``Election.on_lost``. May be called when not started."""
        term, self._term = self._term, None
        if term is not None:
            term.stop()

    def wake(self) -> None:
        """Call it when the sources of a task have changed."""
        term = self._term
        if term is not None:
            term.wake()

    def term(self) -> LockTerm[L]:
        """The current term. Raises 38046 if this master does not lead."""
        term = self._term
        if term is None:
            raise lock_errors.not_started()
        return term


class LockTerm(Generic[L]):
    """The locks during one term of leadership. Thread-safe.

    Failures of etcd never end it: it tries again until :meth:`stop`. Every change is a transaction that a former
    leader, or a leader with outdated records, cannot commit.
    """

    def __init__(
        self,
        store: LockStore,
        locks: Callable[[], L],
        leader: LeaderKey,
        sources: TaskSources,
        on_trouble: OnTrouble,
    ) -> None:
        self._store = store
        self._new_locks = locks
        self._leader = leader
        self._sources = sources
        self._on_trouble = on_trouble
        # Guards all fields below, up to the blank line; notified after records are read, and at the end.
        self._changed = threading.Condition()
        self._locks = locks()
        #: Whether all records are read and the sources are known.
        self._ready = False
        #: The number of events read, and the last one's revision.
        self._events = 0
        self._revision = 0
        self._refused: dict[LockId, DMError] = {}
        self._told: dict[LockId, tuple[str, str]] = {}

        self._synced = False
        self._mirror: PrefixMirror | None = None
        self._mirror_failure: BaseException | None = None
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shard-ddl", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        self._wake.set()
        self._thread.join()

    def wake(self) -> None:
        self._wake.set()

    # --- reading ---

    def read(self, look: Callable[[L], R]) -> R:
        """The result of ``look`` on the known locks; it must not keep them. Never waits. Raises 38046."""
        with self._changed:
            self._check_ready()
            return look(self._locks)

    def refusals(self) -> Mapping[LockId, DMError]:
        """The locks whose next step etcd refuses, with its error."""
        with self._changed:
            return dict(self._refused)

    def _check_ready(self) -> None:
        if self._stopping.is_set() or not self._ready:
            raise lock_errors.not_started()

    # --- orders ---

    def order(self, lock_id: str, order: UnlockOrder) -> tuple[LockId, int]:
        """Commits an operator's order; returns the lock, and the order's revision.

        Raises 38019, 38020, 38022, 38041 or 42502 for an order that is not possible now; 38046, 46001 or 42501.
        """
        for _ in range(_ORDER_ATTEMPTS):
            sources = self._sources()
            with self._changed:
                self._check_ready()
                self._locks.set_all_sources(sources)
                found, events = self._locks.id_of(lock_id), self._events
                step = self._locks.unlock(lock_id, order)
            revision = self._store.commit(step, self._leader)
            if revision:
                log.info("an operator unlocks a lock", lock=lock_id, owner=order.owner, force=order.force_remove)
                return found, revision
            self._wait_beyond(events)
        raise lock_errors.outdated(lock_id)

    def _wait_beyond(self, events: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or self._events > events, _ORDER_PAUSE)

    def wait_order(self, lock_id: LockId, revision: int, seconds: float) -> UnlockProgress | None:
        """How far the order of ``revision`` is, once all that waited have executed or skipped, or after ``seconds``.

        None when the lock is gone, or has another order. Raises 38046 when the leadership ends meanwhile.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or self._revision >= revision, seconds)
            while True:
                self._check_ready()
                outcome = self._locks.progress(lock_id, revision)
                left = deadline - time.monotonic()
                if outcome is None or left <= 0 or not (outcome.executing or outcome.skipping):
                    return outcome
                self._changed.wait(left)

    def forget(self, task: str) -> None:
        """Removes all records of a task that no source runs. Raises 42501, or 38046 when the leadership is over."""
        if not self._store.commit(self._new_locks().forget(task), self._leader):
            raise lock_errors.not_started()

    # --- the loop ---

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                if self._follow():
                    self._bring_forward()
            except Exception as exc:  # noqa: BLE001  (while this master leads, no other one processes the locks)
                if not self._stopping.is_set():
                    log.warning("cannot process the locks; trying again", error=wrap(exc), seconds=pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            self._wake.wait()
        if self._mirror is not None:
            self._mirror.stop()

    def _follow(self) -> bool:
        """Starts the mirror of the records if there is none; True once all are read. Raises the error that ended the
        mirror."""
        failure, self._mirror_failure = self._mirror_failure, None
        if failure is not None:
            self._mirror = None
            raise failure
        if self._mirror is None:
            with self._changed:
                self._locks, self._ready = self._new_locks(), False
            self._synced = False
            self._mirror = self._store.start_mirror(self._see, self._mirror_failed)
        while not self._synced and not self._stopping.is_set() and self._mirror_failure is None:
            self._synced = self._mirror.wait_synced(_SYNC_POLL)
        return self._synced

    def _see(self, events: Sequence[WatchEvent]) -> None:
        with self._changed:
            for event in events:
                self._locks.apply(event)
            self._events += len(events)
            self._revision = max(self._revision, *(event.mod_revision for event in events))
            self._changed.notify_all()
        self._wake.set()

    def _mirror_failed(self, exc: BaseException) -> None:
        self._mirror_failure = exc
        self._wake.set()

    def _bring_forward(self) -> None:
        """Commits the next step of every lock. Raises the last failure, after trying all locks."""
        failure: DMError | None = None
        for lock_id, step in self._decide():
            try:
                self._store.commit(step, self._leader)
                refused = None
            except DMError as exc:
                failure = exc
                refused = None if exc.retryable else exc
                self._on_trouble(lock_id.task, CANNOT_COMMIT)
            with self._changed:
                self._refused.pop(lock_id, None)
                if refused is not None:
                    self._refused[lock_id] = refused
        if failure is not None:
            raise failure

    def _decide(self) -> list[tuple[LockId, LockStep]]:
        while not self._stopping.is_set():
            events = self._events
            sources = self._sources()
            with self._changed:
                # A source may report as soon as its task starts: the known sources must not be older than the last
                # report.
                if self._events != events:
                    continue
                self._locks.set_all_sources(sources)
                self._ready = True
                decided = self._locks.decided()
                self._tell(decided)
                return [(lock_id, decision.step) for lock_id, decision in decided if decision.step is not None]
        return []

    def _tell(self, decided: Iterable[tuple[LockId, LockDecision]]) -> None:
        """Logs the locks whose state changed."""
        now = {lock_id: (str(decision.phase), str(decision.problem or "")) for lock_id, decision in decided}
        for lock_id, (phase, problem) in now.items():
            if self._told.get(lock_id) == (phase, problem):
                continue
            if problem:
                log.warning("a lock needs an operator", lock=str(lock_id), phase=phase, problem=problem)
            else:
                log.info("a lock proceeds", lock=str(lock_id), phase=phase)
            if phase == "conflict":
                self._on_trouble(lock_id.task, DIFFERENT_DDLS)
        for lock_id in self._told.keys() - now.keys():
            log.info("a lock was removed", lock=str(lock_id))
        self._told = now
        self._refused = {lock_id: error for lock_id, error in self._refused.items() if lock_id in now}
