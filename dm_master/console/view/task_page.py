"""The page of one task. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dm_master.console.snapshot import ClusterSnapshot, CurvePoint
from dm_master.console.view.locks import WaitingLock, locks_of
from dm_master.console.view.overview import TaskLine, stage_text, task_lines
from dm_master.console.view.paging import Paged, paged
from dm_master.console.view.progress import (
    BarView,
    ErrorView,
    Health,
    ProgressView,
    errors_of,
    profile_bars,
    progress,
    relay_figure,
    subtask_health,
)
from dm_master.console.view.purge import PurgeView, purge_views
from pkg.pb import dmworker_pb2 as worker
from pkg.status.amounts import counted
from pkg.status.operations import OPERATIONS, allowed, allowed_for_task

SUBTASKS_PER_PAGE = 10
_CURVE_WIDTH, _CURVE_HEIGHT = 240, 48


@dataclass(frozen=True, slots=True)
class PositionView:
    """Where one side is, by file and offset and by GTIDs."""

    name: str
    position: str
    gtids: str


@dataclass(frozen=True, slots=True)
class SubTaskView:
    source: str
    worker: str
    health: Health
    stage: str
    progress: ProgressView
    positions: Sequence[PositionView]
    notes: Sequence[str]
    purge: Sequence[PurgeView]
    errors: Sequence[ErrorView]
    operations: Sequence[str]
    profile: Sequence[BarView]
    validation: str


@dataclass(frozen=True, slots=True)
class CurveView:
    """``points``: coordinates of an SVG polyline; ``most``: the value at its top."""

    name: str
    points: str
    most: str


@dataclass(frozen=True, slots=True)
class TaskView:
    line: TaskLine
    subtasks: Paged[SubTaskView]
    operations: Sequence[str]
    curves: Sequence[CurveView]
    locks: Sequence[WaitingLock]


def task_page(snapshot: ClusterSnapshot, task: str, page: int) -> TaskView | None:
    """None for a task that is not there."""
    line = next((one for one in task_lines(snapshot.status) if one.name == task), None)
    if line is None:
        return None
    parts = [
        (answer.sourceStatus, subtask)
        for answer in snapshot.status.sources
        for subtask in answer.subTaskStatus
        if subtask.name == task
    ]
    order = {"bad": 0, "warn": 1}
    parts.sort(key=lambda part: (order.get(subtask_health(part[1]), 2), part[0].source))
    # Only the page's subtasks are worked out: a task may have thousands.
    shown = paged(parts, page, SUBTASKS_PER_PAGE)
    views = [_subtask(source, subtask) for source, subtask in shown.items]
    return TaskView(
        line=line,
        subtasks=Paged(views, shown.number, shown.pages, shown.total),
        operations=allowed_for_task(subtask for _, subtask in parts),
        curves=list(_curves(snapshot.curves.get(task, ()))),
        locks=locks_of(snapshot.locks, task),
    )


def _subtask(source: worker.SourceStatus, subtask: worker.SubTaskStatus) -> SubTaskView:
    able = allowed(subtask)
    return SubTaskView(
        source=source.source,
        worker=source.worker,
        health=subtask_health(subtask),
        stage=stage_text(subtask),
        progress=_progress(source, subtask),
        positions=list(_positions(subtask.sync)) if subtask.WhichOneof("status") == "sync" else [],
        notes=list(_notes(subtask)),
        purge=[one for one in purge_views(source) if one.reader == f"task {subtask.name}" and one.problem],
        errors=errors_of(subtask.result),
        operations=[name for name in OPERATIONS if name in able],
        profile=profile_bars(subtask),
        validation=_validation(subtask),
    )


def _progress(source: worker.SourceStatus, subtask: worker.SubTaskStatus) -> ProgressView:
    found = progress(subtask)
    if subtask.sync.binlogType != "local" or not source.HasField("relayStatus"):
        return found
    # What the task reads: its lag is at least that of the relay log.
    return replace(found, figures=(relay_figure(source.relayStatus), *found.figures))


def _positions(sync: worker.SyncStatus) -> Iterator[PositionView]:
    yield PositionView("upstream", sync.masterBinlog, sync.masterBinlogGtid)
    yield PositionView("applied", sync.syncerBinlog, sync.syncerBinlogGtid)


def _notes(subtask: worker.SubTaskStatus) -> Iterator[str]:
    sync = subtask.sync
    if subtask.result.isCanceled and not subtask.result.errors:
        yield "Paused on request."
    if sync.targetDDL:
        yield f"The target executes a DDL: {sync.targetDDL}"
    if sync.takenOver:
        yield f"Taken over from DM: {sync.takenOver}"
    if sync.conflictMsg:
        yield f"Conflict of shards: {sync.conflictMsg}"
    for group in sync.unresolvedGroups:
        waiting = ", ".join(group.unsynced)
        held = counted(group.heldRows, "row")
        yield f"{group.target} waits for {waiting}: {'; '.join(group.DDLs)} ({held} held back)"


def _validation(subtask: worker.SubTaskStatus) -> str:
    if not subtask.HasField("validation"):
        return ""
    found = subtask.validation
    parts = (worker.Stage.Name(found.stage), found.mode, found.errorRowsStatus, found.pendingRowsStatus)
    return " · ".join(filter(None, parts))


def _curves(points: Sequence[CurvePoint]) -> Iterator[CurveView]:
    if len(points) > 1:
        yield _curve("rows per second", [point.rows_per_second for point in points])
        yield _curve("seconds not read", [point.stream for point in points])
        yield _curve("seconds not applied", [point.lag for point in points])


def _curve(name: str, values: Sequence[int]) -> CurveView:
    most = max(*values, 1)
    step = _CURVE_WIDTH / (len(values) - 1)
    # One unit of room at both edges, for the width of the line.
    coordinates = (
        f"{number * step:.1f},{1 + (_CURVE_HEIGHT - 2) * (1 - value / most):.1f}" for number, value in enumerate(values)
    )
    return CurveView(name, " ".join(coordinates), f"{max(values):,}")
