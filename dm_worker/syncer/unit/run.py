"""One run of the syncer: from the takeover of the subtask to its pause, stop or error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import Enum, auto

from dm_worker.engine.engine import SparkEngine
from dm_worker.relay.source_selection import RelayReader
from dm_worker.syncer.checkpoint.protocol import BatchProgress
from dm_worker.syncer.ddl.known_keys import ANY_TABLE
from dm_worker.syncer.ddl.statement_effect import StatementEffect
from dm_worker.syncer.figures.lag_reason import WAITING
from dm_worker.syncer.figures.sync_figures import SyncFigures
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchPolicy, Budget
from dm_worker.syncer.planning.cut_points import AtCut, CutPoint
from dm_worker.syncer.planning.gtid_tracker import ExecutedGtids
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.planning_thread import InstructionQueue, PlanningThread, QueueItem
from dm_worker.syncer.planning.server_switch import ServerSwitched
from dm_worker.syncer.planning.xa import PreparedTransactions
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.lock_client import LockService
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from dm_worker.syncer.unit.applying import RunApplying
from dm_worker.syncer.unit.assembly import RunAssembly, RunParts
from dm_worker.syncer.unit.batch_observer import NOBODY, BatchObserver
from dm_worker.syncer.unit.connections import RunConnections
from dm_worker.syncer.unit.hold import Hold, HoldRequest
from dm_worker.syncer.unit.monitor import Monitor, RunSnapshot
from dm_worker.syncer.unit.reading import RunReading
from dm_worker.syncer.unit.recovery import start_after_switch
from dm_worker.syncer.unit.run_cuts import CutOutcome, RunCuts
from dm_worker.syncer.unit.run_scope import RunScope
from dm_worker.syncer.unit.shard_assembly import ShardAssembly
from dm_worker.syncer.unit.smaller_batches import TooMuchAtOnce, prepare_smaller_batches
from dm_worker.syncer.unit.stream_opener import StreamOpener
from dm_worker.syncer.unit.takeover import takeover_text
from dm_worker.syncer.unit.target_look import TargetLook
from pkg.binlog.position import Location, location_range
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.errors.workarounds import Advice
from pkg.ha.binlog_operator import OperatorSource
from pkg.process.log import get_logger
from pkg.status.lag import HELD

log = get_logger("syncer")

#: How long the main loop waits for an instruction when the applied location is durable (seconds). A hold, a stop and a
#: decision about merged shards wake it.
_IDLE_WAIT = 1.0


class PassEnd(Enum):
    """Why a pass ends early. PLAN_AGAIN: its instructions end behind the cut where the run is to hold or to end.
    FINISHED: the task ends here."""

    PLAN_AGAIN, FINISHED = auto(), auto()


class SyncRun:
    """The state of one ``run()``, from start to end. Methods are for the main thread, unless they say otherwise."""

    def __init__(
        self,
        cfg: SubTaskConfig,
        engine: SparkEngine,
        group: str,
        should_stop: Callable[[], bool],
        relay: RelayReader | None = None,
        orders: OperatorSource = tuple,
        lock_service: LockService | None = None,
        begin: Callable[[], bool] = lambda: True,
        figures: SyncFigures | None = None,
        safe_request: int = 0,
        hold: Hold | None = None,
        observer: BatchObserver = NOBODY,
    ) -> None:
        """``figures``, ``hold``: the unit's. ``safe_request``: as in ``Control``."""
        self._cfg = cfg
        self._hold = hold or Hold()
        self._cuts = RunCuts(self._hold, cfg.flavor, by_gtid=cfg.enable_gtid, until=cfg.until)
        #: Where the task has ended, as it was to; None before.
        self.finished: Location | None = None
        self.figures = figures or SyncFigures()
        self._begin = begin
        self._engine = engine
        self._should_stop = should_stop
        self._policy = BatchPolicy(Budget.of(engine.memory))
        rules = TaskRules(cfg)
        self._connections = RunConnections(cfg, rules, should_stop, self.figures.applying.query.add)
        self._opener = StreamOpener(
            cfg, self._connections.upstream, relay, should_stop, self.figures.reading.has_received
        )
        scope = RunScope(cfg, rules, self._connections, should_stop)
        self._assembly = RunAssembly(
            scope,
            reading=RunReading(scope, self._opener, self._reading),
            applying=RunApplying(scope, engine, group, self._policy, orders, self.figures.applying, observer),
            shards=ShardAssembly(scope, lock_service),
            safe_request=safe_request,
        )
        self._queue = InstructionQueue(self._policy.budget.queue)
        #: None until the run has taken over and reads.
        self._parts: RunParts | None = None
        self._planning: PlanningThread | None = None
        #: Upstream commit time of what is being applied, or was when the run failed; 0 for nothing.
        self._applying = 0
        #: The statement that is executed, or was when the run failed.
        self.handling: BinlogStatement | SettleDDL | None = None
        self.monitor = self._monitor()

    def _monitor(self) -> Monitor:
        cfg = self._cfg
        lookup = ServerLookup(cfg.from_, "upstream", self._should_stop, attempts=1)
        target, by_gtid = TargetLook(cfg.to, self._should_stop), cfg.enable_gtid
        return Monitor(lookup, cfg.flavor, self._look, by_gtid=by_gtid, target=target, figures=self.figures)

    # -- the main loop ------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Takes over, recovers, and replicates until a stop is requested. Raises DMError."""
        self._engine.await_slots(self._should_stop)
        self._parts = parts = self._assembly.take_over()
        parts.keys.look(parts.runner.applied)
        # Until here nothing was applied, so a stop has not waited for this run.
        if not self._begin():
            return
        parts.runner.watched_by_observer()
        parts.sharding.start(self._wake)
        self._hold.run_started(parts.runner.applied, self._wake)
        self.figures.began()
        self.monitor.start()
        self._replicate(parts)

    def _wake(self) -> None:
        """Lets the main loop look around; from any thread."""
        self._queue.wake()

    def _replicate(self, parts: RunParts) -> None:
        """Runs passes over the binlog until a stop is requested. Another pass follows where the rows to apply or the
        upstream have changed, and after a batch that was too large."""
        while not self._should_stop():
            planning, redo = self._open_pass(parts), parts.redo
            try:
                end = self._follow_pass(parts, planning)
            except TooMuchAtOnce as refused:
                self._plan_smaller(parts, refused, planning)
                continue
            if end is PassEnd.FINISHED:
                self.finished = parts.runner.flushed
                return
            if end is PassEnd.PLAN_AGAIN:
                self._end_pass(planning)
            elif isinstance(end, ServerSwitched):
                self._end_pass(planning)
                self._go_back(parts, end, redo)
            elif self._should_stop():
                return
            else:
                self._end_pass(planning)
                self._settle(parts)
            parts.redo = None

    def _follow_pass(self, parts: RunParts, planning: PlanningThread) -> ServerSwitched | PassEnd | None:
        """The main loop: applies the planning thread's output until a stop is requested or another pass must follow.
        Returns the switch if the upstream is another server now; None for a stop, or a next pass of merged shards."""
        runner = parts.runner
        while not self._should_stop():
            if self._is_pass_over(parts):
                return None
            self._arm_cuts(parts, planning)
            with self.figures.applying.clock.during(WAITING):
                item = self._queue.get(0.0 if runner.has_unflushed else _IDLE_WAIT)
            if self._cuts.is_passed if item is None else self._must_plan_again(item):
                return PassEnd.PLAN_AGAIN
            if item is None:
                # No instruction waits: the applied location becomes the checkpoint.
                runner.flush()
            elif isinstance(item, AtCut):
                if self._meet(parts, item):
                    return PassEnd.FINISHED
            elif isinstance(item, Batch):
                self._apply(parts, item)
            elif isinstance(item, Advance):
                self._advance(parts, item)
            elif isinstance(item, BinlogStatement):
                self._execute(parts, item, planning)
            elif isinstance(item, ServerSwitched):
                runner.flush()
                return item
            else:
                runner.flush()
                raise self._reading_error(item, runner.flushed, planning.planner)
        runner.flush()
        return None

    # -- holds and the task's end -------------------------------------------------------------------------------

    def _arm_cuts(self, parts: RunParts, planning: PlanningThread) -> None:
        """Has the planner cut where the run is to hold or to end; holds where that needs no cut."""
        if parts.redo is not None or parts.sharding.reread is not None:
            return
        for end in self._new_ends():
            planning.add_cut(end)
        # Nothing is applied between a hold and the one that replaces it.
        while (request := self._cuts.new_request()) is not None:
            cut = self._cuts.arm(request, parts.runner.applied)
            if cut is None:
                self._keep_hold(parts, request)
            else:
                planning.add_cut(cut)

    def _new_ends(self) -> list[CutPoint]:
        by_time = self._cuts.ends_by_time
        return self._cuts.new_ends(time.time(), self.monitor.end_after(by_time) if by_time else None)

    def _must_plan_again(self, item: QueueItem) -> bool:
        """Whether an instruction may not be applied: it ends behind the cut where the run is to hold or to end."""
        return isinstance(item, Batch | Advance | BinlogStatement) and self._cuts.goes_beyond(item)

    def _meet(self, parts: RunParts, item: AtCut) -> bool:
        """Holds at a cut; returns whether it is the task's end."""
        request, outcome = self._cuts.request, self._cuts.met(item, parts.runner.applied)
        if outcome is CutOutcome.HOLD and request is not None:
            self._keep_hold(parts, request)
        if outcome is CutOutcome.FINISH:
            # Also where nothing was applied: a new task has no checkpoint yet.
            parts.runner.note()
            log.info("replication has ended where the task was to end", location=str(parts.runner.flushed))
        return outcome is CutOutcome.FINISH

    def _keep_hold(self, parts: RunParts, request: HoldRequest) -> None:
        """Holds at the applied location until the hold ends."""
        runner = parts.runner
        # Also where nothing was applied: a new task has no checkpoint yet.
        runner.note()
        if self._connections.store.exit_safe is not None:
            reason = f"until {self._connections.store.exit_safe} the target may have changes from after its checkpoint"
            self._hold.refuse(request, reason, runner.flushed)
            return
        with self.figures.applying.clock.during(HELD):
            self._hold.keep(request, runner.flushed, self._should_stop)

    # -- main-loop steps ----------------------------------------------------------------------------------------

    def _apply(self, parts: RunParts, batch: Batch) -> None:
        self._applying = batch.commit_time
        parts.runner.apply(batch, parts.redo)
        self._applying, parts.redo = 0, None
        parts.keys.passed(parts.runner.applied)

    def _advance(self, parts: RunParts, advance: Advance) -> None:
        if parts.redo is not None:
            # The tables were filtered out since: nothing is left to finish.
            log.warning("the unfinished batch no longer has rows", location=str(advance.location))
            parts.redo = None
        parts.runner.advance(advance)
        parts.keys.passed(parts.runner.applied)

    def _execute(self, parts: RunParts, statement: BinlogStatement, planning: PlanningThread) -> None:
        """Executes a statement, a barrier: the planning thread waits until :meth:`PlanningThread.resume`."""
        runner, sharding = parts.runner, parts.sharding
        self._applying, self.handling = statement.event.timestamp, statement
        if sharding.reread is not None:
            runner.statement_again(statement)
            effect = StatementEffect()
        else:
            effect = runner.statement(statement, parts.barrier)
        self._applying, self.handling = 0, None
        self._follow_effect(parts, effect)
        # If another pass follows, the planning thread must not plan beyond this one's end: the rules differ.
        if not sharding.needs_new_pass:
            planning.resume()

    def _follow_effect(self, parts: RunParts, effect: StatementEffect) -> None:
        """Updates structures and keys. The target may run another statement than the upstream did."""
        self._connections.servers_keys.changed(effect.named, effect.tables)
        parts.registry.forget(effect.tables, keys=effect.about_keys)
        if effect.about_keys:
            parts.keys.changed(parts.runner.applied)

    def _reading_error(self, error: DMError, flushed: Location, planner: Planner) -> DMError:
        """The error that ended the reading, with its range, and with advice if it has none."""
        # A lost connection does not involve the events after it; an event that can't be applied does.
        self._applying = 0 if error.retryable else planner.progress.newest
        where = location_range(flushed, planner.progress.read_to)
        advice = error.workaround or ("" if error.retryable else Advice.CONTINUE_AFTER_EVENT)
        return error.at(where).with_workaround(advice)

    # -- passes over the binlog ---------------------------------------------------------------------------------

    def _open_pass(self, parts: RunParts) -> PlanningThread:
        """Begins to read at the applied location."""
        runner, redo = parts.runner, parts.redo
        reread = parts.sharding.reread
        prepared = PreparedTransactions(runner.prepared if reread is None else reread.prepared)
        limit = None if reread is None else reread.end
        self._new_ends()
        cuts = self._cuts.for_pass() if reread is None else []
        planners, start = [], runner.applied
        if redo is not None:
            planners.append(self._planner(start, prepared, until=redo.end))
            start = redo.end
        if redo is None or start != limit:
            planners.append(self._planner(start, prepared, limit=limit, cuts=cuts))
        self._queue = InstructionQueue(self._policy.budget.queue)
        self._planning = PlanningThread(
            planners,
            self._opener.open,
            parts.registry.resolve,
            self._queue,
            self._policy,
            self._connections.interrupt,
            self.figures.reading,
        )
        self._planning.start()
        return self._planning

    def _planner(
        self,
        start: Location,
        prepared: PreparedTransactions,
        *,
        until: Location | None = None,
        limit: Location | None = None,
        cuts: Sequence[CutPoint] = (),
    ) -> Planner:
        track = bool(start.gtid_set) or self._cfg.enable_gtid
        return Planner(
            start,
            gtids=ExecutedGtids(self._cfg.flavor, start.gtid_set) if track else None,
            by_gtid=self._cfg.enable_gtid,
            limits=self._policy.budget.limits(self._engine.parallel),
            until=until,
            limit=limit,
            prepared=prepared,
            cuts=cuts,
        )

    def _end_pass(self, planning: PlanningThread) -> None:
        planning.stop()

    def _go_back(self, parts: RunParts, switch: ServerSwitched, redo: BatchProgress | None) -> None:
        """Applies unfinished work again from the start of its first transaction, in safe mode; ``redo`` is the range
        that was unfinished when the pass began. Raises DMError where that could lose or double rows."""
        runner = parts.runner
        begin = start_after_switch(
            self._cfg,
            self._connections.store,
            self._opener,
            parts.registry.resolve,
            switch,
            applied=runner.applied,
            redo=redo,
            should_stop=self._should_stop,
        )
        # This server may never have received the statements that were read before.
        self._connections.servers_keys.changed([ANY_TABLE], [])
        if begin is not None:
            runner.go_back(begin)
            parts.registry.forget()

    def _plan_smaller(self, parts: RunParts, refused: TooMuchAtOnce, planning: PlanningThread) -> None:
        """Starts the next pass at a batch that was too large for a transaction, with smaller batches. Raises its error
        where that could lose or double rows."""
        prepare_smaller_batches(self._cfg, self._connections.store, refused, parts.runner.fence)
        self._end_pass(planning)
        self._policy.refused(refused.batch.size)
        parts.runner.go_back(refused.batch.start)
        parts.redo = None

    def _settle(self, parts: RunParts) -> None:
        """Ends a pass of merged shards: executes what the lock service has decided."""
        # Held rows may be due.
        parts.registry.forget((), keys=False)
        settle = parts.sharding.due(parts.runner.applied)
        if settle is not None:
            self.handling = settle
            self._follow_effect(parts, parts.runner.settle(settle, parts.barrier))
            self.handling = None
            if not settle.execute:
                # An operator may have given the executing source statements for any table.
                parts.registry.forget(keys=False)
        parts.sharding.pass_ended()

    def _is_pass_over(self, parts: RunParts) -> bool:
        """Follows the lock service's decisions; returns whether another pass must follow this one."""
        sharding = parts.sharding
        if parts.redo is not None:
            return False
        if sharding.follow_decisions():
            parts.runner.note()
        return sharding.needs_new_pass or sharding.due(parts.runner.applied) is not None

    # -- the end, and queries from other threads ----------------------------------------------------------------

    def cancel_batch(self) -> None:
        """Cancels the batch that the driver applies itself, and all later ones; called from another thread."""
        self._connections.driver_tasks.cancel()

    def abort(self) -> None:
        """Ends a statement that runs at the target; called from another thread."""
        self._connections.abort_statement()

    def close(self) -> None:
        """Releases all resources; the status keeps its last values."""
        self._hold.run_ended()
        if self._planning is not None:
            self._planning.stop()
        self.monitor.stop()
        self.figures.ended()
        if self._parts is not None:
            self._parts.sharding.stop()
        self._connections.close()

    @property
    def needed(self) -> Location | None:
        """From this location on, statements may still be executed; None while unknown. From any thread."""
        parts = self._parts
        if parts is None:
            return None
        flushed, held = parts.runner.flushed, parts.sharding.oldest_needed
        return flushed if held is None else min(flushed, held, key=lambda one: one.position)

    def has_settled(self, settle: SettleDDL) -> bool:
        """Whether this run knows that a DDL of merged shards is settled. From any thread."""
        parts = self._parts
        return parts is not None and parts.sharding.is_settled(settle)

    @property
    def flushed(self) -> Location | None:
        """The durable checkpoint; None while unknown. From any thread."""
        return None if self._parts is None else self._parts.runner.flushed

    def _reading(self) -> Location | None:
        """The planning thread's reading location; called by that thread."""
        return None if self._planning is None else self._planning.planner.progress.location

    def _look(self) -> RunSnapshot:
        """The snapshot for the monitor's thread."""
        parts, planning, applying = self._parts, self._planning, self._applying
        if parts is None or planning is None:
            return RunSnapshot()
        oldest = applying or self._queue.oldest_commit() or planning.planner.progress.oldest_commit
        queued = self._queue.size()
        figures = self.figures
        figures.queued_batches, figures.queued_bytes = queued
        figures.waiting_bytes = planning.planner.progress.waiting_bytes
        return RunSnapshot(
            parts.runner.total_rows,
            parts.runner.flushed,
            self.needed,
            oldest,
            planning.planner.progress.newest,
            planning.planner.progress.position,
            figures.reading.received,
            parts.runner.batch_bytes,
            self._opener.is_local,
            parts.sharding.status(),
            "" if parts.takeover is None else takeover_text(parts.takeover, self._connections.store.exit_safe),
            self._connections.ddl_session.progress,
        )
