"""start-task, stop-task, pause-task, resume-task, check-task."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands.command import DMCommand
from dmctl.failure import CommandError
from pkg.errors import DMError
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.rpc import pbjson

#: The beginning of a report.
MARK = "fail to check synchronization configuration with type"
_DETAIL = "detail: "
_PLACE = "\x00"


@click.command("start-task", cls=DMCommand)
@click.argument("task_file")
@click.option("--remove-meta", is_flag=True, help="Remove the task's earlier progress and start from the beginning.")
@click.option("--start-time", default="", help="Start at the first transaction in the binlog that is not older.")
@click.option("--until-position", default="", help="End at this position in the binlog, such as mysql-bin.000003:1234.")
@click.option("--until-gtid", default="", help="End where all transactions of this GTID set are applied.")
@click.option("--until-time", default="", help="End before the first event in the binlog that is not older.")
@click.pass_obj
def start_task(
    context: CommandContext,
    task_file: str,
    remove_meta: bool,
    start_time: str,
    until_position: str,
    until_gtid: str,
    until_time: str,
) -> None:
    """Starts a task as defined in its file."""
    request = master.StartTaskRequest(
        task=files.read_task(task_file),
        sources=context.sources,
        removeMeta=remove_meta,
        startTime=start_time,
        untilPosition=until_position,
        untilGTID=until_gtid,
        untilTime=until_time,
    )
    show_with_report(context, context.call("StartTask", request), "checkResult")


@click.command("check-task", cls=DMCommand)
@click.argument("task_file")
@click.option(
    "-e", "--error", "errors", type=click.IntRange(min=0), default=10, help="The maximum number of errors to show."
)
@click.option(
    "-w", "--warn", "warnings", type=click.IntRange(min=0), default=10, help="The maximum number of warnings to show."
)
@click.option("--start-time", default="", help="Start at the first transaction in the binlog that is not older.")
@click.pass_obj
def check_task(context: CommandContext, task_file: str, errors: int, warnings: int, start_time: str) -> None:
    """Checks whether a task could run."""
    request = master.CheckTaskRequest(
        task=files.read_task(task_file), errCnt=errors, warnCnt=warnings, startTime=start_time
    )
    show_with_report(context, context.call("CheckTask", request), "msg")


def show_with_report(context: CommandContext, answer: Any, field: str) -> None:
    """Prints ``answer``. A report in ``field`` is printed without JSON escapes: for people, not for parsers."""
    text: str = getattr(answer, field)
    if MARK not in text:
        context.show(answer)
        return
    setattr(answer, field, _PLACE)
    context.print(pbjson.to_json(answer).replace(pbjson.quote(_PLACE), f'"{_readable(text)}"', 1))


def _readable(text: str) -> str:
    """``text`` with the JSON after ``detail:`` indented to its column; unchanged if there is none."""
    head, found, detail = text.partition(_DETAIL)
    try:
        value, end = json.JSONDecoder().raw_decode(detail)
    except ValueError:
        return text
    if not found:
        return text
    indented = pbjson.marshal_indent(value).replace("\n", f"\n{pbjson.INDENT * 2}")
    return f"{head.rstrip()}\n{pbjson.INDENT * 2}{_DETAIL}{indented}{detail[end:]}"


def _operation(
    name: str,
    op: worker.TaskOp,
    text: str,
    option: Callable[[Callable[..., None]], Callable[..., None]] = lambda it: it,
) -> click.Command:
    """``option``: a decorator for an additional option of this operation."""

    @click.command(name, help=text, cls=DMCommand)
    @click.argument("task", required=False)
    @click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        default=5,
        help="Without a task name: how many tasks to operate at the same time.",
    )
    @option
    @click.pass_obj
    def command(context: CommandContext, task: str | None, batch_size: int, safe_mode: bool = False) -> None:
        if task is None and safe_mode:
            raise click.UsageError("--safe-mode needs the name of the task")
        if task is None:
            context.print(pbjson.marshal_indent(_operate_source(context, op, batch_size)))
        else:
            name = files.task_name(task)
            context.run(
                "OperateTask",
                master.OperateTaskRequest(op=op, name=name, sources=context.sources, safeMode=safe_mode),
            )

    return command


stop_task = _operation("stop-task", worker.Delete, "Stops a task, or all tasks of the one source given with -s.")
pause_task = _operation("pause-task", worker.Pause, "Pauses a task, or all tasks of the one source given with -s.")
resume_task = _operation(
    "resume-task",
    worker.Resume,
    "Resumes a task, or all tasks of the one source given with -s.",
    click.option(
        "--safe-mode",
        is_flag=True,
        help="Apply the batch that the target refused again, in safe mode.",
    ),
)


def _operate_source(context: CommandContext, op: worker.TaskOp, batch_size: int) -> dict[str, Any]:
    """``op`` on every subtask of one source; returns DM's output."""
    if len(context.sources) != 1:
        raise click.UsageError("can give only one source-name when task-name is not specified")
    source = context.one_source()
    if context.options.preview:
        raise click.UsageError("--preview needs the name of the task")
    status = context.call("QueryStatus", master.QueryStatusListRequest(sources=[source]))
    if not status.result:
        return {"result": False, "msg": status.msg, "tasks": []}
    tasks = sorted({one.name for answer in status.sources for one in answer.subTaskStatus if one.name})
    with ThreadPoolExecutor(batch_size) as pool:
        results = list(pool.map(lambda task: _operate_one(context, op, task, source), tasks))
    return {"result": True, "msg": "", "tasks": results}


def _operate_one(context: CommandContext, op: worker.TaskOp, task: str, source: str) -> dict[str, Any]:
    name = worker.TaskOp.Name(op)
    try:
        answer = context.call("OperateTask", master.OperateTaskRequest(op=op, name=task, sources=[source]))
    except (CommandError, DMError) as exc:
        return {"task": task, "op": name, "result": False, "msg": str(exc), "sources": []}
    return {
        "task": task,
        "op": name,
        "result": answer.result,
        "msg": answer.msg,
        "sources": [_without_defaults(one) for one in answer.sources],
    }


def _without_defaults(answer: worker.CommonWorkerResponse) -> dict[str, Any]:
    """DM leaves out empty and false fields here."""
    values = {"result": answer.result, "msg": answer.msg, "source": answer.source, "worker": answer.worker}
    return {key: value for key, value in values.items() if value}
