"""One run of the syncer: from taking the subtask over to its pause, stop or error."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import blake2b

from dm_worker.engine.engine import SparkEngine
from dm_worker.meta.ddl_fence import DDLFence
from dm_worker.meta.stored_text import stored_text
from dm_worker.relay.source_selection import RelayReader
from dm_worker.syncer.checkpoint.meta_store import DurableState, MetaStore
from dm_worker.syncer.checkpoint.protocol import BatchProgress, Recovery, Sequencer, recover
from dm_worker.syncer.checkpoint.start_location import dump_schema_files, dumped_tables, start_location
from dm_worker.syncer.ddl.barrier import DDLBarrier
from dm_worker.syncer.ddl.executor import DDLExecutor
from dm_worker.syncer.ddl.foreign_key_watch import ABOUT_KEYS, ForeignKeyWatch, ServersKeys
from dm_worker.syncer.ddl.session import DDLSession
from dm_worker.syncer.ddl.trial import Trial
from dm_worker.syncer.ddl.upstream_collations import UpstreamCollations
from dm_worker.syncer.ddl.variables import UpstreamSession
from dm_worker.syncer.execution.row_statements import StatementForm, wants_alias
from dm_worker.syncer.execution.target_spec import TargetSpec
from dm_worker.syncer.online_ddl.online_ddl import OnlineDDL
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchPolicy, Budget
from dm_worker.syncer.planning.failover import ensure_keys
from dm_worker.syncer.planning.gtid_tracker import ExecutedGtids
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.planning.look_ahead import is_unaltered
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.planning_thread import InstructionQueue, PlanningThread
from dm_worker.syncer.planning.server_switch import ServerSwitched, SwitchSurvey, switch_error, uncertain_gtids
from dm_worker.syncer.planning.xa import PreparedTransactions
from dm_worker.syncer.rows.conflict_sets import checked_keys
from dm_worker.syncer.rows.key_normalization import TargetCharsets
from dm_worker.syncer.rows.known_collations import KNOWN_COLLATIONS
from dm_worker.syncer.rows.plan_builder import PlanOptions
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.rows.table_registry import TableRegistry
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.shard_ddl.group_status import NO_SHARDING
from dm_worker.syncer.shard_ddl.initial_groups import ensure_settled, new_groups, regroup, stored_groups
from dm_worker.syncer.shard_ddl.lock_client import LockClient, LockService
from dm_worker.syncer.shard_ddl.reread import RereadPass
from dm_worker.syncer.shard_ddl.sharding import Sharding
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL, SourceGroups
from dm_worker.syncer.unit.batch_runner import BatchRunner
from dm_worker.syncer.unit.monitor import Monitor, RunSnapshot
from pkg import errors
from pkg.binlog.events import parse_query
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location, location_range
from pkg.binlog.stream import BinlogStream
from pkg.binlog.upstream import open_upstream
from pkg.config.model import SubTaskConfig, SyncerConfig
from pkg.errors import Code, DMError
from pkg.errors.workarounds import RENEW_STRUCTURE, TELL_STRUCTURE, renew_structure, tell_structure
from pkg.ha.binlog_operator import OperatorSource
from pkg.mysql import engines
from pkg.mysql.collation_weights import CollationWeights, fetch_characters, fetch_collation_weights
from pkg.mysql.foreign_key_introspect import fetch_foreign_keys
from pkg.mysql.introspect import list_all_tables, server_info
from pkg.mysql.names import qualified
from pkg.mysql.retry import retrying
from pkg.mysql.schema import ForeignKey
from pkg.process.log import get_logger
from pkg.schema_tracker import fetch_server_defaults

log = get_logger("syncer")

#: Statements are kept well below what the target takes in one packet.
STATEMENT_BYTES = 1024 * 1024


def _nothing(*_: str) -> bool:
    return False


class SyncRun:
    """Everything that lives from one ``run()`` to its end."""

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
    ) -> None:
        self._cfg = cfg
        self._begin = begin
        self._lock_service = lock_service
        self._relay = relay
        self._orders = orders
        #: Whether the binlog is read from the relay log.
        self._local = False
        self._engine = engine
        self._group = group
        self._should_stop = should_stop
        self._upstream = ServerLookup(cfg.from_, "upstream", should_stop)
        self._target = ServerLookup(cfg.to, "downstream", should_stop)
        self._store = MetaStore(cfg, should_stop=should_stop)
        #: What the task's session says; None: rows of tables that foreign keys act on are written with checks.
        self._checks = cfg.to.foreign_key_checks
        self._ddl_session = DDLSession(cfg.to, bool(self._checks), DDLFence(cfg, should_stop))
        self._rules = TaskRules(cfg)
        self._servers_keys = ServersKeys(cfg, self._rules, should_stop)
        self._keys = ForeignKeyWatch(self._servers_keys.problems, self._servers_keys.end)
        self._engines: frozenset[str] | None = None
        self._foldings: dict[str, CollationWeights | None] = {}
        self._charsets: dict[str, str | None] = {}
        self._policy = BatchPolicy(Budget.of(engine.memory))
        self._queue = InstructionQueue(self._policy.budget.queue)
        self._reader: PlanningThread | None = None
        #: Bytes that readers before this one have read.
        self._bytes_read = 0
        self._runner: BatchRunner | None = None
        self._sharding: Sharding | None = None
        self._link: LockClient | None = None
        #: Upstream commit time of what is being applied, or was when the run ended in an error; 0 for nothing.
        self._applying = 0
        #: The statement that is being handled, or was when the run ended in an error.
        self.handling: BinlogStatement | SettleDDL | None = None
        self.monitor = Monitor(
            ServerLookup(cfg.from_, "upstream", should_stop, attempts=1),
            cfg.flavor,
            self._look,
            by_gtid=cfg.enable_gtid,
        )

    # -- the script ---------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Takes over, recovers, and replicates until a stop is asked for. Raises DMError."""
        self._engine.await_slots(self._should_stop)
        self._store.prepare()
        durable = self._store.take_over(self._cfg.syncer.worker_count)
        # No intent of an earlier run can be written any more. A statement that has one must not begin later on.
        still_ours = partial(self._store.ensure_epoch, durable.epoch)
        retrying(lambda: self._ddl_session.take_over(still_ours), should_stop=self._should_stop)
        groups = stored_groups(durable.shards, self._rules.route, by_gtid=self._cfg.enable_gtid)
        recovery = self._recover(durable, None if groups is None else groups.reread)
        log.info(
            "taking over", task=self._cfg.name, source=self._cfg.source_id, epoch=durable.epoch,
            location=str(recovery.location), unfinished=recovery.redo is not None, safe_mode=recovery.safe,
        )  # fmt: skip
        if self._cfg.syncer.batch != SyncerConfig().batch:
            log.info("syncers.batch has no effect: a transaction contains a writer's rows of one batch of the binlog")
        source = self._schema_source(durable, trust_dump=not recovery.safe)
        ours = durable.checkpoint is not None and not recovery.safe
        self._sharding = self._merged(groups, source, durable.checkpoint, ours=ours)
        registry = self._registry(source)
        sequencer = Sequencer(durable.epoch, durable.progress, recovery.location, recovery.prepared)
        self._runner = self._batch_runner(sequencer, source)
        barrier = self._on_statement(source, OnlineDDL(self._rules.online, durable.ghosts))
        self._keys.look(recovery.location)
        # Until here nothing of the stream was applied, and whoever stopped this run need not have waited for it.
        if not self._begin():
            return
        if self._link is not None:
            self._link.start()
        self.monitor.start()
        self._passes(self._runner, barrier, registry, recovery.redo)

    def _passes(
        self, runner: BatchRunner, barrier: DDLBarrier, registry: TableRegistry, redo: BatchProgress | None
    ) -> None:
        """One pass over the binlog, if no shards merge; else the main pass and re-reads in turn."""
        while not self._should_stop():
            reader = self._open_pass(runner, registry, redo)
            switch = self._follow(runner, reader, barrier, registry, redo)
            if switch is not None:
                reader.stop()
                self._bytes_read += reader.planner.bytes_read
                self._go_back(runner, registry, redo, switch)
                redo = None
                continue
            redo, sharding = None, self._sharding
            if sharding is None or self._should_stop():
                return
            reader.stop()
            self._bytes_read += reader.planner.bytes_read
            if sharding.settle is not None and self._may_settle(runner, sharding):
                self.handling = sharding.settle
                runner.settle(sharding, barrier)
                self.handling = None
            sharding.turned = False
            registry.forget()

    def _follow(
        self,
        runner: BatchRunner,
        reader: PlanningThread,
        barrier: DDLBarrier,
        registry: TableRegistry,
        redo: BatchProgress | None,
    ) -> ServerSwitched | None:
        """The pass that was opened, until a stop is asked for or another pass has to follow: because the upstream is
        another server now, or else the next one of merged shards."""
        sharding = self._sharding
        while not self._should_stop():
            if sharding is not None and redo is None and self._is_over(runner, sharding):
                return None
            item = self._queue.get(0.0 if runner.behind else 0.2)
            if item is None:
                # Nothing follows at once: what is applied becomes the checkpoint.
                runner.flush()
            elif isinstance(item, DMError):
                runner.flush()
                # Lost connections tell nothing about what waits behind them; an event that can't be applied does.
                self._applying = 0 if item.retryable else reader.planner.newest
                raise self._explained(item, location_range(runner.flushed, reader.planner.read_to))
            elif isinstance(item, ServerSwitched):
                runner.flush()
                return item
            elif isinstance(item, Batch):
                self._applying = item.commit_time
                runner.apply(item, redo)
                self._applying, redo = 0, None
                self._keys.passed(runner.applied)
            elif isinstance(item, Advance):
                if redo is not None:
                    # Tables were filtered out since: nothing is left to finish.
                    log.warning("the unfinished batch no longer has rows", location=str(item.location))
                    redo = None
                runner.advance(item)
                self._keys.passed(runner.applied)
            else:
                self._applying, self.handling = item.event.timestamp, item
                if sharding is not None and sharding.reread is not None:
                    runner.statement_again(item, sharding)
                else:
                    runner.statement(item, barrier)
                self._applying, self.handling = 0, None
                self._forget(registry, item, runner)
                # Another pass follows: the reader would plan what is behind this one's end, by the rules of the next.
                if sharding is None or not sharding.turned:
                    reader.resume()
        runner.flush()
        return None

    def _go_back(
        self, runner: BatchRunner, registry: TableRegistry, redo: BatchProgress | None, switch: ServerSwitched
    ) -> None:
        """Sees to it that what is unfinished is applied again from the start of its first transaction, in safe mode.

        ``redo`` is the unfinished range, if there is one. Raises DMError where that could lose or double rows.
        """
        start, end = (redo.start, redo.end) if redo is not None else (runner.applied, runner.applied)
        if redo is None and not start.rows_events:
            # Nothing of the transaction was given out.
            return
        upto = uncertain_gtids(start, end, self._cfg.flavor) if self._cfg.enable_gtid else None
        if upto is None:
            raise switch_error(switch, "without GTIDs the same transaction cannot be found")
        if self._sharding is not None:
            raise switch_error(switch, "and the rows that merged shards hold back are located by it")
        begin = start.at_transaction_start()
        log.warning(
            "the upstream is another server: unfinished transactions are applied again in safe mode",
            stood_at=str(switch.place), found=switch.found, start=str(begin), end=upto,
        )  # fmt: skip
        with closing(self._open_stream(begin)) as stream:
            survey = SwitchSurvey(begin, upto, self._cfg.flavor)
            ensure_keys(stream, survey, registry.resolve, switch, self._should_stop)
        leave = parse_gtid_set(upto, self._cfg.flavor)
        if self._store.exit_safe is not None:
            leave.update(parse_gtid_set(self._store.exit_safe.gtid_set, self._cfg.flavor))  # type: ignore[arg-type]
        self._store.exit_safe = Location(end.position, str(leave))
        runner.go_back(begin)
        registry.forget()

    def _forget(self, registry: TableRegistry, statement: BinlogStatement, runner: BatchRunner) -> None:
        """Structures may have changed."""
        text = parse_query(statement.event, statement.place.name).statement
        about_keys = ABOUT_KEYS.search(text) is not None
        registry.forget(keys=about_keys)
        if about_keys:
            self._keys.look(runner.applied)

    def _is_over(self, runner: BatchRunner, sharding: Sharding) -> bool:
        """Hears what the lock service says; whether another pass has to follow this one."""
        if sharding.follow_decisions():
            runner.note()
        return sharding.turned or (sharding.settle is not None and self._may_settle(runner, sharding))

    @staticmethod
    def _may_settle(runner: BatchRunner, sharding: Sharding) -> bool:
        """Whether the main pass stands between transactions."""
        return sharding.reread is None and not sharding.inside and not runner.applied.rows_events

    def _explained(self, exc: DMError, where: str) -> DMError:
        """The error with its place, and with this task's names in the commands that it advises."""
        names = (self._cfg.name, self._cfg.source_id)
        advice = exc.workaround.replace(RENEW_STRUCTURE, renew_structure(*names))
        return exc.at(where).with_workaround(advice.replace(TELL_STRUCTURE, tell_structure(*names)))

    def abort(self) -> None:
        """Ends the statement that runs at the target, if one does; the intent tells the next run about it."""
        self._ddl_session.abort()

    def _interrupt(self) -> None:
        """Breaks off what the reader asks; from another thread."""
        self._upstream.interrupt()
        self._target.interrupt()

    def close(self) -> None:
        """Gives everything back; the status keeps its last values."""
        if self._reader is not None:
            self._reader.stop()
        self.monitor.stop()
        if self._link is not None:
            self._link.stop()
        for part in (self._upstream, self._target, self._store, self._ddl_session, self._servers_keys):
            part.close()

    @property
    def needed(self) -> Location | None:
        """From here on statements may still be executed; None while that is not known."""
        flushed, held = self.flushed, None if self._sharding is None else self._sharding.oldest_needed
        return flushed if flushed is None or held is None else min(flushed, held, key=lambda one: one.position)

    def has_settled(self, settle: SettleDDL) -> bool:
        """Whether a DDL of merged shards is settled, as far as this run knows."""
        return self._sharding is not None and self._sharding.is_settled(settle)

    @property
    def flushed(self) -> Location | None:
        """The checkpoint as it is durable; None while that is not known."""
        return None if self._runner is None else self._runner.flushed

    def _look(self) -> RunSnapshot:
        runner, reader, applying = self._runner, self._reader, self._applying
        if runner is None or reader is None:
            return RunSnapshot()
        oldest = applying or self._queue.oldest_commit() or reader.planner.oldest_commit
        return RunSnapshot(
            runner.total_rows,
            runner.flushed,
            oldest,
            self._bytes_read + reader.planner.bytes_read,
            runner.batch_bytes,
            self._local,
            NO_SHARDING if self._sharding is None else self._sharding.status(),
        )

    # -- the parts ----------------------------------------------------------------------------------------------

    def _recover(self, durable: DurableState, reread: RereadPass | None) -> Recovery:
        fallback: Location | None = None
        if durable.checkpoint is None:
            fallback, self._store.exit_safe = start_location(self._cfg)
        main = None if reread is None else reread.end
        recovery = recover(durable.progress, durable.checkpoint, fallback, main)
        assert recovery is not None
        if durable.exit_safe is not None:
            self._store.exit_safe = durable.exit_safe
        if recovery.safe and self._cfg.syncer.safe_mode_duration != 0:
            # What lies beyond this checkpoint may be applied already, but nothing that the upstream writes from now on.
            self._store.exit_safe = self._upstream.end_of_binlog(self._cfg.flavor)
            log.warning(
                "the checkpoint was written by another program: starting in safe mode", until=str(self._store.exit_safe)
            )
        return replace(recovery, location=self._with_gtid(recovery.location))

    def _with_gtid(self, location: Location) -> Location:
        if not self._cfg.enable_gtid or location.gtid_set or not location.position.name:
            return location
        known = self._upstream.gtid_of(location.position) if self._cfg.flavor == "mariadb" else ""
        if not known:
            raise errors.new(
                Code.SyncerUnitRemoteSteamerWithGTID,
                f"enable-gtid is on, but the start position {location.position} has no GTID set",
                workaround="Set enable-gtid: false for this source, or give meta.binlog-gtid and start the task with "
                "--remove-meta.",
            )
        return Location(location.position, known, location.rows_events)

    def _merged(
        self, groups: SourceGroups | None, source: SchemaSource, checkpoint: Location | None, *, ours: bool
    ) -> Sharding | None:
        """The sharding groups at work; None when nothing merges. ``ours``: the checkpoint is the one of ``groups``."""
        if not self._cfg.shard_mode:
            if groups is not None:
                ensure_settled(groups, "shard-mode is switched off")
                self._store.forget_shards()
            return None
        if groups is not None and not ours:
            ensure_settled(groups, "the checkpoint was changed by hand")
            # Else those of targets that no table is routed to any more would stay.
            self._store.forget_shards()
            groups = None
        assert self._lock_service is not None, "merged shards need the other sources"
        listed = self._tables(checkpoint)
        if groups is None:
            groups = new_groups(listed, self._rules.route, by_gtid=self._cfg.enable_gtid)
            changed = set(groups.groups)
        else:
            changed = regroup(groups, listed, self._rules.allows)
            if changed:
                log.info("grouped merged tables again", targets=", ".join(qualified(*one) for one in sorted(changed)))
        self._link = LockClient(self._lock_service, self._cfg.name, self._cfg.source_id)
        return Sharding(
            groups,
            self._link,
            source,
            takes_rows=self._rules.takes_rows,
            task=self._cfg.name,
            source_id=self._cfg.source_id,
            changed=changed,
        )

    def _tables(self, checkpoint: Location | None) -> list[tuple[str, str]]:
        """The migrated tables that there are now, and those that there were when the full copy was made."""
        found = self._upstream.ask(list_all_tables)
        names = {(schema, table) for schema, tables in found.items() for table in tables}
        if checkpoint is None:
            # Those that were dropped since have a DROP behind the place of the copy.
            names |= dumped_tables(self._cfg)
        return sorted(name for name in names if self._rules.allows(*name))

    def _unsafe_engines(self) -> frozenset[str]:
        """The target's engines that can't roll back; none where an operator answers for their tables."""
        if self._engines is None:
            ignored = not {engines.IGNORE, "all"}.isdisjoint(self._cfg.ignore_checking_items)
            asked = engines.engines_without_transactions
            self._engines = frozenset() if ignored else self._target.ask(asked)
        return self._engines

    def _checked_keys(self) -> list[ForeignKey]:
        """The target's foreign keys by which rows are written with checks."""
        checks = False if self._checks is None and self._servers_keys.logged_upstream else self._checks
        return checked_keys(checks, lambda: self._target.ask(fetch_foreign_keys))

    def _open_pass(self, runner: BatchRunner, registry: TableRegistry, redo: BatchProgress | None) -> PlanningThread:
        """Begins to read where all before is applied."""
        reread = None if self._sharding is None else self._sharding.reread
        prepared = PreparedTransactions(runner.prepared if reread is None else reread.prepared)
        limit = None if reread is None else reread.end
        planners, start = [], runner.applied
        if redo is not None:
            planners.append(self._planner(start, prepared, until=redo.end))
            start = redo.end
        if redo is None or start != limit:
            planners.append(self._planner(start, prepared, limit=limit))
        self._queue = InstructionQueue(self._policy.budget.queue)
        self._reader = PlanningThread(
            planners, self._open_stream, registry.resolve, self._queue, self._policy, self._interrupt
        )
        self._reader.start()
        return self._reader

    def _planner(
        self,
        start: Location,
        prepared: PreparedTransactions,
        *,
        until: Location | None = None,
        limit: Location | None = None,
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
        )

    def _open_stream(self, location: Location) -> BinlogStream:
        # What was prepared before enable-gtid was set has no GTID set yet.
        location = self._with_gtid(location)
        relay, use_gtid = self._relay, self._cfg.enable_gtid
        local = relay.open(location, use_gtid=use_gtid) if relay is not None else None
        self._local = local is not None
        if local is not None:
            return local
        stream = self._open_upstream(location)
        return relay.watched(stream) if relay is not None else stream

    def _unaltered(self, table: str) -> bool:
        """Whether no statement from where the reader is up to now may be about a table of that name."""
        end, reader = self._upstream.end_of_binlog(self._cfg.flavor), self._reader
        if end is None or reader is None:
            return False
        with closing(self._open_upstream(self._with_gtid(reader.planner.location), "ahead")) as stream:
            return is_unaltered(stream, end.position, table, self._should_stop)

    def _open_upstream(self, location: Location, purpose: str = "") -> BinlogStream:
        identity = f"{self._cfg.name}\0{self._cfg.source_id}\0{self._cfg.server_id}{purpose}".encode()
        return open_upstream(
            self._cfg.from_,
            location,
            flavor=self._cfg.flavor,
            # The same for every run, so that the upstream ends the connection of an earlier one.
            server_id=1 + zlib.crc32(identity) % 0xFFFFFFFE,
            use_gtid=self._cfg.enable_gtid,
        )

    def _schema_source(self, durable: DurableState, *, trust_dump: bool) -> SchemaSource:
        source = SchemaSource(
            server=self._upstream.ask(fetch_server_defaults),
            dump_files=dump_schema_files(self._cfg),
            upstream=self._upstream.table,
            target=lambda schema, table: self._target.table(*self._rules.route(schema, table)),
            schema_charset=self._upstream.schema_charset,
            trust_dump=trust_dump,
            filled=self._rules.filled,
            unaltered=self._unaltered,
        )
        source.restore(durable.tables, durable.given_up)
        return source

    def _registry(self, source: SchemaSource) -> TableRegistry:
        compact = self._cfg.syncer.compact is not False
        sharding = self._sharding
        return TableRegistry(
            allows=self._rules.takes_rows if sharding is None else sharding.allows,
            holds_back=_nothing if sharding is None else sharding.holds_back,
            route=self._rules.route,
            rules=self._rules.of_table,
            source=source if sharding is None else sharding,
            target=self._target.table,
            options=PlanOptions(compact=compact, charsets=TargetCharsets(self._folding, self._characters)),
            foreign_keys=self._checked_keys,
            unsafe_engines=self._unsafe_engines,
        )

    def _folding(self, charset: str, collation: str) -> CollationWeights | None:
        """Asked once per run, and kept by the process: a server's collations don't change under it."""

        def ask() -> CollationWeights | None:
            found = self._target.ask(lambda conn: fetch_collation_weights(conn, charset, collation))
            log.info("read a collation from the target", collation=collation, known=bool(found))
            return found

        if collation not in self._foldings:
            version = self._target.ask(server_info).version_text
            key = (self._cfg.to.host, self._cfg.to.port, version, collation)
            self._foldings[collation] = KNOWN_COLLATIONS.get(key, ask)
        return self._foldings[collation]

    def _characters(self, charset: str) -> str | None:
        if charset not in self._charsets:
            self._charsets[charset] = self._target.ask(lambda conn: fetch_characters(conn, charset))
        return self._charsets[charset]

    def _on_statement(self, source: SchemaSource, online: OnlineDDL) -> DDLBarrier:
        strict = self._cfg.collation_compatible == "strict"
        flavor = self._target.ask(server_info).flavor
        executor = DDLExecutor(
            store=self._store,
            session=self._ddl_session,
            trial=Trial(self._cfg, self._ddl_session, flavor),
            target_flavor=flavor,
            upstream=UpstreamSession(
                self._cfg.flavor, source.tracker.server.version, source.tracker.server.explicit_timestamp
            ),
            should_stop=self._should_stop,
            collations=UpstreamCollations(source.tracker.server) if strict else None,
        )
        return DDLBarrier(
            self._cfg,
            rules=self._rules,
            source=source,
            online=online,
            store=self._store,
            executor=executor,
            system_zone=self._upstream.system_zone,
            orders=self._orders,
            sharding=self._sharding,
        )

    def _batch_runner(self, sequencer: Sequencer, source: SchemaSource) -> BatchRunner:
        limit = min(STATEMENT_BYTES, max(16 * 1024, self._cfg.to.max_allowed_packet // 2))
        form = StatementForm(
            multiple=self._cfg.syncer.multiple_rows is not False,
            limit=limit,
            alias=wants_alias(self._target.ask(server_info)),
            checks=bool(self._checks),
        )
        return BatchRunner(
            engine=self._engine,
            group=self._group,
            store=self._store,
            sequencer=sequencer,
            source=source,
            target=TargetSpec(self._cfg.to, self._cfg.to.session, self._store.markers, self._store.batches, form),
            workers=self._cfg.syncer.worker_count,
            policy=self._policy,
            settings=self._settings(),
            is_unsafe=self._is_unsafe,
            should_stop=self._should_stop,
            sharding=self._sharding,
        )

    def _settings(self) -> bytes:
        """What of the configuration decides how a range is planned."""
        syncer = self._cfg.syncer
        rules = (self._rules.settings, syncer.compact, bool(self._checks))
        return blake2b(stored_text(rules).encode(), digest_size=16).digest()

    def _is_unsafe(self, location: Location) -> bool:
        """Whether the target may already hold what lies behind ``location``."""
        if self._cfg.syncer.safe_mode:
            return True
        exit_safe = self._store.exit_safe
        if exit_safe is None:
            return False
        if self._cfg.enable_gtid:
            passed = parse_gtid_set(location.gtid_set, self._cfg.flavor)
            return not passed.contains(parse_gtid_set(exit_safe.gtid_set, self._cfg.flavor))  # type: ignore[arg-type]
        return location.position < exit_safe.position
