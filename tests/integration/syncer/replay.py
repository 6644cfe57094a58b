"""The syncer's data path without Spark and protocol: binlog of a real server → buckets → parallel writers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import ModuleType
from typing import Any

import pymysql

from deploy.local.mysql import SQLServer
from dm_worker.syncer.execution import keyless_writer, row_block, row_statements
from dm_worker.syncer.execution.keyless import KeylessRows
from dm_worker.syncer.execution.merge import BucketContent, merge_blocks
from dm_worker.syncer.execution.partition import partition_slice
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.execution.target_connections import open_writer
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchLimits
from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.table_resolution import feed_events
from dm_worker.syncer.rows.conflict_sets import ConflictPairs, checked_keys, find_conflict_sets
from dm_worker.syncer.rows.key_normalization import TargetCharsets
from dm_worker.syncer.rows.plan_builder import PlanOptions
from dm_worker.syncer.rows.row_shape import NO_RULES
from dm_worker.syncer.rows.table_registry import TableRegistry
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.binlog.rows.row_decoder import KERNEL
from pkg.binlog.table_map import TableMap
from pkg.mysql.collation_weights import CollationWeights, fetch_characters, fetch_collation_weights
from pkg.mysql.connection import error_number
from pkg.mysql.foreign_key_introspect import fetch_foreign_keys
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.schema import TableInfo
from pkg.mysql.target_values import fetch_target_values
from tests.integration.binlog_replay import events_between, here

#: TiDB finds at the COMMIT that another transaction was first (9007).
_AGAIN = (1205, 1213, 9007)
#: Bytes of a statement.
_MOST = 1 << 24
#: The collation weights of this test run's servers.
_FOLDINGS: dict[tuple[int, str], CollationWeights | None] = {}


class Pieces(BatchLimits):
    """Slices of ``slice_bytes``, however small the batch is."""

    __slots__ = ()

    def piece(self, batch: int) -> int:
        return self.slice_bytes


class Structures:
    """In place of a schema source: the upstream's tables don't change here."""

    def __init__(self, upstream: SQLServer) -> None:
        self._conn = upstream.connect()

    def structure(self, table_map: TableMap) -> TableInfo:
        info = fetch_table_info(self._conn, table_map.schema, table_map.table)
        assert info is not None
        return info


class Replay:
    """Brings a target to where its upstream is, batch by batch. ``buckets`` writers work at the same time.

    ``foreign_keys``: the task's foreign_key_checks, None for a task that says nothing. ``safe``: in safe mode.
    """

    def __init__(
        self,
        upstream: SQLServer,
        target: SQLServer,
        *,
        seed: int = 0,
        buckets: int = 8,
        foreign_keys: bool | None = False,
        safe: bool = False,
        compact: bool = True,
        slice_bytes: int = 500,
        kernel: ModuleType | None = KERNEL,
        rules: TaskRules | None = None,
        merges: bool = False,
    ) -> None:
        self._upstream = upstream
        self._target = target
        self._chance = random.Random(seed)
        self._buckets = buckets
        self._slice_bytes = slice_bytes
        self._kernel = kernel
        self._session = {} if foreign_keys is None else {"foreign_key_checks": str(int(foreign_keys))}
        self._form = StatementForm(safe=safe, checks=bool(foreign_keys))
        conn = target.connect()

        def collation_weights(charset: str, collation: str) -> CollationWeights | None:
            if (target.port, collation) not in _FOLDINGS:
                _FOLDINGS[target.port, collation] = fetch_collation_weights(conn, charset, collation)
            return _FOLDINGS[target.port, collation]

        self._registry = TableRegistry(
            allows=rules.takes_rows if rules else lambda *_: True,
            route=rules.route if rules else lambda schema, table: (schema, table),
            rules=rules.of_table if rules else lambda _: NO_RULES,
            source=Structures(upstream),  # type: ignore[arg-type]
            target=lambda schema, table: fetch_table_info(conn, schema, table),
            options=PlanOptions(
                compact,
                TargetCharsets(collation_weights, lambda charset: fetch_characters(conn, charset)),
                fetch_target_values(conn),
            ),
            foreign_keys=lambda: checked_keys(foreign_keys, lambda: fetch_foreign_keys(conn)),
        )
        self._start = here(upstream)
        self._merges = merges
        #: Rows without a key that were written as multisets; only with ``merges``.
        self.exchanged = 0
        #: Buckets with another order than the binlog's, and those where it was refused.
        self.reordered, self.refused = 0, 0
        #: Bucket → row changes, of all batches.
        self.spread: dict[int, int] = {}

    def catch_up(self) -> list[Batch]:
        """Applies all that the upstream wrote since the last call; returns the batches."""
        end = here(self._upstream)
        planner = Planner(self._start, limits=Pieces(slice_bytes=self._slice_bytes))
        events = events_between(self._upstream, self._start, end.position)
        assert feed_events(planner, events, self._registry.resolve) == len(events)
        planner.close()
        self._start = end
        batches = [item for item in planner.out if isinstance(item, Batch)]
        for batch in batches:
            self._apply(batch)
        return batches

    def _apply(self, batch: Batch) -> None:
        form = self._form
        rules = {number: row_statements.write_rule_of(plan, form) for number, plan in batch.plans.items()}
        work = [
            merge_blocks(parts, rules, safe=form.safe, kernel=self._kernel)
            for parts in placed(batch, self._buckets, self._kernel, safe=form.safe).values()
        ]
        self._chance.shuffle(work)
        with ThreadPoolExecutor(self._buckets) as pool:
            for _ in pool.map(lambda content: self._write(batch, content), work):
                pass

    def _write(self, batch: Batch, content: BucketContent) -> None:
        found = self._statements(batch, content, reorder=False)
        tried = self._statements(batch, content, reorder=True)
        conn = open_writer(self._target.db_config, self._session).conn
        try:
            if tried != found and self._tries(conn, tried):
                return
            while not self._transaction(conn, found):
                conn.rollback()
        finally:
            conn.close()

    def _statements(
        self, batch: Batch, content: BucketContent, *, reorder: bool
    ) -> list[row_statements.RowStatement | KeylessRows]:
        may_merge = _always if self._merges else _never
        made = row_statements.for_content(batch.plans, content, self._form, _never, may_merge, _MOST, reorder=reorder)
        return [sql for sql in made if isinstance(sql, row_statements.RowStatement | KeylessRows)]

    def _tries(self, conn: Any, tried: Sequence[row_statements.RowStatement | KeylessRows]) -> bool:
        """Whether the target accepts another order."""
        self.reordered += 1
        try:
            while not self._transaction(conn, tried):
                conn.rollback()
        except AssertionError:
            conn.rollback()
            self.refused += 1
            return False
        return True

    def _transaction(self, conn: Any, found: Sequence[row_statements.RowStatement | KeylessRows]) -> bool:
        try:
            with conn.cursor() as cursor:
                for sql in found:
                    if isinstance(sql, KeylessRows):
                        keyless_writer.write(conn, sql, self._form, _MOST)
                        self.exchanged += len(sql.rows)
                        continue
                    cursor.execute(sql.text)
                    assert sql.expect is None or cursor.rowcount == sql.expect, sql
            conn.commit()
        except pymysql.Error as exc:
            if error_number(exc) not in _AGAIN:
                raise AssertionError(f"{exc}\n{ascii(sql)[:3000]}\n" + "\n".join(map(ascii, found))) from exc
            return False
        return True


def placed(
    batch: Batch, buckets: int, kernel: ModuleType | None = KERNEL, *, safe: bool = False
) -> dict[int, list[tuple[int, bytes]]]:
    """Bucket → (slice order, block)."""
    may_conflict, blocks = [], []
    for part in batch.slices:
        pairs = ConflictPairs()
        made = partition_slice(part, batch.plans, buckets, safe=safe, pairs=pairs, kernel=kernel)
        blocks += [(bucket, part.order, data) for bucket, data in made]
        may_conflict.append(pairs.packed())
    moved = find_conflict_sets(may_conflict)
    found: dict[int, list[tuple[int, bytes]]] = {}
    for home, order, data in blocks:
        for bucket, reassigned in row_block.reassign(data, home, moved, buckets) if moved else [(home, data)]:
            found.setdefault(bucket, []).append((order, reassigned))
    return found


def attempt(conn: Any, *sql: str) -> None:
    """Runs statements that the server may refuse."""
    with suppress(pymysql.Error), conn.cursor() as cursor:
        for statement in sql:
            cursor.execute(statement)


def _never(*_: object) -> bool:
    return False


def _always(*_: object) -> bool:
    return True
