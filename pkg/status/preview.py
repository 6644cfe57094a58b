"""Describes the effects of a request before it is sent, the same for ``dmctl --preview`` and the console. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker


@dataclass(frozen=True, slots=True)
class Preview:
    """``command``: the command line that sends the same request, '' if only the OpenAPI sends it; ``effects``:
    sentences; ``danger``: whether something is lost that can't be restored."""

    title: str
    command: str
    effects: tuple[str, ...]
    danger: bool = False

    def lines(self) -> list[str]:
        command = [f"Command: {self.command}"] if self.command else []
        return [self.title, *(f"  {effect}" for effect in self.effects), *command]


def preview(method: str, request: Any) -> Preview | None:
    """None for a request that changes nothing."""
    describe = _METHODS.get(method)
    return None if describe is None else describe(request)


def _command(*words: str, sources: Iterable[str] = ()) -> str:
    chosen = ",".join(sources)
    return shlex.join(["dmctl", *filter(None, words), *(["-s", chosen] if chosen else [])])


def _whose(task: str, sources: Iterable[str]) -> str:
    chosen = ", ".join(sources)
    return f"task {task} on {chosen}" if chosen else f"task {task} on all of its sources"


def _name_in(text: str, key: str) -> str:
    """The value of a key of a YAML file; the file may have mistakes."""
    found = re.search(rf"^{key}:[ \t]*(?P<quote>[\"']?)(.+?)(?P=quote)[ \t\r]*$", text, re.MULTILINE)
    return found[2] if found else ""


_PAUSE = (
    "What has begun is completed first; then the subtask stops and keeps its checkpoint.",
    "The upstream keeps writing: the lag grows until the task is resumed, and needed binlog files must not be purged.",
)
_RESUME = (
    "The subtask continues from its checkpoint: nothing is applied twice, nothing is left out.",
    "If the cause of an error is still there, it stops again with the same error.",
)
_SAFE_MODE = "The batch that the target refused is applied again in safe mode: existing rows are replaced."
_STOP = (
    "The subtask ends and leaves the cluster. The target's rows and the checkpoint stay.",
    "To continue later, start the task again with its file, without --remove-meta.",
)

_STOP_AND_KEEP = ("The subtask ends; its configuration and the checkpoint stay, so that it can be started again.",)
_FORCE = "If the target does not answer, the checkpoints stay there, and the task is removed nevertheless."
_REMOVE = (
    "The task ends and leaves the cluster, and its checkpoints are removed from the target. The target's rows stay.",
)


def _operate_task(request: master.OperateTaskRequest) -> Preview | None:
    whose = _whose(request.name, request.sources)
    if request.op == worker.Pause:
        return Preview(f"Pause {whose}", _command("pause-task", request.name, sources=request.sources), _PAUSE)
    if request.op == worker.Resume:
        command = _command(
            "resume-task", request.name, "--safe-mode" if request.safeMode else "", sources=request.sources
        )
        return Preview(f"Resume {whose}", command, (*_RESUME, *([_SAFE_MODE] if request.safeMode else [])))
    if request.op == worker.Start:
        return Preview(f"Start {whose}", "", _RESUME)
    if request.op == worker.Stop and request.keep:
        return Preview(f"Stop {whose}", "", _STOP_AND_KEEP)
    if request.op == worker.Delete and request.removeMeta:
        return Preview(f"Remove {whose}", "", (*_REMOVE, *([_FORCE] if request.force else [])), danger=True)
    if request.op in (worker.Stop, worker.Delete):
        return Preview(
            f"Stop {whose}", _command("stop-task", request.name, sources=request.sources), _STOP, danger=True
        )
    return None


_ORDERS: dict[int, tuple[str, str]] = {
    worker.Skip: ("skip", "The target does not execute the statement; the known structure follows it."),
    worker.Replace: ("replace", "The target executes the given statements in its place."),
    worker.Inject: ("inject", "The target executes the given statements before it."),
    worker.Revert: ("revert", "The order for the statement is removed; the statement is executed as it is."),
}


def _handle_error(request: master.HandleErrorRequest) -> Preview | None:
    if request.op not in _ORDERS:
        return None
    word, effect = _ORDERS[request.op]
    where = f"the statement at {request.binlogPos}" if request.binlogPos else "the statement of the present error"
    position = ("-b", request.binlogPos) if request.binlogPos else ()
    command = _command("binlog", word, request.task, *position, *request.sqls, sources=request.sources)
    return Preview(
        f"{word.capitalize()}: {where}, {_whose(request.task, request.sources)}",
        command,
        (effect, "Only a statement can be skipped, never rows. Then the subtask resumes."),
        danger=request.op == worker.Skip,
    )


def _unlock(request: master.UnlockDDLLockRequest) -> Preview:
    owner = ("-o", request.replaceOwner) if request.replaceOwner else ()
    executes = request.op == master.ExecLock
    places = ("-d", request.database, "-t", request.table) if request.table else ()
    command = _command(
        "shard-ddl-lock", "unlock", request.ID, *owner, *(("-f",) if request.forceRemove else ()),
        *(("-a", "exec") if executes else ()), *places, sources=request.sources,
    )  # fmt: skip
    who = f"Source {request.replaceOwner}" if request.replaceOwner else "The owner"
    effects = [
        f"{who} executes the lock's DDL at the target now, although not all shards have sent it.",
        "The sources that wait "
        + ("execute it, too." if executes else "leave it out, and continue with the rows after it."),
        "A shard that has not sent the DDL yet may send rows that no longer fit the target's table.",
    ]
    if request.forceRemove:
        effects.append("The lock is removed even if a source fails.")
    return Preview(f"Unlock {request.ID}", command, tuple(effects), danger=True)


_CREATE_SOURCE = (
    "The master connects to the upstream and checks the configuration; a mistake changes nothing.",
    "A free worker then serves the source.",
)
_STOP_SOURCE = (
    "The source leaves the cluster, and its worker becomes free.",
    "Tasks that use it must be stopped first.",
)


_ENABLE_SOURCE = (
    "Tasks may run on the source again.",
    "Those that are stopped there are checked and start, each from its checkpoint.",
)
_DISABLE_SOURCE = (
    "The tasks on the source stop; they and their checkpoints stay. On other sources they continue.",
    "No task starts on it until it is enabled. The upstream keeps writing: needed binlog files must not be purged.",
)


def _operate_source(request: master.OperateSourceRequest) -> Preview | None:
    worker_words = ["-w", request.workerName] if request.workerName else []
    if request.op == master.StartSource:
        command = _command("operate-source", "create", "source.yaml", *worker_words)
        names = ", ".join(filter(None, (_name_in(text, "source-id") for text in request.config)))
        return Preview(f"Add source {names}" if names else "Add a source", command, _CREATE_SOURCE)
    if request.op == master.UpdateSource:
        return Preview("Update a source", _command("operate-source", "update", "source.yaml"), _CREATE_SOURCE[:1])
    if request.op == master.EnableSource:
        command = _command("operate-source", "enable", *request.sourceID)
        return Preview(f"Enable source {', '.join(request.sourceID)}", command, _ENABLE_SOURCE)
    if request.op == master.DisableSource:
        command = _command("operate-source", "disable", *request.sourceID)
        return Preview(f"Disable source {', '.join(request.sourceID)}", command, _DISABLE_SOURCE)
    if request.op == master.StopSource:
        names = f"source {', '.join(request.sourceID)}" if request.sourceID else "the source of the file"
        return Preview(
            f"Remove {names}", _command("operate-source", "stop", *request.sourceID), _STOP_SOURCE, danger=True
        )
    return None


def _start_task(request: master.StartTaskRequest) -> Preview:
    effects = [
        "The checks of check-task run first; if one fails, nothing is changed.",
        "Then the task's subtasks start: a full copy where the mode has one, then replication.",
    ]
    if request.removeMeta:
        effects.append("The task's earlier checkpoints are removed: it starts from the beginning.")
    flags = ["--remove-meta"] if request.removeMeta else []
    ends = (("--start-time", request.startTime), ("--until-position", request.untilPosition),
            ("--until-gtid", request.untilGTID), ("--until-time", request.untilTime))  # fmt: skip
    words = [word for flag, value in ends if value for word in (flag, value)]
    command = _command("start-task", "task.yaml", *flags, *words, sources=request.sources)
    name = _name_in(request.task, "name")
    return Preview(
        f"Start task {name}" if name else "Start the task", command, tuple(effects), danger=request.removeMeta
    )


def _store_task(request: master.StoreTaskRequest) -> Preview:
    return Preview(f"Store task {_name_in(request.task, 'name')}", "", ("The task is Stopped until it is started.",))


def _update_task(request: master.UpdateTaskRequest) -> Preview:
    effects = ("The stored configuration is replaced; the paused or stopped task uses it when it continues.",)
    command = _command("config", "task", "update", "task.yaml")
    return Preview(f"Update task {_name_in(request.task, 'name')}", command, effects)


_TEMPLATE_WORDS = {
    master.CreateTemplate: "Create",
    master.UpdateTemplate: "Update",
    master.DeleteTemplate: "Delete",
    master.ImportTemplates: "Import",
}


def _operate_template(request: master.OperateTaskTemplateRequest) -> Preview | None:
    if request.op not in _TEMPLATE_WORDS:
        return None
    name = request.name or _name_in(request.task, "name")
    which = f"template {name}" if name else "the tasks as templates"
    return Preview(f"{_TEMPLATE_WORDS[request.op]} {which}", "", ("No task changes.",))


def _operate_cutover(request: master.OperateCutoverRequest) -> Preview | None:
    task = request.task
    if request.op == master.RunCutover:
        accepted = [word for name in request.accept for word in ("--accept", name)]
        quiet = ("--quiet-seconds", f"{request.seconds:g}") if request.seconds else ()
        effects = (
            "The checks of `cutover check` run first; if one fails, the task continues.",
            "Then AUTO_INCREMENT is set at the target, all rows are compared, and the task ends at one position.",
        )
        command = _command("cutover", "run", task, *quiet, *accepted)
        return Preview(f"Cut task {task} over", command, effects, danger=True)
    if request.op == master.EndCutover:
        effect = "The upstreams are no longer watched, and the task can be resumed or stopped again."
        return Preview(f"End the cutover of task {task}", _command("cutover", "end", task), (effect,))
    if request.op == master.ReverseCutover:
        effect = "The opposite task starts: what applications write to the target reaches the old upstreams."
        return Preview(f"Reverse task {task}", _command("cutover", "reverse", task), (effect,))
    return None


def _switch_relay(request: master.OperateWorkerRelayRequest) -> Preview | None:
    names = ", ".join(request.sources)
    if request.op == worker.PauseRelay:
        effects = (
            "Fetching the upstream's binlog stops. Subtasks continue to the end of the fetched files, then wait.",
            "The upstream must keep the files that are not fetched yet.",
        )
        return Preview(f"Pause the relay log of {names}", _command("pause-relay", sources=request.sources), effects)
    if request.op == worker.ResumeRelay:
        command = _command("resume-relay", sources=request.sources)
        return Preview(f"Resume the relay log of {names}", command, ("The relay log continues where it stopped.",))
    return None


def _operate_relay(request: master.OperateRelayRequest) -> Preview | None:
    if request.op == master.StartRelayV2:
        effects = ("The worker fetches the upstream's binlog into files, and subtasks read these.",)
        command = _command("start-relay", *request.worker, sources=[request.source])
        return Preview(f"Start the relay log of {request.source}", command, effects)
    if request.op == master.StopRelayV2:
        effects = ("Subtasks read from the upstream again; the files stay until they are purged.",)
        command = _command("stop-relay", *request.worker, sources=[request.source])
        return Preview(f"Stop the relay log of {request.source}", command, effects)
    return None


def _purge_relay(request: master.PurgeWorkerRelayRequest) -> Preview:
    folder = ("--sub-dir", request.subDir) if request.subDir else ()
    command = _command("purge-relay", "-f", request.filename, *folder, sources=request.sources)
    effects = (
        f"The relay files before {request.filename} are removed.",
        "If a subtask still needs one of them, nothing is removed.",
    )
    return Preview(f"Purge relay files of {', '.join(request.sources)}", command, effects, danger=True)


def _start_validation(request: master.StartValidationRequest) -> Preview:
    mode = ("--mode", request.mode_value) if request.mode_value else ()
    task = (request.taskName,) if request.taskName else ("--all-task",)
    command = _command("validation", "start", *task, *mode, sources=request.sources)
    effects = ("Each row that is replicated from now on is compared with the target.",)
    return Preview(f"Start validation of {_whose(request.taskName, request.sources)}", command, effects)


def _stop_validation(request: master.StopValidationRequest) -> Preview:
    task = (request.taskName,) if request.taskName else ("--all-task",)
    effects = ("Rows that are replicated while it is stopped are not compared. Found differences stay listed.",)
    command = _command("validation", "stop", *task, sources=request.sources)
    return Preview(f"Stop validation of {_whose(request.taskName, request.sources)}", command, effects)


def _diff(request: master.OperateDiffRequest) -> Preview | None:
    if request.comparison:
        return _servers_diff(request)
    whose = _whose(request.task, request.sources)
    if request.op == worker.StartDiff:
        effects = [
            "All rows of both sides are compared at one position, while applications continue to write.",
            "Replication waits for a moment whenever a snapshot opens. An earlier comparison's results are replaced.",
        ]
        if request.options.repair:
            effects.append("Rows of the target that differ get the upstream's values.")
        flags = ("--repair",) if request.options.repair else ()
        command = _command("diff", "start", request.task, *flags, sources=request.sources)
        return Preview(f"Compare {whose}", command, tuple(effects), danger=request.options.repair)
    if request.op == worker.StopDiff:
        command = _command("diff", "stop", request.task, sources=request.sources)
        return Preview(f"End the comparison of {whose}", command, ("The results so far stay.",))
    return None


def _servers_diff(request: master.OperateDiffRequest) -> Preview | None:
    title = f"the servers of comparison {request.comparison}"
    if request.op == worker.StartDiff:
        effects = (
            "All rows of both sides are read on a worker, and nothing is written to the servers.",
            "Rows that differ are read again: without a task, replication may not have delivered them yet.",
        )
        return Preview(
            f"Compare {title}", _command("diff", "start", "--config", "FILE.yaml", sources=request.sources), effects
        )
    if request.op == worker.StopDiff:
        command = _command("diff", "stop", "--config", "FILE.yaml", sources=())
        return Preview(f"End the comparison of {title}", command, ("The results so far stay.",))
    return None


def _transfer(request: master.TransferSourceRequest) -> Preview:
    effects = ("Running tasks of the source are paused for the move and continue afterwards.",)
    command = _command("transfer-source", request.source, request.worker)
    return Preview(f"Move source {request.source} to worker {request.worker}", command, effects)


def _offline(request: master.OfflineMemberRequest) -> Preview:
    command = _command("offline-member", f"--{request.type}", "--name", request.name)
    effects = ("The member leaves the cluster for good; its process must be stopped already.",)
    return Preview(f"Remove {request.type} {request.name}", command, effects, danger=True)


def _leader(request: master.OperateLeaderRequest) -> Preview | None:
    if request.op == master.EvictLeaderOp:
        effects = ("This master gives up leadership and does not lead again until that is canceled.",)
        return Preview("Evict the leader", _command("operate-leader", "evict"), effects)
    if request.op == master.CancelEvictLeaderOp:
        effects = ("This master may lead again.",)
        return Preview("Cancel the eviction", _command("operate-leader", "cancel-evict"), effects)
    return None


_SCHEMA_EFFECTS = {
    worker.SetSchema: "The task takes this structure of the table as the known one.",
    worker.RemoveSchema: "The task forgets the structure of the table, and reads it again when it needs it.",
}


def _operate_schema(request: master.OperateSchemaRequest) -> Preview | None:
    if request.op not in _SCHEMA_EFFECTS:
        return None
    words = ("update",) if request.op == worker.SetSchema else ("delete",)
    file = ("schema.sql",) if request.op == worker.SetSchema and request.schema else ()
    places = (request.task, request.database, request.table)
    command = _command("binlog-schema", *words, *places, *file, sources=request.sources)
    title = f"Change the known structure of {request.database}.{request.table}, {_whose(request.task, request.sources)}"
    return Preview(title, command, (_SCHEMA_EFFECTS[request.op],))


def _hand_back(request: master.HandBackRequest) -> Preview | None:
    if not request.execute:
        return None
    effects = ("The checkpoint is written in the form from which DM continues.",)
    return Preview(f"Hand task {request.task} back to DM", _command("hand-back", request.task, "--yes"), effects)


def _update_validation(request: master.UpdateValidationRequest) -> Preview:
    at = ("--cutover-binlog-pos", request.binlogPos, "--cutover-binlog-gtid", request.binlogGTID)
    words = [word for flag, value in zip(at[::2], at[1::2], strict=True) if value for word in (flag, value)]
    command = _command("validation", "update", request.taskName, *words, sources=request.sources)
    effects = ("The validation stores this position as the point at which the applications move to the target.",)
    return Preview(f"Set the cutover's position of {_whose(request.taskName, request.sources)}", command, effects)


_MARKS = {
    worker.IgnoreErrOp: ("ignore-error", "Ignore", "It no longer counts, also if it is found to differ again."),
    worker.ResolveErrOp: ("resolve-error", "Resolve", "It counts again if it is found to differ again."),
    worker.ClearErrOp: ("clear-error", "Clear", "It leaves the list with its values; if found again, it is new."),
}


def _mark_difference(request: worker.OperateValidationErrorRequest) -> Preview | None:
    if request.op not in _MARKS:
        return None
    command_word, verb, effect = _MARKS[request.op]
    which = "--all" if request.isAllError else str(request.errId)
    rows = "all rows that differ" if request.isAllError else f"row {request.errId} that differs"
    command = _command("validation", command_word, request.taskName, which)
    effects = ("The target's row is not changed.", effect)
    return Preview(f"{verb} {rows}, task {request.taskName}", command, effects, danger=request.op == worker.ClearErrOp)


_METHODS: dict[str, Callable[[Any], Preview | None]] = {
    "OperateTask": _operate_task,
    "HandleError": _handle_error,
    "UnlockDDLLock": _unlock,
    "OperateSource": _operate_source,
    "StartTask": _start_task,
    "StoreTask": _store_task,
    "UpdateTask": _update_task,
    "OperateTaskTemplate": _operate_template,
    "OperateCutover": _operate_cutover,
    "OperateWorkerRelayTask": _switch_relay,
    "OperateRelay": _operate_relay,
    "PurgeWorkerRelay": _purge_relay,
    "StartValidation": _start_validation,
    "StopValidation": _stop_validation,
    "OperateDiff": _diff,
    "TransferSource": _transfer,
    "OfflineMember": _offline,
    "OperateLeader": _leader,
    "OperateSchema": _operate_schema,
    "HandBack": _hand_back,
    "UpdateValidation": _update_validation,
    "OperateValidationError": _mark_difference,
}
