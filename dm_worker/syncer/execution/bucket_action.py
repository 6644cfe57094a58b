"""The action of a batch's tasks on the rows of a bucket: plain data, sent with the job to tasks of Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dm_worker.syncer.execution.apply import BucketResult, RowsCollide, apply_bucket
from dm_worker.syncer.execution.merge import BucketContent, WriteRule
from dm_worker.syncer.execution.row_statements import write_rule_of
from dm_worker.syncer.execution.target_connections import TargetSpec, WriterPool
from dm_worker.syncer.planning.batch import WriteToken
from dm_worker.syncer.rows.table_plan import TablePlan


class MergeAgain(Exception):
    """Nothing of a bucket was consumed: its rows must be merged by the rules of another ``action``, for this one."""

    def __init__(self, action: BucketAction) -> None:
        super().__init__(action)
        self.action = action


class BucketAction(ABC):
    """Consumes the rows of a batch, bucket by bucket. For tasks of Spark it must be picklable, without references to
    the driver."""

    @property
    @abstractmethod
    def safe(self) -> bool:
        """Whether the rows are for safe mode: some may already be in the target."""

    @abstractmethod
    def rule_of(self, plan: TablePlan) -> WriteRule:
        """How the compacted states of a plan's rows are written."""

    @property
    def returns_rows(self) -> bool:
        """Whether its results have about as many bytes as the rows."""
        return False

    @abstractmethod
    def run(self, bucket: int, content: BucketContent, plans: Mapping[int, TablePlan]) -> BucketResult:
        """Consumes one bucket. Raises DMError, ``MergeAgain``."""


@dataclass(frozen=True, slots=True)
class WriteBucket(BucketAction):
    """Writes the rows and the bucket's marker in one transaction at the target. ``pool``: the driver's writers; None in
    a task of Spark."""

    target: TargetSpec
    token: WriteToken
    pool: WriterPool | None = None

    @property
    def safe(self) -> bool:
        return self.target.form.safe

    def rule_of(self, plan: TablePlan) -> WriteRule:
        return write_rule_of(plan, self.target.form)

    def run(self, bucket: int, content: BucketContent, plans: Mapping[int, TablePlan]) -> BucketResult:
        try:
            return apply_bucket(self.target, self.token, bucket, content, plans, self.pool)
        except RowsCollide as exc:
            form = replace(self.target.form, renews=True)
            raise MergeAgain(replace(self, target=replace(self.target, form=form))) from exc
