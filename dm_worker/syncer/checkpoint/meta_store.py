"""The syncer's tables in the target's meta schema, and the transactions on them.

``<task>_syncer_checkpoint`` has DM's layout. The others carry the exactly-once protocol (see :mod:`protocol`): one
batch row per source, one marker row per source and bucket, one row per DDL under way, one per XA transaction that waits
for its XA COMMIT. What is remembered of online changes is stored with the checkpoint (see :mod:`records_table`), and
with merged shards the state of their groups (:mod:`groups_table`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import pymysql
from pymysql.connections import Connection

from dm_worker.meta.epoch import next_epoch
from dm_worker.syncer.checkpoint.ddl_table import LATE_COLUMNS as DDL_COLUMNS
from dm_worker.syncer.checkpoint.ddl_table import DDLRecord, DDLTable
from dm_worker.syncer.checkpoint.lost_ownership import may_not_write
from dm_worker.syncer.checkpoint.open_transactions import end_open_transactions
from dm_worker.syncer.checkpoint.protocol import IDLE, AppliedBuckets, BatchProgress
from dm_worker.syncer.checkpoint.start_location import FULL_MODES
from dm_worker.syncer.online_ddl.ghost_records import GhostRecord
from dm_worker.syncer.online_ddl.records_table import OnlineDDLTable
from dm_worker.syncer.planning.xa import PreparedLocations
from dm_worker.syncer.shard_ddl.groups_snapshot import GroupsSnapshot
from dm_worker.syncer.shard_ddl.groups_table import GroupsChanges, GroupsTable
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql import engines
from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.pipeline import Refused, send_ahead
from pkg.mysql.retry import retrying
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger

log = get_logger("syncer.checkpoint")

T = TypeVar("T")
MetaConnection: TypeAlias = "Connection[Any]"
#: Runs something in a transaction of its own, without trying again.
Transaction: TypeAlias = Callable[[Callable[["MetaConnection"], None]], None]

#: Tells our table structures from DM's in the column ``table_info``.
_FORMAT = "dm-spark/1"
#: In the place of a structure: the name was given up, and what the full copy's files tell of it is past.
_GIVEN_UP = "dm-spark/given-up"
#: A takeover waits so long (seconds) for a row before it looks again who holds it.
_TAKEOVER_LOCK_WAIT = 3
_NO_SUCH_TABLE = 1146
_NO_SUCH_SCHEMA = 1049
_SYNTAX = 1064
_LOCATION = (
    "{0}_name VARCHAR(128) NOT NULL, {0}_pos BIGINT UNSIGNED NOT NULL,"
    " {0}_gtid LONGTEXT NOT NULL, {0}_rows BIGINT UNSIGNED NOT NULL"
)
_CHARSET = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
#: Columns of the batch table that its first version did not have; of the marker table: who wrote the row last.
_CONNECTION = {"connection": "BIGINT UNSIGNED NOT NULL DEFAULT 0"}
_LATE_COLUMNS = {
    **_CONNECTION,
    "keyless": "VARCHAR(64) NOT NULL DEFAULT ''",
    "since": "BIGINT UNSIGNED NOT NULL DEFAULT 0",
    "writes": "BIGINT UNSIGNED NOT NULL DEFAULT 0",
    "start_cut": "VARCHAR(96) NOT NULL DEFAULT ''",
    "end_cut": "VARCHAR(96) NOT NULL DEFAULT ''",
}


@dataclass(slots=True)
class DurableState:
    """What a run finds when it takes over. ``exit_safe``: safe mode holds until there. ``shards``: the state of the
    sharding groups, None when none is stored."""

    epoch: int
    progress: BatchProgress | None
    checkpoint: Location | None
    exit_safe: Location | None = None
    tables: list[TableInfo] = field(default_factory=list)
    #: Names that were dropped or renamed since the full copy; table '' for a whole schema.
    given_up: list[TableId] = field(default_factory=list)
    shards: GroupsSnapshot | None = None
    ghosts: dict[TableId, GhostRecord] = field(default_factory=dict)


#: An SQL template and its values.
_Statement = tuple[str, tuple[Any, ...]]


class MetaStore:
    """Reads and writes the meta tables of one subtask; opens its connection again when it is lost."""

    def __init__(self, cfg: SubTaskConfig, *, should_stop: Callable[[], bool] | None = None) -> None:
        self._cfg = cfg
        self._should_stop = should_stop
        self._conn: MetaConnection | None = None
        self._id = self.source_id = cfg.source_id
        self.checkpoints = self._name("checkpoint")
        self.batches = self._name("batch")
        self.markers = self._name("marker")
        self._ddls = DDLTable(self._name("ddl"), cfg.source_id)
        self.prepared = self._name("xa")
        self._shards = GroupsTable(cfg.meta_schema, cfg.name, cfg.source_id)
        self._ghosts = OnlineDDLTable(qualified(cfg.meta_schema, f"{cfg.name}_onlineddl"), cfg.source_id)
        #: Changes of the records of online changes that go with the next write.
        self._ghost_changes: dict[TableId, GhostRecord | None] = {}
        #: Safe mode holds until there; goes with every write, whoever writes. None out of safe mode.
        self.exit_safe: Location | None = None
        #: The prepared transactions as they are durable; None when that is not known.
        self._waiting: PreparedLocations | None = None
        #: How often this run has written the batch row. The next write must find that number there.
        self._writes = 0

    def _name(self, what: str) -> str:
        return qualified(self._cfg.meta_schema, f"{self._cfg.name}_syncer_{what}")

    # -- life ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Creates schema and tables where they are missing. Raises DMError."""

        def create(conn: MetaConnection) -> None:
            query(conn, f"CREATE DATABASE IF NOT EXISTS {quote(self._cfg.meta_schema)}")
            try:
                query(conn, self._checkpoint_table("JSON"))
            except pymysql.Error as exc:
                if error_number(exc) != _SYNTAX:
                    raise
                query(conn, self._checkpoint_table("LONGTEXT"))  # servers before JSON
            for statement in self._own_tables():
                query(conn, statement)
            if self._cfg.shard_mode:
                query(conn, self._shards.creation())
            self._ghosts.create(conn, _SMALL_KEYS)
            self._add_late_columns(conn)
            self._check_engines(conn)

        self._transaction(create)

    def _check_engines(self, conn: MetaConnection) -> None:
        """Raises 36004 for a table that can't roll back, made by something else or by a server's default."""
        names = ("checkpoint", "batch", "marker", "ddl", "xa", "sharding_meta")
        tables = [(self._cfg.meta_schema, f"{self._cfg.name}_syncer_{name}") for name in names]
        tables.append((self._cfg.meta_schema, f"{self._cfg.name}_onlineddl"))
        for table, engine in engines.tables_without_transactions(conn, tables):
            raise errors.new(
                Code.SyncUnitNotSupportedDML,
                engines.told(table, engine),
                scope="downstream",
                workaround=f"{engines.way_out(table)} Then resume the task.",
            )

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def remove(self) -> None:
        """Deletes this source's rows from all tables; tables that were never made are fine."""

        def delete(conn: MetaConnection) -> None:
            own = (self.checkpoints, self.batches, self.markers, self._ddls.name, self.prepared, self._ghosts.name)
            deletions = [(f"DELETE FROM {table} WHERE id = %s", (self._id,)) for table in own]
            for sql, values in (*deletions, self._shards.deletion()):
                try:
                    query(conn, sql, values)
                except pymysql.Error as exc:
                    if error_number(exc) not in (_NO_SUCH_TABLE, _NO_SUCH_SCHEMA):
                        raise

        self._transaction(delete)

    # -- the protocol -------------------------------------------------------------------------------------------

    def take_over(self, buckets: int) -> DurableState:
        """Raises the epoch in the batch row and all markers, in one transaction, and reads what is durable."""

        def take(conn: MetaConnection) -> DurableState:
            # What a frozen process holds would keep this waiting, again and again.
            patience = int(query(conn, "SELECT @@SESSION.innodb_lock_wait_timeout")[0][0])
            query(conn, f"SET SESSION innodb_lock_wait_timeout = {_TAKEOVER_LOCK_WAIT}")
            end_open_transactions(self._cfg.to, self._id, batches=self.batches, markers=self.markers)
            progress = self._read_progress(conn)
            newest = query(conn, f"SELECT COALESCE(MAX(epoch), 0) FROM {self.markers} WHERE id = %s", (self._id,))
            # Above every epoch there was, also when the rows that knew them are gone (--remove-meta).
            epoch = next_epoch(max(int(newest[0][0]), progress.epoch if progress else 0))
            if progress is None:
                nowhere = Location(Position("", 0))
                self._insert_batch(conn, BatchProgress(0, epoch, IDLE, nowhere, nowhere))
            else:
                raised = "epoch = %s, writes = 0, connection = CONNECTION_ID()"
                query(conn, f"UPDATE {self.batches} SET {raised} WHERE id = %s", (epoch, self._id))
            query(conn, f"UPDATE {self.markers} SET epoch = %s WHERE id = %s", (epoch, self._id))
            needed = max(buckets, progress.buckets if progress else 0)
            with conn.cursor() as cursor:
                cursor.executemany(
                    f"INSERT IGNORE INTO {self.markers} (id, bucket, batch, epoch) VALUES (%s, %s, 0, %s)",
                    [(self._id, bucket, epoch) for bucket in range(needed)],
                )
            checkpoint, exit_safe = self._read_checkpoint(conn)
            tables, given_up = self._read_tables(conn)
            shards, ghosts = self._shards.read(conn), self._ghosts.read(conn)
            query(conn, f"SET SESSION innodb_lock_wait_timeout = {patience}")
            return DurableState(epoch, progress, checkpoint, exit_safe, tables, given_up, shards, ghosts)

        durable = self._transaction(take)
        self._writes = 0
        return durable

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

        ``checkpoint`` differs from where ``progress`` stands while rows that were held back are read again. ``through``
        runs the transaction on another connection than the store's.
        """
        location = checkpoint or (progress.end if progress.state == IDLE else progress.start)
        tables, gone = list(changed), list(dropped)

        def put(conn: MetaConnection) -> None:
            update = self._update_batch(progress, applied)
            rest = [self._write_checkpoint(location)]
            if progress.prepared != self._waiting:
                rest += self._write_prepared(progress.prepared)
            rest += [self._give_up(*name, location) for name in gone]
            rest += [self._write_table(info, location) for info in tables]
            rest += self._ddls.written(ddl) if ddl is not None else []
            rest += self._shards.written(shards) if shards is not None else []
            rest += self._ghosts.changes(self._ghost_changes)
            self._send(conn, update, rest, progress.epoch)

        if through is None:
            self._transaction(put)
        else:
            through(put)
        self._writes += 1
        self._waiting = progress.prepared
        self._ghost_changes = {}

    def remember(self, ghosts: Mapping[TableId, GhostRecord | None]) -> None:
        """Changes of the records of online changes, None for those to remove: the next write makes them durable."""
        self._ghost_changes |= ghosts

    def read_ddl(self, place: Position, index: int) -> DDLRecord | None:
        """What is known of a statement: None when it was never begun."""
        return next(iter(self.read_ddls(place, index)), None)

    def read_ddls(self, place: Position, index: int | None = None) -> list[DDLRecord]:
        """What is known of all parts of a statement, by their numbers; or of one."""
        return self._transaction(lambda conn: self._ddls.read(conn, place, index))

    def read_tables(self) -> list[TableInfo]:
        """The tables' structures as they are durable."""
        return self._transaction(self._read_tables)[0]

    def put_table(self, info: TableInfo) -> None:
        """Stores a structure at the present checkpoint; no run may be under way."""

        def put(conn: MetaConnection) -> None:
            location, _ = self._read_checkpoint(conn)
            query(conn, *self._write_table(info, location or Location(Position("", 0))))

        self._transaction(put)

    def delete_table(self, schema: str, table: str) -> None:
        """Removes a structure; no run may be under way."""
        self._transaction(lambda conn: query(conn, *self._drop_table(schema, table)))

    def peek(self) -> tuple[Location | None, GroupsSnapshot | None]:
        """The checkpoint, None when there is none, and the sharding groups' state, without taking over.

        Creates nothing.
        """

        def read(conn: MetaConnection) -> tuple[Location | None, GroupsSnapshot | None]:
            try:
                return self._read_checkpoint(conn)[0], self._shards.read(conn)
            except pymysql.Error as exc:
                if error_number(exc) in (_NO_SUCH_TABLE, _NO_SUCH_SCHEMA):
                    return None, None
                raise

        return self._transaction(read)

    def forget_shards(self) -> None:
        """Removes the sharding groups' state, which is void while the task does not merge shards."""
        self._transaction(lambda conn: query(conn, *self._shards.deletion()))

    # -- statements ---------------------------------------------------------------------------------------------

    def _checkpoint_table(self, json_type: str) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {self.checkpoints} (id VARCHAR(32) NOT NULL, cp_schema VARCHAR(128) NOT NULL,"
            " cp_table VARCHAR(128) NOT NULL, binlog_name VARCHAR(128), binlog_pos BIGINT UNSIGNED,"
            " binlog_gtid LONGTEXT,"
            " exit_safe_binlog_name VARCHAR(128) DEFAULT '', exit_safe_binlog_pos BIGINT UNSIGNED DEFAULT 0,"
            f" exit_safe_binlog_gtid LONGTEXT, table_info {json_type} NOT NULL, is_global BOOLEAN,"
            " create_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
            " update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
            f" UNIQUE KEY uk_id_schema_table (id, cp_schema, cp_table)){_SMALL_KEYS}"
        )

    def _own_tables(self) -> Iterable[str]:
        now = "update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
        yield (
            f"CREATE TABLE IF NOT EXISTS {self.batches} (id VARCHAR(32) NOT NULL PRIMARY KEY,"
            " batch BIGINT UNSIGNED NOT NULL, epoch BIGINT UNSIGNED NOT NULL, state VARCHAR(8) NOT NULL,"
            f" {_LOCATION.format('start')}, {_LOCATION.format('end')}, buckets INT NOT NULL,"
            " fingerprint VARCHAR(64) NOT NULL, safe BOOLEAN NOT NULL,"
            f" {_columns(_LATE_COLUMNS)}, {now}){_CHARSET}"
        )
        yield (
            f"CREATE TABLE IF NOT EXISTS {self.markers} (id VARCHAR(32) NOT NULL, bucket INT NOT NULL,"
            f" batch BIGINT UNSIGNED NOT NULL, epoch BIGINT UNSIGNED NOT NULL, {_columns(_CONNECTION)},"
            f" PRIMARY KEY (id, bucket)){_CHARSET}"
        )
        yield self._ddls.creation(_SMALL_KEYS)
        yield (
            f"CREATE TABLE IF NOT EXISTS {self.prepared} (id VARCHAR(32) NOT NULL, xid VARBINARY(133) NOT NULL,"
            f" {_LOCATION.format('start')}, PRIMARY KEY (id, xid)){_SMALL_KEYS}"
        )

    def _add_late_columns(self, conn: MetaConnection) -> None:
        """What a table of an earlier version lacks. An unfinished batch of it counts as one of another plan."""
        late = {self.batches: _LATE_COLUMNS, self.markers: _CONNECTION, self._ddls.name: DDL_COLUMNS}
        for table, columns in late.items():
            there = {str(row[0]).lower() for row in query(conn, f"SHOW COLUMNS FROM {table}")}
            for name, kind in columns.items():
                if name not in there:
                    query(conn, f"ALTER TABLE {table} ADD COLUMN {name} {kind}")

    def _read_progress(self, conn: MetaConnection) -> BatchProgress | None:
        rows = query(
            conn,
            "SELECT batch, epoch, state, start_name, start_pos, start_gtid, start_rows, start_cut, end_name, end_pos,"
            f" end_gtid, end_rows, end_cut, buckets, fingerprint, safe, keyless, since FROM {self.batches}"
            " WHERE id = %s FOR UPDATE",
            (self._id,),
        )
        if not rows:
            return None
        number, epoch, state, *places, buckets, fingerprint, safe, keyless, keyless_since = rows[0]
        start, end = _location(*places[:5]), _location(*places[5:])
        return BatchProgress(
            int(number), int(epoch), str(state), start, end, int(buckets), str(fingerprint), bool(safe),
            self._read_prepared(conn), str(keyless), int(keyless_since) or int(number),
        )  # fmt: skip

    def _read_prepared(self, conn: MetaConnection) -> PreparedLocations:
        sql = f"SELECT HEX(xid), start_name, start_pos, start_gtid FROM {self.prepared} WHERE id = %s"
        return {bytes.fromhex(str(xid)): _location(*place) for xid, *place in query(conn, sql, (self._id,))}

    def _write_prepared(self, waiting: PreparedLocations) -> list[_Statement]:
        written: list[_Statement] = [(f"DELETE FROM {self.prepared} WHERE id = %s", (self._id,))]
        sql = f"INSERT INTO {self.prepared} VALUES (%s, UNHEX(%s), %s, %s, %s, 0)"
        for xid, start in waiting.items():
            written.append((sql, (self._id, xid.hex(), start.position.name, start.position.pos, start.gtid_set)))
        return written

    def _insert_batch(self, conn: MetaConnection, progress: BatchProgress) -> None:
        values = _batch_values(progress)
        names = ", ".join(values)
        marks = ", ".join(["%s"] * len(values))
        query(
            conn,
            f"INSERT INTO {self.batches} (id, epoch, {names}) VALUES (%s, %s, {marks})",
            (self._id, progress.epoch, *values.values()),
        )

    def _update_batch(self, progress: BatchProgress, applied: AppliedBuckets | None) -> _Statement:
        writes = self._writes + 1
        values = _batch_values(progress) | {"writes": writes}
        assignments = ", ".join([*(f"{name} = %s" for name in values), "connection = CONNECTION_ID()"])
        # When the answer to a COMMIT was lost, the write may be there already.
        sql = f"UPDATE {self.batches} SET {assignments} WHERE id = %s AND epoch = %s AND writes IN (%s, %s)"
        args = (*values.values(), self._id, progress.epoch, writes - 1, writes)
        if applied is None:
            return sql, args
        sql += f" AND (SELECT COUNT(*) FROM {self.markers} WHERE id = %s AND batch = %s) = %s"
        return sql, (*args, self._id, applied.number, applied.buckets)

    def _send(self, conn: MetaConnection, update: _Statement, rest: Iterable[_Statement], epoch: int) -> None:
        """Runs the statements in one round trip. Raises DMError when the first, of the batch row, matches none."""
        with conn.cursor() as cursor:
            texts = [cursor.mogrify(sql, args).encode("utf-8", "surrogateescape") for sql, args in (update, *rest)]
        try:
            answers = [answer for _, answer in send_ahead(conn, texts, bytes)]
        except Refused as exc:
            raise exc.cause from exc
        if answers[0].matched != 1:
            raise self._fenced(conn, epoch)

    def ensure_epoch(self, epoch: int, conn: MetaConnection) -> None:
        """Raises DMError when the epoch has moved; and what the driver raises."""
        if query(conn, f"SELECT epoch FROM {self.batches} WHERE id = %s", (self._id,)) != [(epoch,)]:
            raise self._fenced(conn, epoch)

    def _fenced(self, conn: MetaConnection, epoch: int) -> DMError:
        found = query(conn, f"SELECT epoch FROM {self.batches} WHERE id = %s", (self._id,))
        return may_not_write(self.batches, self._id, epoch, int(found[0][0]) if found else None)

    def _read_checkpoint(self, conn: MetaConnection) -> tuple[Location | None, Location | None]:
        rows = query(
            conn,
            "SELECT binlog_name, binlog_pos, binlog_gtid, exit_safe_binlog_name, exit_safe_binlog_pos,"
            f" exit_safe_binlog_gtid FROM {self.checkpoints} WHERE id = %s AND is_global = 1",
            (self._id,),
        )
        if not rows:
            return None, None
        name, pos, gtid, exit_name, exit_pos, exit_gtid = rows[0]
        exit_safe = _location(exit_name, exit_pos, exit_gtid) if exit_name or exit_gtid else None
        return _location(name, pos, gtid), exit_safe

    def _write_checkpoint(self, location: Location) -> _Statement:
        leave = self.exit_safe or Location(Position("", 0))
        return self._upsert("", "", location, leave, "null", is_global=True)

    def _read_tables(self, conn: MetaConnection) -> tuple[list[TableInfo], list[TableId]]:
        """The structures, and the names that were given up."""
        sql = f"SELECT cp_schema, cp_table, table_info FROM {self.checkpoints} WHERE id = %s AND is_global = 0"
        found: list[TableInfo] = []
        given_up: list[TableId] = []
        for schema, table, text in query(conn, sql, (self._id,)):
            data = json.loads(text)
            # DM's own structures have another form; the table's other sources serve then.
            form = data.get("format") if isinstance(data, dict) else None
            if form == _FORMAT:
                found.append(TableInfo.from_data(data["table"]))
            elif form == _GIVEN_UP:
                given_up.append((str(schema), str(table)))
        return found, given_up

    def _write_table(self, info: TableInfo, location: Location) -> _Statement:
        text = f'{{"format":"{_FORMAT}","table":{info.to_json()}}}'
        return self._upsert(info.schema, info.name, location, Location(Position("", 0)), text, is_global=False)

    def _give_up(self, schema: str, table: str, location: Location) -> _Statement:
        if self._cfg.task_mode not in FULL_MODES:
            return self._drop_table(schema, table)
        # Another worker may have the full copy's files: the row stays, whether this one has them or not.
        text = f'{{"format":"{_GIVEN_UP}"}}'
        return self._upsert(schema, table, location, Location(Position("", 0)), text, is_global=False)

    def _drop_table(self, schema: str, table: str) -> _Statement:
        sql = f"DELETE FROM {self.checkpoints} WHERE id = %s AND cp_schema = %s AND cp_table = %s AND is_global = 0"
        return sql, (self._id, schema, table)

    def _upsert(
        self, schema: str, table: str, place: Location, leave: Location, text: str, *, is_global: bool
    ) -> _Statement:
        values = (place.position.name, place.position.pos, place.gtid_set)
        safe = (leave.position.name, leave.position.pos, leave.gtid_set)
        sql = (
            f"INSERT INTO {self.checkpoints} (id, cp_schema, cp_table, binlog_name, binlog_pos, binlog_gtid,"
            " exit_safe_binlog_name, exit_safe_binlog_pos, exit_safe_binlog_gtid, table_info, is_global)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE"
            " binlog_name = VALUES(binlog_name), binlog_pos = VALUES(binlog_pos), binlog_gtid = VALUES(binlog_gtid),"
            " exit_safe_binlog_name = VALUES(exit_safe_binlog_name),"
            " exit_safe_binlog_pos = VALUES(exit_safe_binlog_pos),"
            " exit_safe_binlog_gtid = VALUES(exit_safe_binlog_gtid), table_info = VALUES(table_info),"
            " is_global = VALUES(is_global)"
        )
        return sql, (self._id, schema, table, *values, *safe, text, int(is_global))

    # -- connection ---------------------------------------------------------------------------------------------

    def _transaction(self, work: Callable[[MetaConnection], T]) -> T:
        """Runs ``work`` in a transaction of its own; again on a new connection while that may help."""

        def attempt() -> T:
            if self._conn is None:
                self._conn = connect(self._cfg.to, scope="downstream", autocommit=False, session={"sql_mode": ""})
            try:
                result = work(self._conn)
                self._conn.commit()
                return result
            except (pymysql.Error, OSError) as exc:
                self.close()
                raise classify(exc, scope="downstream", table=self.checkpoints) from exc
            except DMError:
                self.close()
                raise

        def note(exc: DMError, attempt: int) -> None:
            log.warning("the checkpoint's transaction is tried again", attempt=attempt, error=str(exc))

        return retrying(attempt, should_stop=self._should_stop, on_retry=note)


#: Keys over names of 128 characters: utf8mb4 would exceed the 767 bytes of old row formats.
_SMALL_KEYS = " ENGINE=InnoDB DEFAULT CHARSET=utf8 COLLATE=utf8_bin"


def _columns(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def _location(name: Any, pos: Any, gtid: Any, rows: Any = 0, cut: Any = "") -> Location:
    # DM's name of a relay file is understood; what is written is always the upstream's own.
    return Location(Position(str(name or ""), int(pos or 0)).of_upstream(), str(gtid or ""), int(rows), str(cut))


def _batch_values(progress: BatchProgress) -> dict[str, Any]:
    values: dict[str, Any] = {"batch": progress.number, "state": progress.state}
    for name, place in (("start", progress.start), ("end", progress.end)):
        values |= {
            f"{name}_name": place.position.name,
            f"{name}_pos": place.position.pos,
            f"{name}_gtid": place.gtid_set,
            f"{name}_rows": place.rows_events,
            f"{name}_cut": place.cut,
        }
    values |= {"buckets": progress.buckets, "fingerprint": progress.fingerprint, "safe": int(progress.safe)}
    return values | {"keyless": progress.keyless, "since": progress.keyless_since}
