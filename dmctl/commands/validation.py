"""validation start|stop|status|show-error|ignore-error|resolve-error|clear-error|update."""

from __future__ import annotations

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import CommandGroup, DMCommand
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker

_STATES = {"all": worker.InvalidErr, "ignored": worker.IgnoredErr, "unprocessed": worker.NewErr}
_STAGES = {"": worker.InvalidStage, "running": worker.Running, "stopped": worker.Stopped}


@click.group("validation", cls=CommandGroup)
def validation() -> None:
    """Compares what is replicated with the target, continuously."""


def _task(task: str | None, all_tasks: bool) -> str:
    """The task's name, empty for all tasks."""
    if all_tasks == (task is not None):
        raise click.UsageError("either a task or --all-task is needed")
    return files.task_name(task) if task else ""


@validation.command("start")
@click.argument("task", required=False)
@click.option("--all-task", "all_tasks", is_flag=True)
@click.option("--mode", default=None, help="full (the default) or fast.")
@click.option("--start-time", default=None, help="Compare what was applied since then, too: by a round of the sweep.")
@click.pass_obj
def start(context: CommandContext, task: str | None, all_tasks: bool, mode: str | None, start_time: str | None) -> None:
    """Starts validation of a task."""
    request = master.StartValidationRequest(taskName=_task(task, all_tasks), sources=context.sources)
    if mode is not None:
        request.mode_value = pick(mode, ["full", "fast"], "mode")
    if start_time is not None:
        request.start_time_value = start_time
    context.run("StartValidation", request)


@validation.command("stop")
@click.argument("task", required=False)
@click.option("--all-task", "all_tasks", is_flag=True)
@click.pass_obj
def stop(context: CommandContext, task: str | None, all_tasks: bool) -> None:
    """Stops validation of a task."""
    request = master.StopValidationRequest(taskName=_task(task, all_tasks), sources=context.sources)
    context.run("StopValidation", request)


@validation.command("status")
@click.argument("task")
@click.option("--table-stage", default="", help="Only tables that are running or stopped.")
@click.pass_obj
def status(context: CommandContext, task: str, table_stage: str) -> None:
    """Shows how far validation of a task is."""
    stage = _STAGES[pick(table_stage, list(_STAGES), "stage")]
    request = worker.GetValidationStatusRequest(taskName=files.task_name(task), filterStatus=stage)
    context.run("GetValidationStatus", request)


@validation.command("show-error")
@click.argument("task")
@click.option("--error", default="unprocessed", help="all, ignored or unprocessed.")
@click.pass_obj
def show_error(context: CommandContext, task: str, error: str) -> None:
    """Shows rows that differ."""
    state = _STATES[pick(error, list(_STATES), "state")]
    request = worker.GetValidationErrorRequest(taskName=files.task_name(task), errState=state)
    context.run("GetValidationError", request)


def _mark(name: str, op: worker.ValidationErrOp, text: str) -> click.Command:
    @click.command(name, help=text, cls=DMCommand)
    @click.argument("task")
    @click.argument("error_id", type=click.IntRange(min=0), required=False)
    @click.option("--all", "all_errors", is_flag=True, help="All rows of the task.")
    @click.pass_obj
    def command(context: CommandContext, task: str, error_id: int | None, all_errors: bool) -> None:
        if all_errors == (error_id is not None):
            raise click.UsageError("either a row's id or --all is needed")
        request = worker.OperateValidationErrorRequest(
            op=op, isAllError=all_errors, taskName=files.task_name(task), errId=error_id or 0
        )
        context.run("OperateValidationError", request)

    return command


validation.add_command(_mark("ignore-error", worker.IgnoreErrOp, "Ignores a row that differs."))
validation.add_command(_mark("resolve-error", worker.ResolveErrOp, "Marks a row that differs as resolved."))
validation.add_command(_mark("clear-error", worker.ClearErrOp, "Forgets a row that differs."))


@validation.command("update")
@click.argument("task")
@click.option("--cutover-binlog-pos", default="", help='Like "(mysql-bin.000001, 5989)".')
@click.option("--cutover-binlog-gtid", default="")
@click.pass_obj
def update(context: CommandContext, task: str, cutover_binlog_pos: str, cutover_binlog_gtid: str) -> None:
    """Sets where the application switches over to the target."""
    if bool(cutover_binlog_pos) == bool(cutover_binlog_gtid):
        raise click.UsageError("exactly one of --cutover-binlog-pos and --cutover-binlog-gtid is needed")
    request = master.UpdateValidationRequest(
        taskName=files.task_name(task),
        sources=context.sources,
        binlogPos=cutover_binlog_pos,
        binlogGTID=cutover_binlog_gtid,
    )
    context.run("UpdateValidation", request)
