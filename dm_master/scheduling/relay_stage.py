"""Which sources have a relay, which worker pulls it, and its desired stage. Pure decisions on a :class:`Topology`.

A relay follows its source from worker to worker (``enable-relay`` in the source's configuration), or stays with the
workers that ``start-relay`` named. Each of these pulls a copy of its own, whether it serves the source or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dm_master.scheduling.source_binding import balanced
from dm_master.scheduling.topology import Plan, Topology
from pkg.config.codec import decode_source, encode_source
from pkg.config.model import SourceConfig
from pkg.errors import Code, DMError, ErrorKind, new
from pkg.etcd.types import Delete, EtcdOperation, Put
from pkg.ha import keys
from pkg.ha.records import RelayStage

#: How a relay without named workers was started, for messages.
_OF_BOUND = "automatically for bound worker"
#: The stages that pause-relay and resume-relay may request.
SETTABLE_STAGES = ("Running", "Paused")


def put_stage(source: str, stage: str) -> Put:
    """The operation that stores ``stage`` as the desired stage of ``source``'s relay."""
    return Put(keys.RELAY_STAGE.key(source), RelayStage(stage, source).to_json())


def start_relay(state: Topology, source: str, workers: Sequence[str]) -> Plan:
    """Starts a source's relay, on the worker that serves it or on ``workers`` only. A running relay is not changed.

    Raises 46008, 46004, 46020 (the worker has another relay), 46021 (it serves another source), and 46028 or 46030
    when the relay was started the other way.
    """
    config = _config(state, source)
    named = named_workers(state, source)
    if not workers:
        if named:
            raise _other_form(
                Code.SchedulerStartRelayOnSpecified, source, _of_workers(named), "`start-relay` without worker name"
            )
        ops: list[EtcdOperation] = [] if config.enable_relay else [_put_enable_relay(config, on=True)]
    else:
        if config.enable_relay:
            raise _other_form(Code.SchedulerStartRelayOnBound, source, _OF_BOUND, "`start-relay` with worker name")
        ops = [Put(keys.RELAY_WORKER.key(worker), source) for worker in _able(state, source, workers)]
    return Plan((*ops, *([] if source in state.relay_stages and not ops else [put_stage(source, "Running")])))


def stop_relay(state: Topology, source: str, workers: Sequence[str]) -> Plan:
    """Stops a source's relay, or that of ``workers``. A worker that becomes free may get a source that waits.

    As in DM, a worker that pulls no relay log needs no change. Raises 46008, 46004, 46022 (a worker pulls
    another one), and 46029 or 46031 when the relay was started the other way.
    """
    config = _config(state, source)
    named = named_workers(state, source)
    if not workers:
        if named:
            raise _other_form(
                Code.SchedulerStopRelayOnSpecified, source, _of_workers(named), "`stop-relay` without worker name"
            )
        return Plan(
            (*([_put_enable_relay(config, on=False)] if config.enable_relay else []), *_delete_stage(state, source))
        )
    if config.enable_relay:
        raise _other_form(Code.SchedulerStopRelayOnBound, source, _OF_BOUND, "`stop-relay` with worker name")
    _check_known(state, workers)
    foreign = {
        worker: of for worker in sorted(set(workers)) if (of := state.relay_workers.get(worker, source)) != source
    }
    if foreign:
        raise new(
            Code.SchedulerRelayWorkersWrongRelay,
            f"these workers {_listed(foreign)} have started relay for another sources {_listed(foreign.values())} "
            f"respectively, not for {source}",
            workaround="`list-member --worker` shows what each worker does.",
        )
    stopped = sorted(set(workers) & set(named))
    if not stopped:
        return Plan()
    ops: list[EtcdOperation] = [Delete(keys.RELAY_WORKER.key(worker)) for worker in stopped]
    return balanced(state, [*ops, *(_delete_stage(state, source) if set(named) == set(stopped) else [])])


def set_stage(state: Topology, sources: Sequence[str], stage: str) -> Plan:
    """Stores ``stage`` as the desired one, even if it is the same: that resumes a failed relay.

    Raises 46011 for another stage and 46012 for sources without a relay.
    """
    if stage not in SETTABLE_STAGES:
        raise new(Code.SchedulerRelayStageInvalidUpdate, f"a relay's stage cannot be set to {stage}")
    missing = sorted(source for source in set(sources) if source not in state.relay_stages)
    if missing:
        raise new(
            Code.SchedulerRelayStageSourceNotExist,
            f"sources {', '.join(missing)} have no relay",
            workaround="Start it with `start-relay -s <source>` first.",
        )
    return Plan(tuple(put_stage(source, stage) for source in sorted(set(sources))))


def named_workers(state: Topology, source: str) -> list[str]:
    return sorted(worker for worker, of in state.relay_workers.items() if of == source)


def pulling_workers(state: Topology, source: str) -> list[str]:
    """The workers that must pull the relay log of ``source``: the named ones, else the one that serves it."""
    if source not in state.relay_stages:
        return []
    served_by = state.worker_of(source)
    return named_workers(state, source) or ([served_by] if served_by else [])


def _config(state: Topology, source: str) -> SourceConfig:
    if source not in state.sources:
        raise new(
            Code.SchedulerSourceCfgNotExist,
            f"source config with ID {source} not exists",
            workaround="`operate-source show` lists the sources.",
        )
    return decode_source(state.sources[source])


def _put_enable_relay(config: SourceConfig, *, on: bool) -> Put:
    return Put(keys.SOURCE_CONFIG.key(config.source_id), encode_source(replace(config, enable_relay=on)))


def _delete_stage(state: Topology, source: str) -> list[EtcdOperation]:
    return [Delete(keys.RELAY_STAGE.key(source))] if source in state.relay_stages else []


def _able(state: Topology, source: str, workers: Sequence[str]) -> list[str]:
    """Those of ``workers`` that have no relay yet. Raises if one of ``workers`` cannot pull this one."""
    _check_known(state, workers)
    busy = {worker: of for worker in sorted(set(workers)) if (of := state.relay_workers.get(worker, source)) != source}
    if busy:
        raise new(
            Code.SchedulerRelayWorkersBusy,
            f"these workers {_listed(busy)} have started relay for another sources {_listed(busy.values())} "
            "respectively",
            workaround="Stop that relay with `stop-relay` first.",
        )
    wrong = {worker: of for worker in sorted(set(workers)) if (of := state.bounds.get(worker, source)) != source}
    if wrong:
        raise new(
            Code.SchedulerRelayWorkersWrongBound,
            f"these workers {_listed(wrong)} have bound for another sources {_listed(wrong.values())} "
            f"respectively, not for {source}",
            workaround="Name the worker that the source is bound to, and workers that `list-member --worker` shows as "
            "free; or name none: the relay then follows the source.",
        )
    return sorted(worker for worker in set(workers) if worker not in state.relay_workers)


def _check_known(state: Topology, workers: Sequence[str]) -> None:
    unknown = sorted(set(workers) - set(state.workers))
    if unknown:
        raise new(
            Code.SchedulerWorkerNotExist,
            f"dm-worker with name {', '.join(unknown)} not exists",
            workaround="`list-member --worker` lists the workers.",
        )


def _listed(names: Iterable[str]) -> str:
    """A list in DM's form, which scripts search for."""
    return f"[{' '.join(names)}]"


def _of_workers(named: Sequence[str]) -> str:
    return f"with worker name for workers {_listed(named)}"


def _other_form(kind: ErrorKind, source: str, started: str, asked: str) -> DMError:
    return new(
        kind,
        f"the relay of source {source} was started {started}, so it can't {asked} now",
        workaround="Stop it in the form in which it was started, and then use the other one.",
    )
