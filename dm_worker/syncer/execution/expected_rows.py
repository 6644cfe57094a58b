"""Executor side: the rows of one bucket as they must be at the target, to compare as a whole or one by one.

The driver runs the statements: a snapshot of the target belongs to one connection, and the driver opens it between two
batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from dm_worker.syncer.rows.table_plan import TablePlan

#: Bytes of a statement that compares several rows.
STATEMENT_BYTES = 1 << 20
#: How many times as many rows are compared as a whole, and their bytes.
CHUNK_ROWS, CHUNK_BYTES = 10, 1 << 19
#: All rows of a bucket in one group.
_ALL = 1 << 30


@dataclass(slots=True)
class ExpectedRows(BucketResult):
    """``chunks`` are compared as a whole. ``rows`` are in no chunk; ``queries`` compare them, and return the numbers of
    those that are as expected: (plan, numbers, text)."""

    chunks: Sequence[RowChunk] = ()
    rows: Sequence[ExpectedRow] = ()
    queries: Sequence[tuple[int, list[int], bytes]] = ()


@dataclass(frozen=True, slots=True)
class ExpectRows(BucketAction):
    """Collects the rows; writes nothing. ``full``: for the values too, otherwise only that the rows are there.
    ``most_rows``: in one statement that compares them one by one."""

    full: bool
    most_rows: int

    @property
    def safe(self) -> bool:
        """Only how rows are at the end of the range counts."""
        return True

    @property
    def returns_rows(self) -> bool:
        return True

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
        chunks = [chunk for number in sorted(chunked) for chunk in self._chunks(plans[number], content.groups)]
        return ExpectedRows(bucket, content.changes, chunks=chunks, rows=rows, queries=queries)

    def _is_chunked(self, plan: TablePlan) -> bool:
        return not row_look.problem_of(plan) and may_chunk(plan, full=self.full)

    def _chunks(self, plan: TablePlan, groups: Sequence[RowGroup]) -> Iterator[RowChunk]:
        keys, rows = (
            [row for group in groups if group.plan == plan.number and group.kind == kind for row in group.rows()]
            for kind in (DELETE_KEYS, UPSERT_ROWS)
        )
        return chunks_of(plan, keys, rows, self.most_rows * CHUNK_ROWS, CHUNK_BYTES, full=self.full)
