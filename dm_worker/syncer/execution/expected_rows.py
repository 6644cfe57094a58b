"""Executor side: the rows of one bucket as they must be at the target, to compare as a whole or one by one.

The driver runs the statements: a snapshot of the target belongs to one connection, and the driver opens it between two
batches.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dm_worker.syncer.execution import row_look
from dm_worker.syncer.execution.apply import BucketResult
from dm_worker.syncer.execution.bucket_action import BucketAction
from dm_worker.syncer.execution.merge import (
    AS_DELETE,
    AS_UPSERT,
    DELETE_KEYS,
    UPSERT_ROWS,
    BucketContent,
    RowGroup,
    WriteRule,
)
from dm_worker.syncer.execution.row_chunks import RowChunk, chunks_of, may_chunk
from dm_worker.syncer.execution.row_look import ExpectedRow
from dm_worker.syncer.execution.spill import Spilled, SpillStore, fetch_result
from dm_worker.syncer.rows.table_plan import TablePlan

#: Bytes of a statement that compares several rows.
STATEMENT_BYTES = 1 << 20
#: How many times as many rows are compared as a whole, and their bytes.
CHUNK_ROWS, CHUNK_BYTES = 10, 1 << 19
#: All rows of a bucket in one group.
_ALL = 1 << 30


@dataclass(frozen=True, slots=True)
class SingleRows:
    """``queries`` compare the ``rows`` and return the numbers of those that are as expected: (plan, numbers, text)."""

    rows: Sequence[ExpectedRow] = ()
    queries: Sequence[tuple[int, list[int], bytes]] = ()


@dataclass(slots=True)
class ExpectedRows(BucketResult):
    """Rows in chunks, which are compared as a whole, and the others. All are spilled: Spark would copy their bytes
    several times, and the driver has only one chunk in memory at a time."""

    chunks: Sequence[Spilled] = ()
    singles: Spilled = b""

    @classmethod
    def of(
        cls, bucket: int, changes: int, chunks: Iterable[RowChunk], singles: SingleRows, store: SpillStore
    ) -> ExpectedRows:
        """Raises DMError for a full disk."""
        kept = store.keep([pickle.dumps(one, pickle.HIGHEST_PROTOCOL) for one in (singles, *chunks)])
        return cls(bucket, changes, singles=kept[0], chunks=kept[1:])

    def row_chunks(self) -> Iterator[RowChunk]:
        """Raises DMError."""
        for one in self.chunks:
            chunk: RowChunk = pickle.loads(fetch_result(one))
            yield chunk

    def single_rows(self) -> SingleRows:
        """Raises DMError."""
        found: SingleRows = pickle.loads(fetch_result(self.singles))
        return found


@dataclass(frozen=True, slots=True)
class ExpectRows(BucketAction):
    """Collects the rows in ``store``; writes nothing else. ``full``: for the values too, otherwise only that the rows
    are there. ``most_rows``: in one statement that compares them one by one."""

    full: bool
    most_rows: int
    store: SpillStore

    @property
    def safe(self) -> bool:
        """Only how rows are at the end of the range counts."""
        return True

    @property
    def returns_rows(self) -> bool:
        return not self.store.folder

    def rule_of(self, plan: TablePlan) -> WriteRule:
        chunked = self._is_chunked(plan)
        there = AS_UPSERT | AS_DELETE if chunked else AS_UPSERT
        kinds = (there, there, AS_DELETE, there, AS_DELETE)
        wrap = chunked and len(plan.key) > 1
        return WriteRule(2 * bytes(kinds), wrap, (_ALL, _ALL, _ALL), (_ALL, _ALL, _ALL), plan.source_number)

    def run(self, bucket: int, content: BucketContent, plans: Mapping[int, TablePlan]) -> ExpectedRows:
        chunked = {number for number, plan in plans.items() if self._is_chunked(plan)}
        others = [group for group in content.groups if group.plan not in chunked]
        rows = row_look.by_plan(row_look.expected_rows(BucketContent(others, content.ordered), plans))
        select = partial(row_look.RowSelects(plans).there, full=self.full)
        queries = list(row_look.joined(enumerate(rows), select, self.most_rows, STATEMENT_BYTES))
        chunks = (chunk for number in sorted(chunked) for chunk in self._chunks(plans[number], content.groups))
        return ExpectedRows.of(bucket, content.changes, chunks, SingleRows(rows, queries), self.store)

    def _is_chunked(self, plan: TablePlan) -> bool:
        return not row_look.problem_of(plan) and may_chunk(plan, full=self.full)

    def _chunks(self, plan: TablePlan, groups: Sequence[RowGroup]) -> Iterator[RowChunk]:
        keys, rows = (
            [row for group in groups if group.plan == plan.number and group.kind == kind for row in group.rows()]
            for kind in (DELETE_KEYS, UPSERT_ROWS)
        )
        return chunks_of(plan, keys, rows, self.most_rows * CHUNK_ROWS, CHUNK_BYTES, full=self.full)
