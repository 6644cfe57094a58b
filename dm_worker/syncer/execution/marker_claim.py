"""A bucket's marker: its claim accepts the bucket's transaction once; a failed claim shows why not."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.syncer.checkpoint.lost_ownership import fell_back, fenced
from dm_worker.syncer.checkpoint.protocol import Marker, MarkerVerdict, judge_marker
from dm_worker.syncer.execution.row_statements import RowStatement
from dm_worker.syncer.execution.target_connections import TargetSpec
from dm_worker.syncer.planning.batch import WriteToken
from pkg import errors
from pkg.errors import Code
from pkg.mysql.connection import classify
from pkg.mysql.introspect import query

#: The plan number of the marker's statement.
MARKER = -1


class MarkerClaim:
    """The marker of one bucket, for the batch of ``token``."""

    def __init__(self, conn: Connection[Any], spec: TargetSpec, token: WriteToken, bucket: int) -> None:
        self._conn = conn
        self._spec = spec
        self._token = token
        self._bucket = bucket

    def statement(self) -> RowStatement:
        """Claims the bucket for the batch. Matches no row when the bucket's rows are already applied, when fenced, or
        where the batch's intent is missing: the target is in an older state."""
        token = self._token
        intent = (token.source_id, token.epoch, token.number)
        with self._conn.cursor() as cursor:
            text = cursor.mogrify(
                f"UPDATE {self._spec.markers} SET batch = %s, connection = CONNECTION_ID()"
                " WHERE id = %s AND bucket = %s AND epoch = %s"
                f" AND batch < %s AND EXISTS ({self._intent()})",
                (token.number, token.source_id, self._bucket, token.epoch, token.number, *intent),
            )
        return RowStatement(text.encode(), MARKER, expect=1)

    def _intent(self) -> str:
        return f"SELECT 1 FROM {self._spec.batches} WHERE id = %s AND epoch = %s AND batch = %s"

    def holds_once(self) -> bool:
        """Whether an earlier attempt, under another plan, wrote the bucket's rows of ``only_once`` tables. Locks the
        marker."""
        sql = f"SELECT batch FROM {self._spec.markers} WHERE id = %s AND bucket = %s AND batch >= %s FOR UPDATE"
        try:
            found = query(self._conn, sql, (self._token.source_id, self._bucket, self._token.keyless_since))
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", table=self._spec.markers) from exc
        return bool(found)

    def ensure_applied(self, *reset: RowStatement) -> None:
        """The claim matched no marker: returns if the bucket's rows are already applied. Otherwise this writer may not
        write any more: raises DMError. Rolls back, and runs ``reset`` for the next user of the connection."""
        token, markers = self._token, self._spec.markers
        try:
            rows = query(
                self._conn,
                f"SELECT batch, epoch FROM {markers} WHERE id = %s AND bucket = %s",
                (token.source_id, self._bucket),
            )
            intent = query(self._conn, self._intent(), (token.source_id, token.epoch, token.number))
            self._conn.rollback()
            for statement in reset:
                query(self._conn, statement.text.decode())
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", table=markers) from exc
        marker = Marker(int(rows[0][0]), int(rows[0][1])) if rows else None
        verdict = judge_marker(marker, token.number, token.epoch)
        if verdict is MarkerVerdict.APPLIED:
            return
        if marker is None or marker.epoch < token.epoch or (verdict is MarkerVerdict.APPLY and not intent):
            raise fell_back(markers if marker is None else self._spec.batches, token.source_id)
        if verdict is MarkerVerdict.APPLY:
            # Another attempt at this bucket rolled back between the two statements.
            raise errors.new(
                Code.DBExecuteFailed, f"the marker of bucket {self._bucket} changed meanwhile", retryable=True
            )
        raise fenced(markers, token, marker)
