"""Tasks, their subtasks, and the subtasks' desired stages. Pure decisions on a :class:`Topology`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from dm_master.scheduling.topology import Plan, Topology
from pkg.errors import Code, new
from pkg.etcd.types import Delete, EtcdOperation, Put
from pkg.ha import keys
from pkg.ha.records import SubTaskStage, ValidatorStage

#: The stages that an operator may request. A stopped subtask stays until it is started again or removed.
SETTABLE_STAGES = ("Running", "Paused", "Stopped")
_STOPPED = "Stopped"
_NO_VALIDATORS: Mapping[str, str] = MappingProxyType({})


def start_task(
    state: Topology,
    task: str,
    text: str,
    subtasks: Mapping[str, str],
    modes: Mapping[str, str] = _NO_VALIDATORS,
    *,
    drop_operators: bool = False,
    stage: str = "Running",
) -> Plan:
    """Stores a task's file and its new ``subtasks`` (source → config), with the desired ``stage``. ``modes``: the
    validators' modes of sources that have one. Subtasks that are Stopped are replaced.

    ``drop_operators``: the stored binlog operators are removed too, as the checkpoints were before.

    Raises 46008 for unknown sources, 46009 for sources that are to run without a worker, 46014 if all these subtasks
    exist.
    """
    unknown = sorted(set(subtasks) - set(state.sources))
    if unknown:
        raise new(
            Code.SchedulerSourceCfgNotExist,
            f"source config with ID {', '.join(unknown)} not exists",
            workaround="Create it with `operate-source create` first.",
        )
    runs = stage != _STOPPED
    replaced = {source for (source, of), known in state.stages.items() if of == task and runs and known == _STOPPED}
    wanted = [source for source in sorted(subtasks) if source in replaced or (source, task) not in state.subtasks]
    if not wanted:
        raise new(
            Code.SchedulerSubTaskExist,
            f"subtasks with name {task} for sources {', '.join(sorted(subtasks))} already exist",
            workaround="`query-status` shows them; stop the task first to start it with other settings.",
        )
    unbound = sorted(set(wanted) & set(state.unbound_sources()))
    if unbound and runs:
        raise new(
            Code.SchedulerSourcesUnbound,
            f"sources {', '.join(unbound)} have not bound",
            workaround="Start more workers, one for each source; `list-member --worker` shows who serves what.",
        )
    ops: list[EtcdOperation] = [Put(keys.TASK_TEXT.key(task), text)]
    for source in wanted:
        ops += [Put(keys.SUBTASK.key(source, task), subtasks[source]), _put_stage(stage, source, task)]
        if source in modes:
            ops.append(_put_validator(ValidatorStage("Running", source, task, modes[source])))
    orders = [Delete(keys.BINLOG_OPERATOR.prefix(source, task), prefix=True) for source in wanted if drop_operators]
    return Plan(tuple(ops), side_ops=(*orders, *_forget_tables(task, wanted)))


def set_stage(state: Topology, task: str, sources: Sequence[str], stage: str, *, safe_mode: bool = False) -> Plan:
    """Stores ``stage`` as the desired one in the task's ``sources`` (none = every source of the task).

    It writes even the same stage: that resumes a subtask that an error paused. ``safe_mode``: the batch at which it
    stopped is then applied again in safe mode. Raises 46015, 46018 or 46017.
    """
    if stage not in SETTABLE_STAGES:
        raise new(Code.SchedulerSubTaskStageInvalidUpdate, f"a subtask's stage cannot be set to {stage}")
    return Plan(tuple(_put_stage(stage, source, task, safe_mode) for source in _chosen(state, task, sources)))


def update_task(state: Topology, task: str, text: str, subtasks: Mapping[str, str]) -> Plan:
    """Replaces the task's file and its ``subtasks`` (source → config); those of new sources are Stopped.

    Raises 46018 for an unknown task, 46008 for unknown sources, and 46035 if a subtask runs or would be left out.
    """
    existing = _chosen(state, task, ())
    unknown = sorted(set(subtasks) - set(state.sources))
    if unknown:
        raise new(
            Code.SchedulerSourceCfgNotExist,
            f"source config with ID {', '.join(unknown)} not exists",
            workaround="Create it with `operate-source create` first.",
        )
    missing = sorted(set(existing) - set(subtasks))
    if missing:
        raise new(
            Code.SchedulerSubTaskCfgUpdate,
            f"task {task} has subtasks of sources {', '.join(missing)}, which the new configuration leaves out",
            workaround=f"Keep them in the file, or remove them first: `stop-task {task}` -s {missing[0]}.",
        )
    running = [source for source in existing if state.stages.get((source, task)) not in (_STOPPED, "Paused")]
    if running:
        raise new(
            Code.SchedulerSubTaskCfgUpdate,
            f"task {task} runs on sources {', '.join(running)}: it cannot be changed meanwhile",
            workaround=f"`pause-task {task}` first, and `resume-task {task}` after the change.",
        )
    ops: list[EtcdOperation] = [Put(keys.TASK_TEXT.key(task), text)]
    for source in sorted(subtasks):
        ops.append(Put(keys.SUBTASK.key(source, task), subtasks[source]))
        if source not in existing:
            ops.append(_put_stage(_STOPPED, source, task))
    return Plan(tuple(ops), side_ops=_forget_tables(task, subtasks))


def stop_task(state: Topology, task: str, sources: Sequence[str]) -> Plan:
    """Removes the task's subtasks of ``sources`` (none = all), and the task's file with the last one.

    Raises 46018 or 46017.
    """
    chosen = _chosen(state, task, sources)
    ops: list[EtcdOperation] = []
    for source in chosen:
        ops += [
            Delete(keys.SUBTASK.key(source, task)),
            Delete(keys.SUBTASK_STAGE.key(source, task)),
            Delete(keys.VALIDATOR_STAGE.key(source, task)),
            Delete(keys.LOAD_TASK.key(task, source)),
        ]
    if len(chosen) == len(state.sources_of(task)):
        ops.append(Delete(keys.TASK_TEXT.key(task)))
    return Plan(tuple(ops), side_ops=_forget_tables(task, chosen))


def start_validation(state: Topology, task: str, sources: Sequence[str], mode: str, since: Mapping[str, str]) -> Plan:
    """Starts the validators of the task's ``sources`` (none = all), in ``mode``; '' keeps each one's own, full if it
    has none. ``since``: by source, the position of a start by time. Raises 46018 or 46017, and 46035 for a mode or a
    position while one of them runs."""
    chosen = _chosen(state, task, sources)
    running = [source for source in chosen if _runs(state, source, task)]
    if (mode or since) and running:
        raise new(
            Code.SchedulerSubTaskCfgUpdate,
            f"validators of task {task} are already enabled for sources {', '.join(running)}: mode and start stay",
            workaround=f"`dmctl validation stop {task}` first.",
        )
    records = []
    for source in chosen:
        known = state.validators.get((source, task))
        chosen_mode = mode or (known.mode if known else "full")
        records.append(ValidatorStage("Running", source, task, chosen_mode, since.get(source, "")))
    return Plan(tuple(map(_put_validator, records)))


def stop_validation(state: Topology, task: str, sources: Sequence[str]) -> Plan:
    """Stops the validators of the task's ``sources`` (none = all). Raises 46018 or 46017, and 43006 when none of them
    has a validator."""
    known = [
        state.validators[source, task] for source in _chosen(state, task, sources) if (source, task) in state.validators
    ]
    if not known:
        raise new(
            Code.ValidatorNotFound,
            f"validator not found for task {task}",
            workaround=f"`dmctl validation start {task}` starts one.",
        )
    return Plan(tuple(_put_validator(replace(record, expect="Stopped")) for record in known))


def _runs(state: Topology, source: str, task: str) -> bool:
    known = state.validators.get((source, task))
    return known is not None and known.expect == "Running"


def _put_validator(record: ValidatorStage) -> Put:
    return Put(keys.VALIDATOR_STAGE.key(record.source, record.task), record.to_json())


def _forget_tables(task: str, sources: Iterable[str]) -> tuple[EtcdOperation, ...]:
    """Removes where the tables of the sources are routed, which holds for one configuration of the subtasks: until a
    source reports again, the locks of merged tables wait for it."""
    return tuple(Delete(keys.SHARD_DDL_TABLES.key(task, source)) for source in sorted(sources))


def _put_stage(stage: str, source: str, task: str, safe_mode: bool = False) -> Put:
    return Put(keys.SUBTASK_STAGE.key(source, task), SubTaskStage(stage, source, task, safe_mode).to_json())


def _chosen(state: Topology, task: str, sources: Sequence[str]) -> list[str]:
    existing = state.sources_of(task)
    if not existing:
        raise new(
            Code.SchedulerTaskNotExist,
            f"task with name {task} not exist",
            workaround="`query-status` lists the tasks.",
        )
    missing = sorted(set(sources) - set(existing))
    if missing:
        raise new(
            Code.SchedulerSubTaskOpSourceNotExist,
            f"task {task} has no subtask of sources {', '.join(missing)}",
            workaround=f"`query-status {task}` shows its sources.",
        )
    return sorted(set(sources)) or existing
