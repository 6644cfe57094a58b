"""One bound source: keeps its subtasks in their desired stages, reports their status, resumes those that failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dm_worker.diff.companion import DiffCompanion
from dm_worker.diff.run import DiffSurroundings
from dm_worker.engine.engine import SparkEngine
from dm_worker.operator_commands.binlog_operators import BinlogOperators
from dm_worker.operator_commands.replicating_unit import replication_of
from dm_worker.relay.desired_stage import DesiredRelayStage
from dm_worker.relay.layout import RelayDir
from dm_worker.relay.purge import NeededFile
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.source_relay import SourceRelay, relay_folder
from dm_worker.relay.upstream_end import BinlogTail, UpstreamEnd
from dm_worker.source import binlog_needs
from dm_worker.source.cutover_watches import CutoverWatches
from dm_worker.source.desired_validation import DesiredValidation
from dm_worker.source.diff_surroundings import diff_surroundings
from dm_worker.source.load_claim import LoadClaim
from dm_worker.source.purge_watch import BinlogReader, PurgeWatch
from dm_worker.source.reconcile import (
    ChangeStage,
    CreateSubTask,
    ExpectedSubTask,
    ForgetSubTask,
    LocalSubTask,
    RemoveSubTask,
    reconcile,
)
from dm_worker.source.unit_factory import UnitContext, UnitFactory, make_validator
from dm_worker.source.worker_metrics import WorkerMetrics
from dm_worker.subtask.auto_resume import ResumePolicy
from dm_worker.subtask.companion import Companion
from dm_worker.subtask.stage import CHAINS
from dm_worker.subtask.subtask import GRACE, SubTask, process_result
from dm_worker.syncer.figures.sync_figures import SyncFigures
from dm_worker.syncer.shard_ddl.lock_reports import EtcdLockService
from pkg import errors
from pkg.binlog.position import parse_position
from pkg.config.codec import decode_subtask
from pkg.config.model import SourceConfig, SubTaskConfig
from pkg.errors import Code, DMError
from pkg.errors.workarounds import way_on
from pkg.etcd import KV, EtcdClient, PrefixMirror
from pkg.ha import keys
from pkg.ha.records import SubTaskStage, stage_number
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread
from pkg.status.lag import STOPPED, UNKNOWN

if TYPE_CHECKING:
    from dm_worker.validator.validator import Validator

log = get_logger(__name__)

#: Seconds until a killed unit has to end; after that the whole process has to. A unit that waits for Spark to start is
#: harmless meanwhile, and one that writes is fenced by its epoch.
KILL_TIMEOUT = 60.0
#: The same when the worker is shutting down, which must take less than 30 s in total.
SHUTDOWN_KILL_TIMEOUT = 8.0
#: Seconds between two checks whether all first answers of etcd have arrived.
_SYNC_POLL = 0.1
#: Seconds for the watches of cutovers to end: they write to no server.
_WATCH_TIMEOUT = 3.0
#: Seconds that the relay waits for the list of subtasks from etcd.
_ETCD_TIMEOUT = 30.0


@dataclass(slots=True)
class _Slot:
    """A subtask of this process with its configuration, or the error that prevented its creation."""

    wanted: ExpectedSubTask
    subtask: SubTask | None
    validator: Validator | None = None
    error: DMError | None = None
    doomed: bool = False

    def is_copying(self) -> bool:
        """Whether its full copy is not complete, so that the binlog files it will need are unknown."""
        if self.subtask is None:
            return True
        state = self.subtask.state
        return state.stage != pb.Finished and state.unit in (pb.Dump, pb.Load)

    def actual(self) -> LocalSubTask:
        if self.subtask is None:
            # Nothing runs: create it again as soon as its configuration or its stage changes.
            return LocalSubTask(self.wanted.config, self.wanted.revision, pb.Stopped)
        return LocalSubTask(self.wanted.config, self.wanted.revision, self.subtask.state.stage, self.doomed)


class SourceWorker:
    """Owns the subtasks of ``source`` from :meth:`start` to :meth:`close`.

    ``worker`` is this worker's name, ``relay_dir`` its folder of relay logs ('': the source's). ``on_broken`` is
    called from a thread of an etcd mirror when the mirror cannot follow etcd any more; it must not wait for
    :meth:`close`.
    """

    def __init__(
        self,
        source: SourceConfig,
        client: EtcdClient,
        engine: SparkEngine,
        make_unit: UnitFactory,
        metrics: WorkerMetrics,
        *,
        worker: str,
        relay_dir: str,
        on_broken: Callable[[BaseException], None],
    ) -> None:
        self.source = source
        self._client = client
        self._worker = worker
        self._engine = engine
        self._make_unit = make_unit
        self._metrics = metrics
        self._upstream_end = UpstreamEnd(source)
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}
        #: Stopped subtasks whose threads are still busy; the result of that work is ignored.
        self._leaving: dict[str, SubTask] = {}
        self._dirty = threading.Event()
        self._stop = threading.Event()
        self._killed = False
        self._configs, self._stages = (
            PrefixMirror(client, family.prefix(source.source_id), lambda _: self._dirty.set(), on_error=on_broken)
            for family in (keys.SUBTASK, keys.SUBTASK_STAGE)
        )
        self._validation = DesiredValidation(client, source.source_id, self._dirty.set, on_broken)
        self._cutovers = CutoverWatches(client, source.source_id, self._dirty.set, on_broken)
        self.relay = SourceRelay(
            source,
            relay_folder(relay_dir, source.relay_dir, worker),
            start_at=lambda: binlog_needs.earliest_location(self._subtask_configs()),
            needed=self._needed_of_relay,
        )
        self.purge_watch = PurgeWatch(source, self._binlog_readers)
        self.operators = BinlogOperators(client, source.source_id, on_broken)
        self._desired_relay_stage = DesiredRelayStage(client, source.source_id, worker, self._dirty.set, on_broken)
        self._thread = ServiceThread(f"source-{source.source_id}", self._main, self._stop)

    def start(self) -> None:
        self._configs.start()
        self._stages.start()
        self._validation.start()
        self._cutovers.start()
        self._desired_relay_stage.start()
        self.operators.start()
        self.purge_watch.start()
        self._thread.start()

    def kill(self) -> None:
        """Stops all subtasks at once; does not wait. :meth:`close` must follow, or run already."""
        self._killed = True
        self._stop.set()
        self._dirty.set()
        self._each_subtask(SubTask.kill)

    def close(self, *, graceful: bool, kill_timeout: float = KILL_TIMEOUT) -> bool:
        """Stops all subtasks, at their safe points or at once; False when a killed subtask does not end.

        A killed subtask gets ``kill_timeout`` seconds to end.
        """
        if not graceful:
            # Before any wait: the worker may not write any more.
            self.kill()
        self._stop.set()
        self._dirty.set()
        self._configs.stop()
        self._stages.stop()
        self._validation.stop()
        self._desired_relay_stage.stop()
        self.operators.stop()
        self.purge_watch.stop()
        self._thread.join()
        # Its last loop may have started a watch.
        self._cutovers.stop()
        self._cutovers.join(_WATCH_TIMEOUT)
        # The thread's last loop may have created another subtask.
        self._each_subtask(SubTask.kill if self._killed else _stop_gracefully)
        ended = self._join(kill_timeout + (GRACE if graceful else 0.0))
        self.relay.close()
        with self._lock:
            for task in self._slots:
                self._metrics.forget(self.source.source_id, task)
            self._slots.clear()
        return ended

    def subtask(self, task: str) -> SubTask | None:
        with self._lock:
            slot = self._slots.get(task)
        return slot.subtask if slot else None

    def validator(self, task: str) -> Validator | None:
        """The validator of a subtask that exists."""
        with self._lock:
            slot = self._slots.get(task)
        return slot.validator if slot else None

    def validators(self) -> list[tuple[str, Validator]]:
        """All validators, by task."""
        with self._lock:
            slots = sorted(self._slots.items())
        return [(task, slot.validator) for task, slot in slots if slot.validator is not None]

    def figures(self) -> list[tuple[str, SyncFigures]]:
        """The figures of the tasks that replicate, by task."""
        with self._lock:
            slots = sorted(self._slots.items())
        units = [(task, replication_of(slot.subtask)) for task, slot in slots if slot.subtask is not None]
        return [(task, unit.figures) for task, unit in units if unit is not None]

    def status(self, task: str = "") -> list[pb.SubTaskStatus]:
        """The status of ``task``, or of all tasks when empty. A source without tasks has none, as in DM."""
        with self._lock:
            slots = dict(self._slots)
        if task and task not in slots:
            return [pb.SubTaskStatus(name=task, msg=f"no sub task with name {task} has started")]
        chosen = [task] if task else sorted(slots)
        statuses = [_slot_status(name, slots[name]) for name in chosen]
        for status in statuses:
            self._cutovers.fill(status)
        # Read after the checkpoints: if they have reached this end, everything is applied.
        syncs = [status.sync for status in statuses if status.WhichOneof("status") == "sync"]
        if syncs:
            end, current = self._upstream_end.get()
            for sync in syncs:
                _set_position(sync, end, current=current, by_gtid=self.source.enable_gtid)
        return statuses

    # ---- reconciling ------------------------------------------------------------------------------------------------

    def _main(self) -> None:
        while not self._stop.is_set():
            self._dirty.wait(self.source.checker.check_interval if self._is_synced() else _SYNC_POLL)
            if self._stop.is_set():
                return
            self._dirty.clear()
            # Never act on incomplete data: a missing key would look like a stopped task.
            if self._is_synced():
                self._follow()
            self._tick(time.monotonic())

    def _is_synced(self) -> bool:
        mirrors = (self._configs, self._stages, self._validation, self._cutovers, self.operators)
        return all(mirror.wait_synced(0) for mirror in mirrors) and self._desired_relay_stage.synced()

    def _tick(self, now: float) -> None:
        self._each_subtask(lambda subtask: subtask.tick(now))
        self._each_subtask(self.operators.forget_passed)

    def _follow(self) -> None:
        try:
            # Before the subtasks: they look for the relay when they start.
            stage = self._desired_relay_stage.changed()
            if stage is not None:
                self.relay.change_stage(stage)
            self._reconcile()
            self._follow_validation()
            self._cutovers.follow(self._subtask_configs)
        except DMError as exc:
            # Everything stays as it is, and the next loop tries again: a wrong guess could stop a running task.
            log.error("cannot apply the desired state in etcd", source=self.source.source_id, error=str(exc))
            self._metrics.operate_error("Reconcile")

    def _reconcile(self) -> None:
        wanted = self._wanted()
        with self._lock:
            actual = {task: slot.actual() for task, slot in self._slots.items()}
        for action in reconcile(wanted, actual):
            match action:
                case CreateSubTask(task, want):
                    self._create(task, want)
                case ChangeStage(task, want):
                    self._ask(task, want)
                case RemoveSubTask(task):
                    self._remove(task)
                case ForgetSubTask(task):
                    self._forget(task)

    def _follow_validation(self) -> None:
        with self._lock:
            slots = list(self._slots.values())
        for slot in slots:
            if slot.validator is not None:
                config = slot.validator.config
                slot.validator.expect(self._validation.mode(config), self._validation.since(config))

    def _wanted(self) -> dict[str, ExpectedSubTask]:
        """Tasks that have both a config and a desired stage; both are written in one transaction."""
        configs = _by_task(keys.SUBTASK, self._configs.snapshot())
        stages = _by_task(keys.SUBTASK_STAGE, self._stages.snapshot())
        wanted = {}
        for task in configs.keys() & stages.keys():
            record = SubTaskStage.from_json(stages[task].value)
            wanted[task] = ExpectedSubTask(
                configs[task].value, stage_number(record.expect), stages[task].mod_revision, record.safe_mode
            )
        return wanted

    def _create(self, task: str, wanted: ExpectedSubTask) -> None:
        leaving = self._leaving.get(task)
        if leaving is not None and not leaving.ended:
            # Two subtasks of one name would conflict; the end of the old one triggers this again.
            return
        self._leaving.pop(task, None)
        try:
            slot = self._make_slot(wanted)
        except DMError as exc:
            log.error("cannot create the subtask", task=task, source=self.source.source_id, error=str(exc))
            self._metrics.operate_error("Create")
            self._metrics.task_state(self.source.source_id, task, pb.Paused)
            slot = _Slot(wanted, None, error=exc.with_workaround(way_on(exc, task, self.source.source_id)))
        with self._lock:
            self._slots[task] = slot
        if slot.subtask is not None:
            self._follow_validation()
            log.info("subtask created", task=task, source=self.source.source_id)
            slot.subtask.expect(wanted.stage, wanted.safe_request)

    def _make_slot(self, wanted: ExpectedSubTask) -> _Slot:
        config = decode_subtask(wanted.config)
        validator = make_validator(config, self._engine)
        return _Slot(wanted, self._make_subtask(config, validator), validator)

    def _make_subtask(self, config: SubTaskConfig, validator: Validator) -> SubTask:
        claim = LoadClaim(self._client, config.name, config.source_id, self._worker)
        context = UnitContext(
            config,
            self._engine,
            orders=lambda: self.operators.of(config.name),
            lock_service=EtcdLockService(self._client, config.name, config.source_id),
            observer=validator,
        )
        return SubTask(
            config,
            # The relay may start after the subtask is created, but before its units are.
            lambda unit: self._make_unit(unit, replace(context, relay=self.relay.reader())),
            ResumePolicy(self.source.checker),
            before_unit=lambda unit: self._before_unit(claim, config.name, unit),
            after_unit=lambda unit: _after_unit(claim, unit),
            on_change=self._changed,
            on_failure=self._failed,
            companions=[*self._companions(config, validator), validator],
        )

    def _companions(self, config: SubTaskConfig, validator: Validator) -> list[Companion]:
        if pb.Sync not in CHAINS[config.task_mode]:
            return []
        return [DiffCompanion(config, lambda: self._diff_surroundings(config), validator)]

    def _diff_surroundings(self, config: SubTaskConfig) -> DiffSurroundings | None:
        subtask = self.subtask(config.name)
        unit = replication_of(subtask) if subtask is not None else None
        if unit is None:
            return None
        return diff_surroundings(
            unit,
            self._engine,
            lambda: self._other_subtasks(lambda source, task: source != self.source.source_id and task == config.name),
            lambda: self._other_subtasks(lambda _, task: task != config.name),
        )

    def _other_subtasks(self, chosen: Callable[[str, str], bool]) -> list[SubTaskConfig]:
        """The subtasks whose source and task are chosen, from etcd. Raises 42501."""
        found, _ = self._client.get_prefix(keys.SUBTASK.prefix())
        return [decode_subtask(stored.value) for stored in found if chosen(*keys.SUBTASK.names(stored.key))]

    def _before_unit(self, claim: LoadClaim, task: str, unit: pb.UnitType) -> None:
        match unit:
            case pb.Dump:
                claim.check()
                # Orders for an earlier task of this name: a task accepts no orders during its full copy.
                self.operators.forget(task)
            case pb.Load:
                claim.take()
            case pb.Sync:
                # The worker may have crashed between the end of the load and this release.
                claim.release()

    def _subtask_configs(self) -> list[SubTaskConfig]:
        """The configurations of all subtasks of this source in etcd. Raises 20035 or 20010."""
        self._configs.wait_synced(_ETCD_TIMEOUT)
        return [decode_subtask(stored.value) for stored in self._configs.snapshot().values()]

    def _needed_of_relay(self, folder: RelayDir, readable_end: ReadableEnd) -> list[NeededFile]:
        """The files that subtasks still need. Raises 30037 while that is not known, as during a full copy."""
        with self._lock:
            slots = dict(self._slots)
        copying = sorted(task for task, slot in slots.items() if slot.is_copying())
        if copying:
            raise errors.new(
                Code.RelayPurgeIsForbidden,
                f"the full copy of task {', '.join(copying)} is not complete, or did not begin",
                workaround="Wait until query-status shows the task in unit Sync.",
            )
        return binlog_needs.needed_files(folder, readable_end, self._subtask_configs())

    def _binlog_readers(self) -> list[BinlogReader]:
        with self._lock:
            subtasks = [slot.subtask for slot in self._slots.values() if slot.subtask is not None]
        return binlog_needs.binlog_readers(self.relay, subtasks)

    def _ask(self, task: str, wanted: ExpectedSubTask) -> None:
        with self._lock:
            slot = self._slots[task]
            slot.wanted = replace(wanted, config=slot.wanted.config)
        if slot.subtask is not None:
            slot.subtask.expect(wanted.stage, wanted.safe_request)

    def _remove(self, task: str) -> None:
        with self._lock:
            slot = self._slots[task]
            slot.doomed = True
        if slot.subtask is not None:
            slot.subtask.expect(pb.Stopped)

    def _forget(self, task: str) -> None:
        with self._lock:
            slot = self._slots.pop(task, None)
            self._metrics.forget(self.source.source_id, task)
        if slot is not None and slot.subtask is not None and not slot.subtask.ended:
            self._leaving[task] = slot.subtask
        log.info("subtask removed", task=task, source=self.source.source_id)

    def _changed(self, subtask: SubTask) -> None:
        with self._lock:
            slot = self._slots.get(subtask.name)
            # A late call for a forgotten subtask must not bring its series back.
            if slot is not None and slot.subtask is subtask:
                self._metrics.task_state(self.source.source_id, subtask.name, subtask.state.stage)
        # A stopped subtask may now be forgotten or replaced.
        self._dirty.set()

    def _failed(self, subtask: SubTask, unit: pb.UnitType, may_resume: bool) -> None:
        self._metrics.unit_failed(unit, subtask.name, self.source.source_id, may_resume)

    def _each_subtask(self, action: Callable[[SubTask], None]) -> None:
        with self._lock:
            subtasks = [slot.subtask for slot in self._slots.values() if slot.subtask is not None]
        for subtask in subtasks:
            action(subtask)

    def _join(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        stuck: list[str] = []

        def join(subtask: SubTask) -> None:
            ended = subtask.join(max(0.0, deadline - time.monotonic()))
            # The remaining work of a stopped subtask changes nothing.
            if not ended and subtask.state.stage != pb.Stopped:
                stuck.append(subtask.name)

        self._each_subtask(join)
        for leaving in self._leaving.values():
            join(leaving)
        if stuck:
            log.error("subtasks do not end although they were killed", source=self.source.source_id, tasks=stuck)
        return not stuck


def read_source(client: EtcdClient, source_id: str, decode: Callable[[str], SourceConfig]) -> SourceConfig:
    """The source's config from etcd. Raises 40074 when there is none, what ``decode`` raises when it is unreadable."""
    stored = client.get(keys.SOURCE_CONFIG.key(source_id))
    if stored is None:
        raise errors.new(
            Code.WorkerFailToGetSourceConfigFromEtcd,
            f"source {source_id} is bound to this worker, but etcd has no configuration of it",
            workaround="Check with `dmctl operate-source show`, and create the source again if it is missing.",
        )
    return decode(stored.value)


def _stop_gracefully(subtask: SubTask) -> None:
    subtask.expect(pb.Stopped)


def _after_unit(claim: LoadClaim, unit: pb.UnitType) -> None:
    if unit == pb.Load:
        claim.release()


def _by_task(family: keys.KeyFamily, snapshot: dict[str, KV]) -> dict[str, KV]:
    return {family.names(key)[1]: pair for key, pair in snapshot.items()}


def _slot_status(task: str, slot: _Slot) -> pb.SubTaskStatus:
    if slot.subtask is not None:
        return slot.subtask.status()
    errs = [slot.error] if slot.error else []
    return pb.SubTaskStatus(name=task, stage=pb.Paused, result=process_result(False, errs))


def _set_position(sync: pb.SyncStatus, end: BinlogTail | None, *, current: bool, by_gtid: bool) -> None:
    """Adds the upstream's end. Operators switch over when ``synced`` is true, so it requires a ``current`` end and no
    rows held back."""
    location = end.location if end is not None else None
    if location is not None:
        sync.masterBinlog = str(location.position)
        sync.masterBinlogGtid = location.gtid_set
    if location is None or not current or sync.unresolvedGroups:
        sync.synced = False
    elif by_gtid:
        sync.synced = sync.masterBinlogGtid == sync.syncerBinlogGtid
    else:
        sync.synced = sync.masterBinlog == sync.syncerBinlog
    if sync.synced:
        # Known now, also for a task that does not run.
        sync.secondsBehindMaster, sync.bytesBehind, sync.eta = 0, 0, "0s"
        sync.streamSecondsBehind, sync.streamBytesBehind = 0, 0
    elif sync.streamLagReason == STOPPED:
        # A task that stands still does not look at the upstream.
        _count_bytes(sync, end if current else None)


def _count_bytes(sync: pb.SyncStatus, end: BinlogTail | None) -> None:
    unread = end.bytes_after(parse_position(sync.syncerBinlog)) if end is not None and sync.syncerBinlog else None
    sync.bytesBehind = sync.streamBytesBehind = UNKNOWN if unread is None else unread
