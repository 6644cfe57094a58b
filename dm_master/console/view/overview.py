"""The first page: tasks, sources and workers with their health. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from dm_master.console.snapshot import ClusterSnapshot
from dm_master.console.view.paging import Paged, paged
from dm_master.console.view.progress import (
    HEALTHS,
    Health,
    differ_text,
    differing_rows,
    lag_text,
    progress,
    stream_of_relay,
    stream_text,
    subtask_health,
)
from dm_master.console.view.purge import PurgeView, RelayNeed, purge_views, relay_needs
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.status.operations import allowed_for_relay, allowed_for_source, may_move, may_remove_master, may_remove_worker
from pkg.status.task_stage import error_line

TASKS_PER_PAGE = 50
MEMBERS_PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class TaskLine:
    name: str
    health: Health
    stage: str
    progress: str
    lag: str
    rows_per_second: int
    sources: int
    error: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """``relay`` is '' without a relay log; ``relay_lag`` is how far it is behind.

    ``relay_operations`` are those that its stage allows. ``purge``: what the upstream's purge would take from whom;
    ``relay_needs``: which tasks read the relay log. ``movable``: its tasks let another worker serve it. ``disabled``:
    no task may run on it; ``operations`` are those on the source itself; ``relay_workers`` are those that start-relay
    named.
    """

    name: str
    worker: str
    health: Health
    tasks: int
    problem: str
    position: str
    relay: str
    relay_position: str
    relay_lag: str
    relay_operations: Sequence[str]
    purge: Sequence[PurgeView]
    relay_needs: Sequence[RelayNeed]
    movable: bool
    disabled: bool
    operations: Sequence[str]
    relay_workers: Sequence[str]


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """``removable``: it may leave the cluster for good."""

    name: str
    address: str
    health: Health
    stage: str
    source: str
    removable: bool


@dataclass(frozen=True, slots=True)
class MasterLine:
    """``removable``: it may leave the cluster for good."""

    name: str
    address: str
    alive: bool
    leads: bool
    removable: bool


@dataclass(frozen=True, slots=True)
class OverviewView:
    """``counts``: tasks by health; ``problem``: why the cluster cannot be seen."""

    problem: str
    counts: dict[Health, int]
    tasks: Paged[TaskLine]
    sources: Paged[SourceLine]
    workers: Paged[WorkerLine]
    locks: int
    leader: str
    search: str
    bad_sources: int = field(default=0)


def overview(snapshot: ClusterSnapshot, search: str, page: int) -> OverviewView:
    tasks = _ordered_tasks(snapshot.status)
    counts = Counter(health for health, _, _ in tasks)
    # Only the page's lines are worked out: there may be thousands of tasks.
    shown = paged([one for one in tasks if search.lower() in one[1].lower()], page, TASKS_PER_PAGE)
    lines = [task_line(name, members) for _, name, members in shown.items]
    sources, workers = source_lines(snapshot.status), worker_lines(snapshot.members)
    return OverviewView(
        problem=snapshot.problem,
        counts={health: counts[health] for health in HEALTHS},
        tasks=Paged(lines, shown.number, shown.pages, shown.total),
        sources=paged(sources, 1, TASKS_PER_PAGE),
        workers=paged(workers, 1, TASKS_PER_PAGE),
        locks=len(snapshot.locks.locks),
        leader=next((line.name for line in master_lines(snapshot.members) if line.leads), ""),
        search=search,
        bad_sources=sum(line.health == "bad" for line in sources),
    )


def _ordered_tasks(status: master.QueryStatusListResponse) -> list[tuple[Health, str, list[worker.SubTaskStatus]]]:
    """The health, name and subtasks of every task, the ones in trouble first."""
    parts: defaultdict[str, list[worker.SubTaskStatus]] = defaultdict(list)
    for source in status.sources:
        for subtask in source.subTaskStatus:
            if subtask.name:
                parts[subtask.name].append(subtask)
    found = [(min(map(subtask_health, members), key=HEALTHS.index), name, members) for name, members in parts.items()]
    return sorted(found, key=lambda one: (HEALTHS.index(one[0]), one[1]))


def task_line(name: str, members: Sequence[worker.SubTaskStatus]) -> TaskLine:
    worst = min(members, key=lambda one: (HEALTHS.index(subtask_health(one)), -one.sync.secondsBehindMaster))
    slowest = max(members, key=lambda one: one.sync.secondsBehindMaster)
    stages = Counter(stage_text(one) for one in members)
    stage = next(iter(stages)) if len(stages) == 1 else ", ".join(f"{n} {text}" for text, n in stages.most_common(3))
    return TaskLine(
        name=name,
        health=subtask_health(worst),
        stage=stage,
        progress=_doing(worst),
        lag=lag_text(slowest),
        rows_per_second=sum(one.sync.recentRps for one in members),
        sources=len(members),
        error=error_line(worst.result.errors[0]) if worst.result.errors else "",
    )


def _doing(subtask: worker.SubTaskStatus) -> str:
    rows = differing_rows(subtask)
    if rows and subtask.stage == worker.Running:
        return differ_text(rows)
    return progress(subtask).text


def stage_text(subtask: worker.SubTaskStatus) -> str:
    stage = worker.Stage.Name(subtask.stage)
    return f"{stage} · {worker.UnitType.Name(subtask.unit)}" if subtask.unit else stage


def source_lines(status: master.QueryStatusListResponse) -> list[SourceLine]:
    """Every source, the ones in trouble first."""
    lines = [_source_line(one) for one in status.sources]
    return sorted(lines, key=lambda line: (HEALTHS.index(line.health), line.name, line.worker))


def _source_line(answer: worker.QueryStatusResponse) -> SourceLine:
    status = answer.sourceStatus
    relay = status.relayStatus if status.HasField("relayStatus") else None
    problems = [] if answer.result else [answer.msg]
    problems += [error_line(one) for one in status.result.errors]
    if relay is not None:
        problems += [f"relay log: {error_line(one)}" for one in relay.result.errors]
    sync = next((one.sync for one in answer.subTaskStatus if one.WhichOneof("status") == "sync"), None)
    paused = relay is not None and relay.stage == worker.Paused
    purge = purge_views(status)
    tasks = sum(bool(one.name) for one in answer.subTaskStatus)
    health: Health = "bad" if problems else "warn" if paused or not status.worker else "good"
    return SourceLine(
        name=status.source,
        worker=status.worker,
        health=min((health, *(one.health for one in purge)), key=HEALTHS.index),
        tasks=tasks,
        problem="; ".join(filter(None, problems)),
        position=sync.masterBinlog if sync is not None else "",
        relay=worker.Stage.Name(relay.stage) if relay is not None else "",
        relay_position=relay.relayBinlog if relay is not None else "",
        relay_lag=stream_text(stream_of_relay(relay)) if relay is not None else "",
        relay_operations=allowed_for_relay(relay) if relay is not None else (),
        purge=purge,
        relay_needs=relay_needs(answer.subTaskStatus),
        movable=may_move(answer.subTaskStatus),
        disabled=status.disabled,
        operations=allowed_for_source(status, used=tasks > 0),
        relay_workers=list(status.relayWorkers),
    )


_WORKER_HEALTH: dict[str, Health] = {"bound": "good", "relay": "good", "free": "idle"}


def worker_lines(members: master.ListMemberResponse) -> list[WorkerLine]:
    """Every worker, the ones in trouble first."""
    lines = [
        WorkerLine(
            one.name,
            one.addr,
            _WORKER_HEALTH.get(one.stage, "bad"),
            one.stage,
            one.source,
            removable=may_remove_worker(one),
        )
        for member in members.members
        for one in member.worker.workers
    ]
    return sorted(lines, key=lambda line: (HEALTHS.index(line.health), line.name))


def workers_for(members: master.ListMemberResponse, source: str) -> list[str]:
    """The workers that may take a source: they serve none, and pull the relay log of no other one.
    One that pulls the source's own comes first."""
    lines = worker_lines(members)
    return [one.name for one in lines if one.stage == "free" or (one.stage, one.source) == ("relay", source)]


def master_lines(members: master.ListMemberResponse) -> list[MasterLine]:
    leader = next((one.leader.name for one in members.members if one.WhichOneof("member") == "leader"), "")
    return [
        MasterLine(
            one.name,
            ", ".join(one.clientURLs),
            one.alive,
            leads=one.name == leader,
            removable=may_remove_master(one, leader),
        )
        for member in members.members
        for one in member.master.masters
    ]
