"""binlog skip|replace|revert|inject|list, and the older handle-error."""

from __future__ import annotations

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import CommandGroup, DMCommand
from pkg.errors import DMError
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker

_OPERATIONS = {
    "skip": worker.Skip,
    "replace": worker.Replace,
    "revert": worker.Revert,
    "inject": worker.Inject,
    "list": worker.List,
}
_WITH_STATEMENTS = ("replace", "inject")


@click.group("binlog", cls=CommandGroup)
def binlog() -> None:
    """Skips, replaces or injects statements at a binlog position: that of the current error, or the one given.

    An order stays stored until the task's checkpoint has passed its position.
    """


def _separated(text: str) -> list[str]:
    from pkg.ddl import separate

    try:
        return separate(text)
    except DMError as exc:
        raise click.UsageError(f"invalid sql: {exc.message}") from exc


def _checked(position: str) -> str:
    from pkg.binlog.position import parse_position

    try:
        if position:
            parse_position(position)
    except DMError as exc:
        raise click.UsageError(f"invalid --binlog-pos {position} in handle-error operation: {exc.message}") from exc
    return position


def _handle(context: CommandContext, operation: str, task: str, position: str, statements: tuple[str, ...]) -> None:
    # Checked before the task's file is read: these mistakes do not depend on the task.
    checked = _checked(position)
    # Without quotes the shell or the prompt splits a statement at its blanks.
    sqls = _separated(" ".join(statements))
    if operation in _WITH_STATEMENTS and not sqls:
        raise click.UsageError(f"{operation} needs the statements to execute in place of the event")
    if operation not in _WITH_STATEMENTS and sqls:
        raise click.UsageError(f"{operation} takes no statements")
    request = master.HandleErrorRequest(
        op=_OPERATIONS[operation],
        task=files.task_name(task),
        sources=context.sources,
        binlogPos=checked,
        sqls=sqls,
    )
    context.run("HandleError", request)


_position = click.option(
    "-b",
    "--binlog-pos",
    "position",
    default="",
    help="The event's position, such as mysql-bin.000003:3270; by default the position of the error.",
)


def _operation(operation: str, text: str) -> click.Command:
    @click.command(operation, help=text, cls=DMCommand)
    @click.argument("task")
    @click.argument("statements", nargs=-1)
    @_position
    @click.pass_obj
    def command(context: CommandContext, task: str, statements: tuple[str, ...], position: str) -> None:
        _handle(context, operation, task, position, statements)

    return command


for _name, _text in {
    "skip": "Leaves a statement out.",
    "replace": "Executes other statements (DDL, with schema names) in its place.",
    "revert": "Takes back an earlier skip, replace or inject.",
    "inject": "Executes statements (DDL, with schema names) before it.",
    "list": "Lists the operator orders (skip, replace, inject) at the position and after it.",
}.items():
    binlog.add_command(_operation(_name, _text))


@click.command("handle-error", cls=DMCommand)
@click.argument("task")
@click.argument("operation", metavar="skip|replace|revert")
@click.argument("statements", nargs=-1)
@_position
@click.pass_obj
def handle_error(
    context: CommandContext, task: str, operation: str, statements: tuple[str, ...], position: str
) -> None:
    """Older spelling of binlog."""
    _handle(context, pick(operation, ["skip", "replace", "revert"], "operation"), task, position, statements)
