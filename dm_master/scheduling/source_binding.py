"""Which worker serves which source. Pure decisions on a :class:`Topology`, for each event that changes either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dm_master.scheduling.topology import Plan, Topology
from pkg.errors import Code, DMError, new
from pkg.etcd.types import Delete, EtcdOperation, Put
from pkg.ha import keys
from pkg.ha.records import RelayStage, SourceBound, WorkerInfo

NO_FREE_WORKER = "source is added but there is no free worker to bound"
STOPPED_UNBOUND = "source is stopped and hasn't bound to worker before being stopped"


# --- decisions about sources ---


def add_source(state: Topology, source: str, text: str, worker: str = "", *, relay: bool = False) -> Plan:
    """Stores a new source and binds it, to ``worker`` if given; with ``relay``, its relay starts too.

    Raises 46007, 46004, 46033 or 46027.
    """
    if source in state.sources:
        raise exists_already(source)
    ops: list[EtcdOperation] = [Put(keys.SOURCE_CONFIG.key(source), text)]
    if relay:
        ops.append(Put(keys.RELAY_STAGE.key(source), RelayStage("Running", source).to_json()))
    if worker:
        _check_bindable(state, source, worker)
        ops += _bind(source, worker)
    plan = balanced(state, ops)
    unbound = state.after(plan.ops).worker_of(source) is None
    return replace(plan, message=NO_FREE_WORKER if unbound else "")


def exists_already(source: str) -> DMError:
    return new(
        Code.SchedulerSourceCfgExist,
        f"source config with ID {source} already exists",
        workaround="Stop it with `operate-source stop` first, or choose another source-id.",
    )


def remove_source(state: Topology, source: str) -> Plan:
    """Removes a source that no task and no relay worker uses; its worker becomes free. Raises 46008, 46010 or 46023."""
    _check_source(state, source)
    tasks = state.tasks_of(source)
    if tasks:
        raise new(
            Code.SchedulerSourceOpTaskExist,
            f"source {source} has existing tasks {', '.join(tasks)}",
            workaround="Stop these tasks with `stop-task` first.",
        )
    relay = sorted(worker for worker, of in state.relay_workers.items() if of == source)
    if relay:
        raise new(
            Code.SchedulerSourceOpRelayExist,
            f"source {source} has relay workers {', '.join(relay)}",
            workaround="Stop the relay with `stop-relay` first.",
        )
    worker = state.worker_of(source)
    ops: list[EtcdOperation] = [Delete(keys.SOURCE_CONFIG.key(source))]
    ops += [Delete(keys.RELAY_STAGE.key(source))] if source in state.relay_stages else []
    ops += [Delete(keys.BOUND.key(worker))] if worker else []
    # A later source of the same name is another source, and must not return to this one's worker.
    ops += [Delete(keys.LAST_BOUND.key(last)) for last, of in sorted(state.last_bounds.items()) if of == source]
    message = "" if worker else STOPPED_UNBOUND
    orders = Delete(keys.BINLOG_OPERATOR.prefix(source), prefix=True)
    return replace(balanced(state, ops), message=message, side_ops=(orders,))


def update_source(state: Topology, source: str, text: str, subtasks: Mapping[str, str]) -> Plan:
    """Replaces a source's configuration and that of its ``subtasks`` (task → config); its worker takes both.

    Raises 46008, and 46025 if a task of the source runs or came meanwhile, or its relay log is pulled.
    """
    ensure_updatable(state, source)
    if sorted(subtasks) != state.tasks_of(source):
        raise new(
            Code.SchedulerSourceCfgUpdate,
            f"the tasks of source {source} changed during its update",
            workaround="Try again.",
            retryable=True,
        )
    ops: list[EtcdOperation] = [Put(keys.SOURCE_CONFIG.key(source), text)]
    ops += [Put(keys.SUBTASK.key(source, task), config) for task, config in sorted(subtasks.items())]
    worker = state.worker_of(source)
    if worker is not None:
        # Written again, so that the worker reads the source again.
        ops.append(Put(keys.BOUND.key(worker), SourceBound(source, worker).to_json()))
    return Plan(tuple(ops))


def ensure_updatable(state: Topology, source: str) -> None:
    """Raises 46008, and 46025 if a task of the source runs, or its relay log is pulled."""
    _check_source(state, source)
    running = [task for task in state.tasks_of(source) if state.stages.get((source, task)) not in ("Paused", "Stopped")]
    if running:
        raise new(
            Code.SchedulerSourceCfgUpdate,
            f"source {source} can only be updated while its tasks are paused or stopped: {', '.join(running)}",
            workaround="Use `pause-task` first, and `resume-task` after the update.",
        )
    if source in state.relay_stages:
        raise new(
            Code.SchedulerSourceCfgUpdate,
            f"source {source} can only be updated while it has no relay log",
            workaround="Use `stop-relay` first, and `start-relay` after the update.",
        )


def set_enabled(state: Topology, source: str, text: str, *, enable: bool) -> Plan:
    """Stores ``text``, the source's configuration with ``enable``. Raises 46008, and 46010 for a source that is to be
    disabled while a task runs on it, or is paused."""
    _check_source(state, source)
    active = [task for task in state.tasks_of(source) if state.stages.get((source, task)) != "Stopped"]
    if active and not enable:
        raise new(
            Code.SchedulerSourceOpTaskExist,
            f"source {source} has tasks {', '.join(active)} that are not stopped",
            workaround="Stop them first.",
        )
    return Plan((Put(keys.SOURCE_CONFIG.key(source), text),))


def transfer_source(state: Topology, source: str, worker: str) -> Plan:
    """Moves a source to a free worker, or to one that pulls its relay. Raises 46008, 46004, 46006 or 46027."""
    _check_source(state, source)
    _check_worker(state, worker)
    if state.bounds.get(worker) == source:
        return Plan(message=f"source {source} is bound to worker {worker} already")
    stage = state.worker_stage(worker)
    if stage in ("offline", "bound"):
        raise new(
            Code.SchedulerWorkerInvalidTrans,
            f"invalid stage transformation for dm-worker {worker}, from {stage} to bound",
            workaround="Choose a worker that `list-member --worker` shows as free.",
        )
    _check_relays(state, source, worker)
    former = state.worker_of(source)
    if former and _has_load(state, source, former) and not _has_load(state, source, worker):
        raise new(
            Code.SchedulerWorkerInvalidTrans,
            f"dm-worker {former} has the files of an unfinished load of source {source}, and {worker} does not "
            "have them",
            workaround="Wait until the load is complete (`query-status`), or stop the task first.",
        )
    ops: list[EtcdOperation] = [Delete(keys.BOUND.key(former))] if former else []
    return balanced(state, [*ops, *_bind(source, worker)])


# --- decisions about workers ---


def register_worker(state: Topology, worker: str, address: str) -> Plan:
    """Registers a worker. Raises 46003 if another address has its name."""
    known = state.workers.get(worker)
    if known is not None and known.addr != address:
        raise new(
            Code.SchedulerWorkerExist,
            f"dm-worker with name {worker} already exists, at {known.addr}",
            workaround="Choose another name, or take the old worker offline with `dmctl offline-member`.",
        )
    if known is not None:
        return Plan()
    return balanced(state, [Put(keys.WORKER.key(worker), WorkerInfo(worker, address).to_json())])


def remove_worker(state: Topology, worker: str) -> Plan:
    """Removes an offline worker. Raises 46004 or 46005."""
    _check_worker(state, worker)
    if worker in state.alive:
        raise new(
            Code.SchedulerWorkerOnline,
            f"dm-worker with name {worker} is still online",
            workaround="Shut it down first.",
        )
    ops: list[EtcdOperation] = [Delete(keys.WORKER.key(worker))]
    for family, entries in (
        (keys.BOUND, state.bounds),
        (keys.LAST_BOUND, state.last_bounds),
        (keys.RELAY_WORKER, state.relay_workers),
    ):
        ops += [Delete(family.key(worker))] if worker in entries else []
    relayed = state.relay_workers.get(worker, "")
    if relayed in state.relay_stages and list(state.relay_workers.values()).count(relayed) == 1:
        # No named worker is left: a relay that kept its stage would follow the source.
        ops.append(Delete(keys.RELAY_STAGE.key(relayed)))
    return balanced(state, ops)


def rebalance(state: Topology) -> Plan:
    """Takes sources from workers that cannot serve them and gives every unbound source the best worker left.

    It keeps a working binding, except for a source whose unfinished load is on a free worker: the load can continue
    only there. Call it after every event: a worker came or left, a new leader took over.
    """
    ops: list[EtcdOperation] = []
    # A source that returns to its load frees a worker, and another source may have to return to that one: repeat.
    while step := _rebalance_step(state):
        ops += step
        state = state.after(step)
    return Plan(_once_per_key(ops))


def _rebalance_step(state: Topology) -> list[EtcdOperation]:
    ops: list[EtcdOperation] = [Delete(keys.BOUND.key(worker)) for worker in _broken_bounds(state)]
    state = state.after(ops)
    returns: list[EtcdOperation] = [Delete(keys.BOUND.key(worker)) for worker in _bound_without_load_files(state)]
    ops += returns
    state = state.after(returns)
    free = {worker for worker in state.workers if state.worker_stage(worker) in ("free", "relay")}
    unbound = set(state.unbound_sources())
    choices = sorted(
        (_preference(state, source, worker), source, worker)
        for source in unbound
        for worker in free
        if state.relay_workers.get(worker, source) == source
    )
    for _, source, worker in choices:
        if source in unbound and worker in free:
            unbound.remove(source)
            free.remove(worker)
            ops += _bind(source, worker)
    return ops


def _bound_without_load_files(state: Topology) -> list[str]:
    """Workers that serve a source without the files of its unfinished load, while a free worker has them."""
    badly_bound = []
    asked: set[str] = set()
    for (_, source), holder in sorted(state.load_tasks.items()):
        server = state.worker_of(source)
        able = holder in state.workers and state.worker_stage(holder) in ("free", "relay") and holder not in asked
        if (
            server is not None
            and server not in badly_bound
            and able
            and state.relay_workers.get(holder, source) == source
            and not _has_load(state, source, server)
        ):
            badly_bound.append(server)
            asked.add(holder)
    return badly_bound


def _has_load(state: Topology, source: str, worker: str) -> bool:
    return any(of == source and holder == worker for (_, of), holder in state.load_tasks.items())


def _preference(state: Topology, source: str, worker: str) -> int:
    """Lower is better: the worker with the dump files, then with the relay log, then the last one that served it."""
    if _has_load(state, source, worker):
        return 0
    last = state.last_bounds.get(worker) == source
    if state.relay_workers.get(worker) == source:
        return 1 if last else 2
    return 3 if last else 4


def _broken_bounds(state: Topology) -> list[str]:
    """Bound workers that are offline or unknown, or bound to a removed source or to another worker's source."""
    served: set[str] = set()
    broken = []
    for worker, source in sorted(state.bounds.items()):
        able = worker in state.workers and worker in state.alive and source in state.sources
        if not able or source in served:
            broken.append(worker)
        else:
            served.add(source)
    return broken


def balanced(state: Topology, ops: Sequence[EtcdOperation]) -> Plan:
    """``ops`` with the changes of bindings that follow from them."""
    return Plan(_once_per_key([*ops, *rebalance(state.after(ops)).ops]))


def _once_per_key(ops: Iterable[EtcdOperation]) -> tuple[EtcdOperation, ...]:
    """The last operation on each key: etcd refuses a transaction that writes a key twice."""
    return tuple({op.key: op for op in ops}.values())


def _bind(source: str, worker: str) -> list[EtcdOperation]:
    bound = SourceBound(source, worker).to_json()
    return [Put(keys.BOUND.key(worker), bound), Put(keys.LAST_BOUND.key(worker), bound)]


def _check_source(state: Topology, source: str) -> None:
    if source not in state.sources:
        raise new(
            Code.SchedulerSourceCfgNotExist,
            f"source config with ID {source} not exists",
            workaround="`operate-source show` lists the sources.",
        )


def _check_worker(state: Topology, worker: str) -> None:
    if worker not in state.workers:
        raise new(
            Code.SchedulerWorkerNotExist,
            f"dm-worker with name {worker} not exists",
            workaround="`list-member --worker` lists the workers.",
        )


def _check_bindable(state: Topology, source: str, worker: str) -> None:
    _check_worker(state, worker)
    stage = state.worker_stage(worker)
    if stage in ("offline", "bound"):
        raise new(
            Code.SchedulerWorkerNotFree,
            f"dm-worker with name {worker} not free: it is {stage}",
            workaround="Choose a worker that `list-member --worker` shows as free.",
        )
    _check_relays(state, source, worker)


def _check_relays(state: Topology, source: str, worker: str) -> None:
    relayed = state.relay_workers.get(worker, source)
    if relayed != source:
        raise new(
            Code.SchedulerBoundDiffWithStartedRelay,
            f"dm-worker {worker} pulls the relay of source {relayed}, so it cannot serve source {source}",
            workaround="Stop that relay with `stop-relay` first.",
        )
