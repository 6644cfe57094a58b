"""Executor side: the rows of one bucket as they must be at the target, with the statements that compare them.

The driver runs the statements: a snapshot of the target belongs to one connection, and the driver opens it between two
batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dm_worker.syncer.execution import row_look
from dm_worker.syncer.execution.apply import BucketResult
from dm_worker.syncer.execution.bucket_action import BucketAction
from dm_worker.syncer.execution.merge import AS_DELETE, AS_UPSERT, BucketContent, WriteRule
from dm_worker.syncer.execution.row_look import ExpectedRow
from dm_worker.syncer.rows.table_plan import TablePlan

#: Bytes of a statement that compares several rows.
STATEMENT_BYTES = 1 << 20
#: All rows of a bucket in one group.
_ALL = 1 << 30


@dataclass(slots=True)
class ExpectedRows(BucketResult):
    """``queries`` compare ``rows`` and return the numbers of those that are there: (plan, numbers, text)."""

    rows: Sequence[ExpectedRow] = ()
    queries: Sequence[tuple[int, list[int], bytes]] = ()


@dataclass(frozen=True, slots=True)
class ExpectRows(BucketAction):
    """Makes the statements; writes nothing. ``full``: for the values too, otherwise only that the rows are there.
    ``most_rows``: in one statement."""

    full: bool
    most_rows: int

    @property
    def safe(self) -> bool:
        """Only how rows are at the end of the range counts."""
        return True

    def rule_of(self, plan: TablePlan) -> WriteRule:
        kinds = (AS_UPSERT, AS_UPSERT, AS_DELETE, AS_UPSERT, AS_DELETE)
        return WriteRule(bytes(kinds), False, (_ALL, _ALL, _ALL), (_ALL, _ALL, _ALL), plan.source_number)

    def run(self, bucket: int, content: BucketContent, plans: Mapping[int, TablePlan]) -> ExpectedRows:
        rows = row_look.by_plan(row_look.expected_rows(content, plans))
        select = partial(row_look.RowSelects(plans).there, full=self.full)
        queries = list(row_look.joined(enumerate(rows), select, self.most_rows, STATEMENT_BYTES))
        return ExpectedRows(bucket, content.changes, rows=rows, queries=queries)
