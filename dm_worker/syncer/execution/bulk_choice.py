"""Executor side: which rows of a bucket are written by LOAD DATA, by bulk executions, or as a multiset."""

from __future__ import annotations

from collections.abc import Mapping

import pymysql

from dm_worker.syncer.execution import bulk_execution, load_data, row_statements
from dm_worker.syncer.execution.keyless import plan_for
from dm_worker.syncer.execution.merge import DELETE_KEYS, INSERT_ROWS, UPSERT_ROWS, BucketContent
from dm_worker.syncer.execution.target_connections import MOST_PREPARED, TargetSpec, TargetWriter, WriterPool
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.bulk import PreparedStatement
from pkg.mysql.connection import classify, is_retryable
from pkg.mysql.names import qualified


class BulkChoice:
    """Chooses by what the pool knows of the target. ``alone``: this connection sends one statement at a time."""

    def __init__(
        self, pool: WriterPool, writer: TargetWriter, spec: TargetSpec, plans: Mapping[int, TablePlan], *, alone: bool
    ) -> None:
        self._pool = pool
        self._writer = writer
        self._spec = spec
        self._plans = plans
        self._alone = alone

    def loadable(self, content: BucketContent) -> frozenset[tuple[int, int]]:
        """The plans and kinds of groups whose rows may be loaded."""
        form, address = self._spec.form, self._spec.address
        found = set()
        for (number, kind), count in _counts(content).items():
            plan = self._plans[number]
            if count < load_data.LEAST_ROWS or not row_statements.loadable(plan, kind, form):
                continue
            if kind == UPSERT_ROWS and self._executes_in_bulk(plan):
                # Updates in place are cheaper than a load's replacements.
                continue
            if not self._pool.may_load(address, plan.target):
                continue
            if plan.numbered and not self._writer.loads_side_by_side:
                continue
            # A load replaces instead of upserting. If a trigger would see the difference, the upsert stays.
            if kind == INSERT_ROWS or row_statements.replaces(plan, kind, form) or not self._has_triggers(plan):
                found.add((number, kind))
        return frozenset(found)

    def mergeable(self, content: BucketContent) -> frozenset[int]:
        """The plans whose rows without a key may be written as a multiset."""
        if not row_statements.mergeable(self._spec.form):
            return frozenset()
        runs = row_statements.in_order(self._plans, content.ordered)
        plans = [plan for rows in runs if (plan := plan_for(self._plans, rows)) is not None]
        # A trigger would see an update as the deletion of another row.
        return frozenset(plan.number for plan in plans if not self._has_triggers(plan))

    def bulk_statements(
        self, content: BucketContent, loadable: frozenset[tuple[int, int]]
    ) -> dict[tuple[int, int], PreparedStatement]:
        """The statements of the plans and kinds whose rows are written by bulk executions."""
        found: dict[tuple[int, int], PreparedStatement] = {}
        for (number, kind), count in _counts(content).items():
            plan = self._plans[number]
            if kind == DELETE_KEYS or count < bulk_execution.LEAST_ROWS or (number, kind) in loadable:
                continue
            if not self._executes_in_bulk(plan) or len(found) == MOST_PREPARED:
                continue
            try:
                text = row_statements.template(plan, kind, self._spec.form)
                found[number, kind] = self._writer.prepare(text, len(plan.write))
            except (pymysql.Error, OSError) as exc:
                if is_retryable(exc):
                    raise classify(exc, scope="downstream", table=qualified(*plan.target)) from exc
                # The INSERT will show the error.
        return found

    def _executes_in_bulk(self, plan: TablePlan) -> bool:
        # A connection may be lost because a proxy does not support a statement on it.
        return self._writer.bulk and not self._alone and bool(plan.bulk)

    def _has_triggers(self, plan: TablePlan) -> bool:
        try:
            return self._pool.has_triggers(self._spec.address, self._writer.conn, plan.target)
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="downstream", statement="SELECT … FROM information_schema.TRIGGERS") from exc


def _counts(content: BucketContent) -> dict[tuple[int, int], int]:
    """Rows of the groups by plan and kind."""
    counts: dict[tuple[int, int], int] = {}
    for group in content.groups:
        counts[group.plan, group.kind] = counts.get((group.plan, group.kind), 0) + group.count
    return counts
