"""The reports of a batch's tasks, and their totals. Pure, picklable data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: Stages of a batch's tasks, in their order.
DECODE, SHUFFLE, COMPACT, WRITE = "decode", "shuffle", "compact", "write"
TASK_STAGES = (DECODE, SHUFFLE, COMPACT, WRITE)

#: Inserts, updates, deletes.
Changes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """When a part of a task's work was done (unix seconds), and the seconds of each stage in it."""

    began: float
    ended: float
    stages: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SliceReport:
    """The result of decoding one slice: row changes by plan; bytes of events, and of the blocks made of them."""

    times: TaskTimes
    changes: Mapping[int, Changes]
    read: int
    packed: int


@dataclass(frozen=True, slots=True)
class ConflictReport:
    """The result of the search for conflict sets: how many, of how many rows, in how many seconds."""

    seconds: float
    sets: int
    rows: int


@dataclass(frozen=True, slots=True)
class BucketReport:
    """The cost of writing one bucket. ``packed``: bytes of its blocks; ``rows``: the number left after compaction;
    ``commit``: seconds of the COMMIT in ``times``' writing."""

    times: TaskTimes
    packed: int
    rows: int
    commit: float


@dataclass(frozen=True, slots=True)
class BucketFigures:
    """One written bucket for the figures: its report, its statements, and the seconds that refusals cost."""

    bucket: int
    report: BucketReport
    statements: int
    waited: float


@dataclass(slots=True)
class BatchReport:
    """A batch's job. ``seconds``: of the job; ``busy``: those of them in which a task of ours computed or waited for
    the target; ``stages``: of all tasks together. ``changes``: by plan."""

    seconds: float
    busy: float
    stages: dict[str, float]
    changes: dict[int, Changes]
    conflicts: list[ConflictReport] = field(default_factory=list)
    buckets: list[BucketFigures] = field(default_factory=list)
    read: int = 0
    packed: int = 0
    rows: int = 0

    @property
    def shares(self) -> dict[str, float]:
        """The busy seconds by stage: parallel tasks are in several stages, so each has its share of all work."""
        work = sum(self.stages.values())
        return {stage: self.busy * seconds / work for stage, seconds in self.stages.items()} if work else {}

    @property
    def change_count(self) -> int:
        return sum(map(sum, self.changes.values()))


def batch_report(
    seconds: float,
    slices: Iterable[SliceReport],
    conflicts: Sequence[ConflictReport],
    buckets: Sequence[BucketFigures],
) -> BatchReport:
    """The totals of the reports of a batch's tasks."""
    report = BatchReport(seconds, 0.0, dict.fromkeys(TASK_STAGES, 0.0), {}, list(conflicts), list(buckets))
    times = [one.report.times for one in buckets]
    for part in slices:
        times.append(part.times)
        report.read += part.read
        report.packed += part.packed
        for plan, (inserts, updates, deletes) in part.changes.items():
            before = report.changes.get(plan, (0, 0, 0))
            report.changes[plan] = (before[0] + inserts, before[1] + updates, before[2] + deletes)
    report.rows = sum(one.report.rows for one in buckets)
    for one in times:
        for stage, spent in one.stages.items():
            report.stages[stage] += spent
    report.busy = min(seconds, covered((one.began, one.ended) for one in times))
    return report


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    total, reached = 0.0, float("-inf")
    for began, ended in sorted(intervals):
        total += max(0.0, ended - max(began, reached))
        reached = max(reached, ended)
    return total
