"""The leader's scheduler: the pure decisions, committed to etcd in transactions that only the leader can make."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dm_master.election.campaign import LeaderKey
from dm_master.scheduling import relay_stage, source_binding, task_stage
from dm_master.scheduling.topology import VIEWS, Plan, Topology, WorkerStage
from pkg.config.codec import decode_source, decode_subtask, encode_source, encode_subtask
from pkg.config.model import SourceConfig, SubTaskConfig
from pkg.errors import Code, DMError, new, wrap
from pkg.etcd import EtcdClient, Get, PrefixMirror, Put, WatchEvent
from pkg.ha import keys
from pkg.ha.keys import KeyFamily
from pkg.ha.records import WorkerInfo
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread

log = get_logger("scheduler")

#: Seconds between attempts to update the bindings after a failure.
_RETRY_PAUSE = 1.0
_SYNC_POLL = 0.2
#: All other keys are changed only by this scheduler.
_WRITTEN_BY_WORKERS = (keys.WORKER_ALIVE, keys.LOAD_TASK)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker as ``list-member`` shows it; ``source`` is what it serves or relays."""

    name: str
    addr: str
    stage: WorkerStage
    source: str


class Scheduler:
    """Knows the cluster's state while this master leads, and changes it.

    Every change is one transaction that also compares the leader key: a former leader changes nothing. Commands raise
    ``DMError`` (46xxx from the rules; 46001 when this master does not lead; 42501 from etcd) and have then changed
    nothing. The exception is a 42501 with an unknown outcome: the scheduler then reads the state again before the next
    decision. Reading never waits for etcd. Thread-safe.

    ``on_failure`` is called, from any thread, when the scheduler cannot continue: the caller should end the term
    (``Election.resign``). ``on_change`` is called after each change, and must not block. ``on_event_error`` is called
    with ``watch`` when the watch of the workers' keys fails, and with ``handle`` when an update of the bindings fails.
    """

    def __init__(
        self,
        client: EtcdClient,
        *,
        on_failure: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
        on_event_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._on_event_error = on_event_error
        self._on_failure = on_failure
        self._on_change = on_change
        # Held while a decision is made and committed; readers use the current reference without it.
        self._deciding = threading.RLock()
        self._topology = Topology()
        self._leader: LeaderKey | None = None
        self._in_doubt = False
        self._mirrors: tuple[PrefixMirror, ...] = ()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: ServiceThread | None = None
        self._latches: set[str] = set()

    # --- leadership ---

    def start(self, leader: LeaderKey) -> None:
        """Reads the state, binds unbound sources, follows the workers. For ``Election.on_elected``.

        Raises 46002 if it has started, 42501 or 42502 if the state cannot be read.
        """
        with self._deciding:
            if self._leader is not None:
                raise new(Code.SchedulerStarted, "the scheduler has started")
            self._leader = leader
            try:
                self._load()
                self._commit(source_binding.rebalance(self._topology))
            except DMError:
                self._leader = None
                raise
            self._stopping.clear()
            self._wake.clear()
            mirrors = self._mirrors = tuple(self._mirror(family) for family in _WRITTEN_BY_WORKERS)
            self._thread = ServiceThread(
                "scheduler", lambda: self._follow(mirrors), self._stopping, on_failure=self._follower_failed
            ).start()

    def stop(self) -> None:
        """Ends the scheduler, for ``Election.on_lost``: commands raise 46001 from now on. May be called when not
        started."""
        # Before the lock: decisions that wait for it are refused, and one that waits for etcd fails at the leader key.
        self._leader = None
        self._stopping.set()
        self._wake.set()
        with self._deciding:
            mirrors, thread = self._mirrors, self._thread
            self._mirrors, self._thread = (), None
            self._topology = Topology()
        for mirror in mirrors:
            # In parallel: each may wait for an etcd that does not answer.
            mirror.stop(wait=False)
        for mirror in mirrors:
            mirror.stop()
        if thread is not None:
            thread.join()

    @property
    def started(self) -> bool:
        return self._leader is not None

    # --- sources ---

    def add_source(self, config: SourceConfig, worker: str = "") -> str:
        """Stores a checked source and binds it, to ``worker`` if given; returns a message for the operator or "".

        Raises 46007, 46004, 46033 or 46027.
        """
        text = encode_source(config)
        relay = config.enable_relay
        return self._decide(
            lambda state: source_binding.add_source(state, config.source_id, text, worker, relay=relay)
        ).message

    def remove_source(self, source_id: str) -> str:
        """Removes a source; returns a message or "". Raises 46008, 46010 or 46023."""
        return self._decide(lambda state: source_binding.remove_source(state, source_id)).message

    def transfer_source(self, source_id: str, worker: str) -> str:
        """Moves a source to another worker; returns a message or "". Raises 46008, 46004, 46006 or 46027.

        The caller checks whether its tasks may move now (46019), because it can ask the worker.
        """
        return self._decide(lambda state: source_binding.transfer_source(state, source_id, worker)).message

    def ensure_updatable(self, source_id: str) -> None:
        """Raises 46008 or 46025 for a source that cannot be updated now."""
        source_binding.ensure_updatable(self._state(), source_id)

    def update_source(self, config: SourceConfig, subtasks: Sequence[SubTaskConfig]) -> None:
        """Replaces a source and its subtasks, see :func:`source_binding.update_source`. Raises its errors."""
        text, texts = encode_source(config), {one.name: encode_subtask(one) for one in subtasks}
        self._decide(lambda state: source_binding.update_source(state, config.source_id, text, texts))

    def set_enabled(self, config: SourceConfig, enable: bool) -> None:
        """Whether tasks may run on a source. Raises the errors of :func:`source_binding.set_enabled`."""
        text = encode_source(replace(config, enable=enable))
        self._decide(lambda state: source_binding.set_enabled(state, config.source_id, text, enable=enable))

    def sources(self) -> dict[str, SourceConfig]:
        """All sources by id. Raises 46001, 20035 or 20010."""
        return {source: decode_source(text) for source, text in sorted(self._state().sources.items())}

    def bound_worker(self, source_id: str) -> WorkerInfo | None:
        """The worker that serves a source; None if it is unknown or unbound."""
        state = self._state()
        worker = state.worker_of(source_id)
        return state.workers.get(worker) if worker else None

    # --- relay ---

    def start_relay(self, source_id: str, workers: Sequence[str]) -> None:
        """Starts a source's relay, see :func:`relay_stage.start_relay`.

        Raises 46008, 46004, 46020, 46021, 46028 or 46030.
        """
        self._decide(lambda state: relay_stage.start_relay(state, source_id, workers))

    def stop_relay(self, source_id: str, workers: Sequence[str]) -> None:
        """Stops it; see :func:`relay_stage.stop_relay`. Raises 46008, 46004, 46022, 46029 or 46031."""
        self._decide(lambda state: relay_stage.stop_relay(state, source_id, workers))

    def set_relay_stage(self, sources: Sequence[str], stage: str) -> None:
        """Sets the desired stage, ``Running`` or ``Paused``. Raises 46011 or 46012."""
        self._decide(lambda state: relay_stage.set_stage(state, sources, stage))

    def named_relay_workers(self) -> dict[str, list[str]]:
        """Source → the workers that ``start-relay`` named for its relay log."""
        state = self._state()
        return {source: relay_stage.named_workers(state, source) for source in set(state.relay_workers.values())}

    def relay_workers(self, source_id: str) -> list[WorkerState]:
        """The workers that must pull the source's relay log, by name; none when it has no relay."""
        state = self._state()
        return [_worker_state(state, name) for name in relay_stage.pulling_workers(state, source_id)]

    # --- workers ---

    def register_worker(self, name: str, addr: str) -> None:
        """Registers a worker, also again. Raises 46003."""
        self._decide(lambda state: source_binding.register_worker(state, name, addr))

    def offline_worker(self, name: str) -> None:
        """Removes an offline worker. Raises 46004 or 46005."""
        self._decide(lambda state: source_binding.remove_worker(state, name))

    def workers(self) -> list[WorkerState]:
        """All registered workers by name."""
        state = self._state()
        return [_worker_state(state, name) for name in sorted(state.workers)]

    # --- tasks ---

    def start_task(
        self,
        name: str,
        text: str,
        subtasks: Sequence[SubTaskConfig],
        *,
        drop_operators: bool = False,
        stage: str = "Running",
    ) -> list[str]:
        """Stores a task's new subtasks, with the desired ``stage``; returns their sources. ``text`` is the task's file.

        ``drop_operators``: the binlog operators that an earlier task of this name left are removed too.

        Subtasks that exist are not changed, unless they are Stopped and are to run. Raises 46008, 46009 or 46014 (all
        exist).
        """
        texts = {subtask.source_id: encode_subtask(subtask) for subtask in subtasks}
        modes = {one.source_id: one.validator.mode for one in subtasks if one.validator.mode != "none"}
        plan = self._decide(
            lambda state: task_stage.start_task(
                state, name, text, texts, modes, drop_operators=drop_operators, stage=stage
            )
        )
        created = [keys.SUBTASK.names(op.key)[0] for op in plan.ops if op.key.startswith(keys.SUBTASK.prefix())]
        return sorted(created)

    def set_stage(self, task: str, sources: Sequence[str], stage: str, *, safe_mode: bool = False) -> None:
        """Sets the desired stage (Running, Paused or Stopped) in ``sources`` (none = all of the task). ``safe_mode``:
        the batch at which it stopped is applied again in safe mode. Raises 46015, 46017 or 46018."""
        self._decide(lambda state: task_stage.set_stage(state, task, sources, stage, safe_mode=safe_mode))

    def update_task(self, name: str, text: str, subtasks: Sequence[SubTaskConfig]) -> None:
        """Replaces a task's file and subtasks, see :func:`task_stage.update_task`. Raises its errors."""
        texts = {subtask.source_id: encode_subtask(subtask) for subtask in subtasks}
        self._decide(lambda state: task_stage.update_task(state, name, text, texts))

    def stop_task(self, task: str, sources: Sequence[str]) -> None:
        """Removes the task's subtasks of ``sources`` (none = all). Raises 46017 or 46018."""
        self._decide(lambda state: task_stage.stop_task(state, task, sources))

    def start_validation(self, task: str, sources: Sequence[str], mode: str, since: Mapping[str, str]) -> None:
        """Starts validators, see :func:`task_stage.start_validation`. Raises its errors."""
        self._decide(lambda state: task_stage.start_validation(state, task, sources, mode, since))

    def stop_validation(self, task: str, sources: Sequence[str]) -> None:
        """Stops validators, see :func:`task_stage.stop_validation`. Raises its errors."""
        self._decide(lambda state: task_stage.stop_validation(state, task, sources))

    def validators(self, task: str) -> dict[str, str]:
        """The desired stage of each source's validator, of the sources that have one."""
        found = self._state().validators
        return {source: record.expect for (source, of), record in sorted(found.items()) if of == task}

    def tasks(self) -> dict[str, dict[str, str]]:
        """Task → source → desired stage."""
        tasks: dict[str, dict[str, str]] = {}
        for (source, task), stage in sorted(self._state().stages.items()):
            tasks.setdefault(task, {})[source] = stage
        return dict(sorted(tasks.items()))

    def task_sources(self) -> dict[str, frozenset[str]]:
        """Task → the sources that have it. Unlike the other readers it waits for a change that is being committed, and
        for etcd if the outcome of one is unknown: the result is no older than what any worker has read. Raises 46001 or
        42501.
        """
        with self._deciding:
            self._term()
            if self._in_doubt:
                self._load()
            subtasks = self._topology.subtasks
        tasks: dict[str, frozenset[str]] = {}
        for source, task in subtasks:
            tasks[task] = tasks.get(task, frozenset()) | {source}
        return tasks

    def task_text(self, task: str) -> str | None:
        """The task's file as the operator gave it; None for an unknown task."""
        return self._state().task_texts.get(task)

    def subtasks(self, task: str) -> dict[str, SubTaskConfig]:
        """The task's subtasks by source; empty for an unknown task. Raises 20035 or 20010."""
        found = self._state().subtasks
        return {source: decode_subtask(text) for (source, of), text in sorted(found.items()) if of == task}

    @contextlib.contextmanager
    def task_latch(self, task: str, action: str) -> Iterator[None]:
        """Reserves a task for one command, such as the removal of its metadata. Raises 46024 if another command
        has reserved it."""
        with self._deciding:
            if task in self._latches:
                raise new(
                    Code.SchedulerLatchInUse,
                    f"when {action}, task {task} is in use by other client",
                    workaround="Try again when the other command has ended.",
                )
            self._latches.add(task)
        try:
            yield
        finally:
            with self._deciding:
                self._latches.discard(task)

    # --- deciding and committing ---

    def _state(self) -> Topology:
        self._term()
        return self._topology

    def _term(self) -> LeaderKey:
        leader = self._leader
        if leader is None:
            raise new(
                Code.SchedulerNotStarted,
                "the scheduler has not started: this master does not lead",
                workaround="Try again; the leader is elected within seconds.",
                retryable=True,
            )
        return leader

    def _decide(self, rule: Callable[[Topology], Plan]) -> Plan:
        with self._deciding:
            self._term()
            if self._in_doubt:
                self._load()
            plan = rule(self._topology)
            self._commit(plan)
            return plan

    def _commit(self, plan: Plan) -> None:
        if not plan.ops:
            return
        term = self._term()
        try:
            done = self._client.txn([term.compare], (*plan.ops, *plan.side_ops))
        except DMError:
            self._in_doubt = True
            self._wake.set()
            raise
        self._check_fence(done.succeeded)
        self._topology = self._topology.after(plan.ops)
        self._log_bounds(plan)
        self._on_change()

    def _load(self) -> None:
        """Reads the whole state at one revision."""
        reads = [Get(family.prefix(), prefix=True) for family in VIEWS]
        answer = self._client.txn([self._term().compare], reads)
        self._check_fence(answer.succeeded)
        found = [Put(kv.key, kv.value) for response in answer.responses for kv in response.kvs]
        state = Topology().after(found)
        if self._mirrors and _synced(self._mirrors):
            # Only the mirrors set the workers' keys: two readers at different revisions would overwrite each other.
            state = _as_workers_say(state, self._mirrors)
        self._topology = state
        self._in_doubt = False
        self._on_change()

    def _check_fence(self, succeeded: bool) -> None:
        if not succeeded:
            log.warning("a transaction was refused: this master no longer leads")
            self._give_up()
            self._term()

    def _give_up(self) -> None:
        self._leader = None
        self._on_failure()

    # --- following the workers ---

    def _mirror(self, family: KeyFamily) -> PrefixMirror:
        mirror = PrefixMirror(self._client, family.prefix(), self._workers_changed, on_error=self._mirror_failed)
        return mirror.start()

    def _workers_changed(self, _events: Sequence[WatchEvent]) -> None:
        self._wake.set()

    def _mirror_failed(self, exc: BaseException) -> None:
        self._on_event_error("watch")
        log.error("cannot watch the workers; giving up leadership", error=wrap(exc))
        self._give_up()

    def _follower_failed(self, _: BaseException) -> None:
        # A leader that does not follow the workers would never move the sources of a dead one.
        self._on_event_error("watch")
        log.error("the watch over the workers ended; giving up leadership")
        self._give_up()

    def _follow(self, mirrors: Sequence[PrefixMirror]) -> None:
        """Updates the bindings whenever the workers' keys change; repeats an update until it succeeds."""
        while not self._stopping.is_set() and not _synced(mirrors, _SYNC_POLL):
            # Until the first lists are read, every worker would seem to be offline.
            pass
        self._wake.set()
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                with self._deciding:
                    if self._leader is not None:
                        self._follow_once(mirrors)
            except DMError as exc:
                if self._leader is None:
                    continue
                self._on_event_error("handle")
                log.warning("cannot update the bindings; trying again", error=exc)
                self._stopping.wait(_RETRY_PAUSE)
                self._wake.set()

    def _follow_once(self, mirrors: Sequence[PrefixMirror]) -> None:
        if self._in_doubt:
            self._load()
        seen = _as_workers_say(self._topology, mirrors)
        for name in sorted(set(seen.alive) ^ set(self._topology.alive)):
            log.info("worker is online" if name in seen.alive else "worker is offline", worker=name)
        self._topology = seen
        self._commit(source_binding.rebalance(self._topology))

    def _log_bounds(self, plan: Plan) -> None:
        for op in plan.ops:
            if op.key.startswith(keys.BOUND.prefix()):
                (worker,) = keys.BOUND.names(op.key)
                source = self._topology.bounds.get(worker, "")
                log.info("bound source to worker" if source else "unbound worker", worker=worker, source=source)


def _worker_state(state: Topology, name: str) -> WorkerState:
    source = state.bounds.get(name) or state.relay_workers.get(name, "")
    return WorkerState(name, state.workers[name].addr, state.worker_stage(name), source)


def _synced(mirrors: Sequence[PrefixMirror], timeout: float = 0) -> bool:
    return all(mirror.wait_synced(timeout) for mirror in mirrors)


def _as_workers_say(state: Topology, mirrors: Sequence[PrefixMirror]) -> Topology:
    """``state`` with the current contents of the workers' keys."""
    seen = Topology().after(Put(key, kv.value) for mirror in mirrors for key, kv in mirror.snapshot().items())
    return replace(state, alive=seen.alive, load_tasks=seen.load_tasks)
