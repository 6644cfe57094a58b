"""The syncer's tables in the target's meta schema, and the transactions on them.

``<task>_syncer_checkpoint`` has DM's layout. The others carry the exactly-once protocol (see :mod:`protocol`): one
batch row per source, one marker row per source and bucket, one row per DDL in progress, one per prepared XA transaction
that waits for its XA COMMIT. The records of online changes are stored with the checkpoint (see :mod:`records_table`),
and with merged shards the state of their groups (:mod:`groups_table`). ``<task>_syncer_taken_over`` keeps the rows of a
checkpoint that DM wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pymysql

from dm_worker.meta.early_progress import early_table
from dm_worker.meta.loader_keys import keys_table
from dm_worker.meta.syncer_tables import syncer_table
from dm_worker.syncer.checkpoint.checkpoint_table import CheckpointTable, StoredStructures
from dm_worker.syncer.checkpoint.ddl_table import LATE_COLUMNS as DDL_COLUMNS
from dm_worker.syncer.checkpoint.ddl_table import DDLRecord, DDLTable
from dm_worker.syncer.checkpoint.meta_connection import SMALL_KEYS, MetaConnection, MetaTransactions
from dm_worker.syncer.checkpoint.open_transactions import end_open_transactions
from dm_worker.syncer.checkpoint.protocol import IDLE, AppliedBuckets, BatchProgress
from dm_worker.syncer.checkpoint.protocol_tables import ProtocolTables
from dm_worker.syncer.checkpoint.start_location import FULL_MODES
from dm_worker.syncer.checkpoint.temporary_names import TemporaryChanges, TemporaryNames, TemporaryTable
from dm_worker.syncer.online_ddl.ghost_records import GhostRecord
from dm_worker.syncer.online_ddl.records_table import OnlineDDLTable
from dm_worker.syncer.shard_ddl.groups_snapshot import GroupsSnapshot
from dm_worker.syncer.shard_ddl.groups_table import GroupsChanges, GroupsTable
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.mysql import engines
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import BoundStatement, query
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.pipeline import Refused, send_ahead
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger
from pkg.task_meta.unsettled_ddl import UnsettledGroup

log = get_logger("syncer.checkpoint")

#: Runs work in its own transaction, without a retry.
Transaction: TypeAlias = Callable[[Callable[[MetaConnection], None]], None]

#: Seconds that a takeover waits for a row before it checks again which connection holds it.
_TAKEOVER_LOCK_WAIT = 3
_NO_SUCH_TABLE = 1146
_NO_SUCH_SCHEMA = 1049


@dataclass(slots=True)
class DurableState:
    """The durable state that a run takes over. ``exit_safe``: safe mode holds until there. ``shards``: the state of the
    shard groups, None when none is stored."""

    epoch: int
    progress: BatchProgress | None
    checkpoint: Location | None
    exit_safe: Location | None = None
    structures: StoredStructures = field(default_factory=StoredStructures)
    shards: GroupsSnapshot | None = None
    #: DDL of merged shards that DM did not settle.
    unsettled: list[UnsettledGroup] = field(default_factory=list)
    #: The last checkpoint location that this program took over from another one; None when it never did.
    taken_over: Location | None = None
    ghosts: dict[TableId, GhostRecord] = field(default_factory=dict)
    temporary: dict[TemporaryTable, str] = field(default_factory=dict)


class MetaStore:
    """Reads and writes the meta tables of one subtask, in transactions on a connection of its own."""

    def __init__(self, cfg: SubTaskConfig, *, should_stop: Callable[[], bool] | None = None) -> None:
        self._cfg = cfg
        self.source_id = cfg.source_id
        keeps_names = cfg.task_mode in FULL_MODES
        self._checkpoints = CheckpointTable(self._name("checkpoint"), cfg.source_id, keeps_names=keeps_names)
        self._foreign = CheckpointTable(self._name("taken_over"), cfg.source_id, keeps_names=False)
        self._protocol = ProtocolTables(self._name("batch"), self._name("marker"), self._name("xa"), cfg.source_id)
        self._ddls = DDLTable(self._name("ddl"), cfg.source_id)
        self._shards = GroupsTable(cfg.meta_schema, cfg.name, cfg.source_id)
        self._ghosts = OnlineDDLTable(qualified(cfg.meta_schema, f"{cfg.name}_onlineddl"), cfg.source_id)
        self._temporary = TemporaryNames(self._name("temporary"), cfg.source_id)
        self._transactions = MetaTransactions(cfg.to, self._checkpoints.name, should_stop)
        #: Changes of the records of online changes that the next write stores.
        self._ghost_changes: dict[TableId, GhostRecord | None] = {}
        self._temporary_changes: dict[TemporaryTable, str | None] = {}
        #: Safe mode holds until there; every write stores it. None out of safe mode.
        self.exit_safe: Location | None = None

    def _name(self, what: str) -> str:
        return qualified(self._cfg.meta_schema, syncer_table(self._cfg.name, what))

    @property
    def batches(self) -> str:
        """The quoted name of the batch table."""
        return self._protocol.batches

    @property
    def markers(self) -> str:
        """The quoted name of the marker table."""
        return self._protocol.markers

    # -- life cycle ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Creates schema and tables where they are missing. Raises DMError."""

        def create(conn: MetaConnection) -> None:
            query(conn, f"CREATE DATABASE IF NOT EXISTS {quote(self._cfg.meta_schema)}")
            for table in (self._checkpoints, self._foreign):
                table.create(conn)
                table.adapt(conn)
            others = (self._ddls.creation(SMALL_KEYS), self._temporary.creation(SMALL_KEYS))
            for statement in (*self._protocol.creations(), *others):
                query(conn, statement)
            if self._cfg.shard_mode:
                query(conn, self._shards.creation())
            self._ghosts.create(conn, SMALL_KEYS)
            self._add_late_columns(conn)
            self._check_engines(conn)

        self._transactions.run(create)

    def _check_engines(self, conn: MetaConnection) -> None:
        """Raises 36004 for a table that can't roll back, created by another program or with a server's default."""
        names = ("checkpoint", "taken_over", "batch", "marker", "ddl", "xa", "temporary", "sharding_meta")
        tables = [(self._cfg.meta_schema, syncer_table(self._cfg.name, name)) for name in names]
        tables.append((self._cfg.meta_schema, f"{self._cfg.name}_onlineddl"))
        for table, engine in engines.tables_without_transactions(conn, tables):
            raise errors.new(
                Code.SyncUnitNotSupportedDML,
                engines.problem(table, engine),
                scope="downstream",
                workaround=f"{engines.remedy(table)} Then resume the task.",
            )

    def close(self) -> None:
        self._transactions.close()

    def remove(self) -> None:
        """Deletes this source's rows from all tables; missing tables are fine."""

        def delete(conn: MetaConnection) -> None:
            protocol = (self.batches, self.markers, self._protocol.prepared)
            own = (self._checkpoints.name, self._foreign.name, *protocol, self._ddls.name, self._ghosts.name)
            names = (*own, self._temporary.name)
            deletions = [(f"DELETE FROM {table} WHERE id = %s", (self.source_id,)) for table in names]
            for sql, values in (*deletions, self._shards.deletion()):
                _if_there(conn, sql, values)

        self._transactions.run(delete)

    def hand_back(self, location: Location, structures: Mapping[TableId, str], gone: Iterable[TableId]) -> None:
        """Leaves the rows from which DM continues, and nothing that it does not understand: in one transaction, after
        which no run of this program may write. ``structures`` are in DM's form; ``gone``: rows that DM must not read.
        """
        own = (self.batches, self.markers, self._protocol.prepared, self._ddls.name, self._foreign.name)
        loaded = qualified(self._cfg.meta_schema, f"{self._cfg.name}_loader_progress")

        def write(conn: MetaConnection) -> None:
            statements = [self._checkpoints.removed_table(*name) for name in gone]
            statements += [self._checkpoints.described_table(name, text, location) for name, text in structures.items()]
            statements += [(f"DELETE FROM {table} WHERE id = %s", (self.source_id,)) for table in own]
            moved = [name for name, record in self._ghosts.read(conn).items() if record.moved]
            statements += self._ghosts.changes(dict.fromkeys(moved))
            for sql, values in statements:
                query(conn, sql, values)
            for sql, values in (self._shards.deletion(), (f"DELETE FROM {loaded} WHERE id = %s", (self.source_id,))):
                _if_there(conn, sql, values)

        def drop(conn: MetaConnection) -> None:
            copied = [make(self._cfg.meta_schema, self._cfg.name) for make in (keys_table, early_table)]
            for table in (*own, self._shards.table, loaded, *copied):
                # The task's other sources may not be handed back yet.
                if _if_there(conn, f"SELECT 1 FROM {table} LIMIT 1") == ():
                    query(conn, f"DROP TABLE {table}")

        self._transactions.run(write)
        self._transactions.run(drop)

    # -- the protocol -------------------------------------------------------------------------------------------

    def take_over(self, buckets: int) -> DurableState:
        """Raises the epoch in the batch row and all markers, in one transaction, and reads what is durable."""

        def take(conn: MetaConnection) -> DurableState:
            # A frozen process that holds rows would block this again and again.
            lock_wait = int(query(conn, "SELECT @@SESSION.innodb_lock_wait_timeout")[0][0])
            query(conn, f"SET SESSION innodb_lock_wait_timeout = {_TAKEOVER_LOCK_WAIT}")
            end_open_transactions(self._cfg.to, self.source_id, batches=self.batches, markers=self.markers)
            epoch, progress = self._protocol.take_over(conn, buckets)
            checkpoint, exit_safe = self._checkpoints.read(conn)
            structures = self._checkpoints.read_tables(conn, checkpoint)
            taken_over, _ = self._foreign.read(conn)
            shards, unsettled = self._shards.read(conn), self._shards.read_foreign(conn)
            ghosts, temporary = self._ghosts.read(conn), self._temporary.read(conn)
            query(conn, f"SET SESSION innodb_lock_wait_timeout = {lock_wait}")
            return DurableState(
                epoch, progress, checkpoint, exit_safe, structures, shards, unsettled, taken_over, ghosts, temporary
            )

        durable = self._transactions.run(take)
        self._protocol.taken_over()
        return durable

    def keep_foreign(self, epoch: int) -> None:
        """Copies the checkpoint that another program wrote, before anything overwrites it; and removes DM's records of
        shard DDL, which begins again."""

        def keep(conn: MetaConnection) -> None:
            # Another run's takeover waits for the row meanwhile, so the copy can't contain its writes.
            query(conn, f"SELECT epoch FROM {self.batches} WHERE id = %s FOR UPDATE", (self.source_id,))
            self._protocol.ensure_epoch(epoch, conn)
            for sql, values in (*self._foreign.copied_from(self._checkpoints), *self._shards.without_foreign(conn)):
                query(conn, sql, values)

        self._transactions.run(keep)

    def write(
        self,
        progress: BatchProgress,
        *,
        changed: Iterable[TableInfo] = (),
        dropped: Iterable[tuple[str, str]] = (),
        ddl: DDLRecord | None = None,
        shards: GroupsChanges | None = None,
        checkpoint: Location | None = None,
        applied: AppliedBuckets | None = None,
        through: Transaction | None = None,
    ) -> None:
        """Makes progress durable with its checkpoint, in one transaction. Raises DMError, also when fenced, and when
        the target lacks what this run wrote before: its last write of the batch row, and the buckets of ``applied``.

        ``checkpoint`` differs from the location of ``progress`` while held rows are read again. ``through`` runs the
        transaction on another connection than the store's.
        """
        location = checkpoint or (progress.end if progress.state == IDLE else progress.start)
        tables, gone = list(changed), list(dropped)

        def put(conn: MetaConnection) -> None:
            update = self._protocol.updated(progress, applied)
            rest = [self._checkpoints.moved(location, self.exit_safe)]
            rest += self._protocol.changed_prepared(progress.prepared)
            rest += [self._checkpoints.given_up_name(*name, location) for name in gone]
            rest += [self._checkpoints.stored_table(info, location) for info in tables]
            rest += self._ddls.written(ddl) if ddl is not None else []
            rest += self._shards.written(shards) if shards is not None else []
            rest += self._ghosts.changes(self._ghost_changes)
            rest += self._temporary.changes(self._temporary_changes)
            self._send(conn, update, rest, progress.epoch)

        if through is None:
            self._transactions.run(put)
        else:
            through(put)
        self._protocol.written(progress)
        self._ghost_changes, self._temporary_changes = {}, {}

    def has_bucket_of(self, number: int) -> bool:
        """Whether the rows of a bucket of this batch, or of a later one, are applied."""
        return self._transactions.run(lambda conn: self._protocol.has_bucket_of(conn, number))

    def remember(self, ghosts: Mapping[TableId, GhostRecord | None], temporary: TemporaryChanges) -> None:
        """Records changes of the records of online changes and of temporary tables, None for those to remove: the next
        write makes them durable."""
        self._ghost_changes |= ghosts
        self._temporary_changes |= temporary

    def read_ddl(self, position: Position, index: int) -> DDLRecord | None:
        """The record of a statement: None when it was never begun."""
        return next(iter(self.read_ddls(position, index)), None)

    def read_ddls(self, position: Position, index: int | None = None) -> list[DDLRecord]:
        """The records of all parts of a statement, by their numbers; or of one part."""
        return self._transactions.run(lambda conn: self._ddls.read(conn, position, index))

    def read_tables(self) -> list[TableInfo]:
        """The durable structures of the tables."""
        return self._transactions.run(self._checkpoints.read_tables).tables

    def put_table(self, info: TableInfo) -> None:
        """Stores a structure at the current checkpoint; no run may be active."""

        def put(conn: MetaConnection) -> None:
            location, _ = self._checkpoints.read(conn)
            query(conn, *self._checkpoints.stored_table(info, location or Location(Position("", 0))))

        self._transactions.run(put)

    def delete_table(self, schema: str, table: str) -> None:
        """Removes a structure; no run may be active."""
        self._transactions.run(lambda conn: query(conn, *self._checkpoints.removed_table(schema, table)))

    def peek(self) -> tuple[Location | None, GroupsSnapshot | None]:
        """The checkpoint, None when there is none, and the shard groups' state, without taking over.

        Creates nothing.
        """

        def read(conn: MetaConnection) -> tuple[Location | None, GroupsSnapshot | None]:
            try:
                return self._checkpoints.read(conn)[0], self._shards.read(conn)
            except pymysql.Error as exc:
                if error_number(exc) in (_NO_SUCH_TABLE, _NO_SUCH_SCHEMA):
                    return None, None
                raise

        return self._transactions.run(read)

    def forget_shards(self) -> None:
        """Removes the shard groups' state, which is invalid while the task does not merge shards."""
        self._transactions.run(lambda conn: query(conn, *self._shards.deletion()))

    def _add_late_columns(self, conn: MetaConnection) -> None:
        """Adds what a table of an earlier version lacks. An unfinished batch in it counts as one of another plan."""
        late = {**self._protocol.late_columns, self._ddls.name: DDL_COLUMNS}
        for table, columns in late.items():
            there = {str(row[0]).lower() for row in query(conn, f"SHOW COLUMNS FROM {table}")}
            for name, kind in columns.items():
                if name not in there:
                    query(conn, f"ALTER TABLE {table} ADD COLUMN {name} {kind}")

    def _send(self, conn: MetaConnection, update: BoundStatement, rest: Iterable[BoundStatement], epoch: int) -> None:
        """Runs the statements in one round trip. Raises DMError when the first, of the batch row, matches none."""
        with conn.cursor() as cursor:
            texts = [cursor.mogrify(sql, args).encode("utf-8", "surrogateescape") for sql, args in (update, *rest)]
        try:
            answers = [answer for _, answer in send_ahead(conn, texts, bytes)]
        except Refused as exc:
            raise exc.cause from exc
        if answers[0].matched != 1:
            raise self._protocol.fenced(conn, epoch)

    def ensure_epoch(self, epoch: int, conn: MetaConnection) -> None:
        """Raises DMError when the epoch has changed, and driver errors."""
        self._protocol.ensure_epoch(epoch, conn)


def _if_there(conn: MetaConnection, sql: str, values: tuple[object, ...] = ()) -> tuple[tuple[object, ...], ...] | None:
    """The statement's rows; None where its table was never created."""
    try:
        return tuple(query(conn, sql, values))
    except pymysql.Error as exc:
        if error_number(exc) in (_NO_SUCH_TABLE, _NO_SUCH_SCHEMA):
            return None
        raise
