"""The tables of the exactly-once protocol (see :mod:`protocol`).

They have one batch row per source, one marker row per source and bucket, and one row per prepared XA transaction that
waits for its XA COMMIT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dm_worker.meta.epoch import next_epoch
from dm_worker.syncer.checkpoint.lost_ownership import may_not_write
from dm_worker.syncer.checkpoint.meta_connection import (
    ANY_TEXT,
    SMALL_KEYS,
    MetaConnection,
    column_list,
    stored_location,
)
from dm_worker.syncer.checkpoint.protocol import IDLE, AppliedBuckets, BatchProgress
from dm_worker.syncer.planning.xa import PreparedLocations
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from pkg.mysql.introspect import BoundStatement, query

_LOCATION = (
    "{0}_name VARCHAR(128) NOT NULL, {0}_pos BIGINT UNSIGNED NOT NULL,"
    " {0}_gtid LONGTEXT NOT NULL, {0}_rows BIGINT UNSIGNED NOT NULL"
)
#: Columns that the first versions of both tables lacked (the row's last writer), and that of the batch table lacked.
_CONNECTION = {"connection": "BIGINT UNSIGNED NOT NULL DEFAULT 0"}
_LATE_COLUMNS = {
    **_CONNECTION,
    "keyless": "VARCHAR(64) NOT NULL DEFAULT ''",
    "since": "BIGINT UNSIGNED NOT NULL DEFAULT 0",
    "writes": "BIGINT UNSIGNED NOT NULL DEFAULT 0",
    "start_cut": "VARCHAR(96) NOT NULL DEFAULT ''",
    "end_cut": "VARCHAR(96) NOT NULL DEFAULT ''",
    "start_file": "VARCHAR(160) NOT NULL DEFAULT ''",
    "end_file": "VARCHAR(160) NOT NULL DEFAULT ''",
    "safe_request": "BIGINT UNSIGNED NOT NULL DEFAULT 0",
}


class ProtocolTables:
    """The tables of one task, and their rows of one source. Remembers what this run has written there."""

    def __init__(self, batches: str, markers: str, prepared: str, source: str) -> None:
        self.batches = batches
        self.markers = markers
        self.prepared = prepared
        self._source = source
        #: The durable prepared transactions; None when unknown.
        self._waiting: PreparedLocations | None = None
        #: How often this run has written the batch row. The next write must read that number there.
        self._writes = 0

    def creations(self) -> Iterable[str]:
        """The statements that create the tables where they are missing."""
        now = "update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
        yield (
            f"CREATE TABLE IF NOT EXISTS {self.batches} (id VARCHAR(32) NOT NULL PRIMARY KEY,"
            " batch BIGINT UNSIGNED NOT NULL, epoch BIGINT UNSIGNED NOT NULL, state VARCHAR(8) NOT NULL,"
            f" {_LOCATION.format('start')}, {_LOCATION.format('end')}, buckets INT NOT NULL,"
            " fingerprint VARCHAR(64) NOT NULL, safe BOOLEAN NOT NULL,"
            f" {column_list(_LATE_COLUMNS)}, {now}){ANY_TEXT}"
        )
        yield (
            f"CREATE TABLE IF NOT EXISTS {self.markers} (id VARCHAR(32) NOT NULL, bucket INT NOT NULL,"
            f" batch BIGINT UNSIGNED NOT NULL, epoch BIGINT UNSIGNED NOT NULL, {column_list(_CONNECTION)},"
            f" PRIMARY KEY (id, bucket)){ANY_TEXT}"
        )
        yield (
            f"CREATE TABLE IF NOT EXISTS {self.prepared} (id VARCHAR(32) NOT NULL, xid VARBINARY(133) NOT NULL,"
            f" {_LOCATION.format('start')}, PRIMARY KEY (id, xid)){SMALL_KEYS}"
        )

    @property
    def late_columns(self) -> Mapping[str, Mapping[str, str]]:
        """By table, the columns that its first version lacked."""
        return {self.batches: _LATE_COLUMNS, self.markers: _CONNECTION}

    def take_over(self, conn: MetaConnection, buckets: int) -> tuple[int, BatchProgress | None]:
        """Raises the epoch in the batch row and all markers; returns it, and the batch row from before."""
        progress = self._read_progress(conn)
        newest = query(conn, f"SELECT COALESCE(MAX(epoch), 0) FROM {self.markers} WHERE id = %s", (self._source,))
        # Above every earlier epoch, also when the rows that recorded them are gone (--remove-meta).
        epoch = next_epoch(max(int(newest[0][0]), progress.epoch if progress else 0))
        if progress is None:
            nowhere = Location(Position("", 0))
            self._insert_batch(conn, BatchProgress(0, epoch, IDLE, nowhere, nowhere))
        else:
            raised = "epoch = %s, writes = 0, connection = CONNECTION_ID()"
            query(conn, f"UPDATE {self.batches} SET {raised} WHERE id = %s", (epoch, self._source))
        query(conn, f"UPDATE {self.markers} SET epoch = %s WHERE id = %s", (epoch, self._source))
        needed = max(buckets, progress.buckets if progress else 0)
        with conn.cursor() as cursor:
            cursor.executemany(
                f"INSERT IGNORE INTO {self.markers} (id, bucket, batch, epoch) VALUES (%s, %s, 0, %s)",
                [(self._source, bucket, epoch) for bucket in range(needed)],
            )
        return epoch, progress

    def taken_over(self) -> None:
        """The takeover is committed: writes of earlier runs do not count."""
        self._writes = 0

    def _read_progress(self, conn: MetaConnection) -> BatchProgress | None:
        rows = query(
            conn,
            "SELECT batch, epoch, state, start_name, start_pos, start_gtid, start_rows, start_cut, start_file,"
            " end_name, end_pos, end_gtid, end_rows, end_cut, end_file, buckets, fingerprint, safe, keyless, since,"
            " safe_request"
            f" FROM {self.batches} WHERE id = %s FOR UPDATE",
            (self._source,),
        )
        if not rows:
            return None
        number, epoch, state, *locations, buckets, fingerprint, safe, keyless, keyless_since, met = rows[0]
        start, end = stored_location(*locations[:6]), stored_location(*locations[6:])
        return BatchProgress(
            int(number), int(epoch), str(state), start, end, int(buckets), str(fingerprint), bool(safe),
            self._read_prepared(conn), str(keyless), int(keyless_since) or int(number), int(met),
        )  # fmt: skip

    def _read_prepared(self, conn: MetaConnection) -> PreparedLocations:
        sql = f"SELECT HEX(xid), start_name, start_pos, start_gtid FROM {self.prepared} WHERE id = %s"
        return {
            bytes.fromhex(str(xid)): stored_location(*location) for xid, *location in query(conn, sql, (self._source,))
        }

    def _insert_batch(self, conn: MetaConnection, progress: BatchProgress) -> None:
        values = _batch_values(progress)
        names = ", ".join(values)
        marks = ", ".join(["%s"] * len(values))
        query(
            conn,
            f"INSERT INTO {self.batches} (id, epoch, {names}) VALUES (%s, %s, {marks})",
            (self._source, progress.epoch, *values.values()),
        )

    def updated(self, progress: BatchProgress, applied: AppliedBuckets | None) -> BoundStatement:
        """The statement that writes the batch row. It matches no row when this run may not write any more."""
        writes = self._writes + 1
        values = _batch_values(progress) | {"writes": writes}
        assignments = ", ".join([*(f"{name} = %s" for name in values), "connection = CONNECTION_ID()"])
        # After a lost answer to a COMMIT, the write may be there already.
        sql = f"UPDATE {self.batches} SET {assignments} WHERE id = %s AND epoch = %s AND writes IN (%s, %s)"
        args = (*values.values(), self._source, progress.epoch, writes - 1, writes)
        if applied is None:
            return sql, args
        sql += f" AND (SELECT COUNT(*) FROM {self.markers} WHERE id = %s AND batch = %s) = %s"
        return sql, (*args, self._source, applied.number, applied.buckets)

    def has_bucket_of(self, conn: MetaConnection, number: int) -> bool:
        """Whether a marker has this batch or a later one."""
        sql = f"SELECT 1 FROM {self.markers} WHERE id = %s AND batch >= %s LIMIT 1"
        return bool(query(conn, sql, (self._source, number)))

    def changed_prepared(self, waiting: PreparedLocations) -> list[BoundStatement]:
        """The statements that store the prepared transactions; none when they are stored already."""
        if waiting == self._waiting:
            return []
        written: list[BoundStatement] = [(f"DELETE FROM {self.prepared} WHERE id = %s", (self._source,))]
        sql = f"INSERT INTO {self.prepared} VALUES (%s, UNHEX(%s), %s, %s, %s, 0)"
        for xid, start in waiting.items():
            written.append((sql, (self._source, xid.hex(), start.position.name, start.position.pos, start.gtid_set)))
        return written

    def written(self, progress: BatchProgress) -> None:
        """The batch row is committed, with the prepared transactions."""
        self._writes += 1
        self._waiting = progress.prepared

    def ensure_epoch(self, epoch: int, conn: MetaConnection) -> None:
        """Raises DMError when the epoch has changed, and driver errors."""
        if query(conn, f"SELECT epoch FROM {self.batches} WHERE id = %s", (self._source,)) != [(epoch,)]:
            raise self.fenced(conn, epoch)

    def fenced(self, conn: MetaConnection, epoch: int) -> DMError:
        """The error of a run under ``epoch`` whose write of the batch row matched no row."""
        found = query(conn, f"SELECT epoch FROM {self.batches} WHERE id = %s", (self._source,))
        return may_not_write(self.batches, self._source, epoch, int(found[0][0]) if found else None)


def _batch_values(progress: BatchProgress) -> dict[str, Any]:
    values: dict[str, Any] = {"batch": progress.number, "state": progress.state}
    for name, location in (("start", progress.start), ("end", progress.end)):
        values |= {
            f"{name}_name": location.position.name,
            f"{name}_pos": location.position.pos,
            f"{name}_gtid": location.gtid_set,
            f"{name}_rows": location.rows_events,
            f"{name}_cut": location.cut,
            f"{name}_file": location.file.stored() if location.file is not None else "",
        }
    values |= {"buckets": progress.buckets, "fingerprint": progress.fingerprint, "safe": int(progress.safe)}
    values |= {"keyless": progress.keyless, "since": progress.keyless_since}
    return values | {"safe_request": progress.safe_request}
