"""hand-back."""

from __future__ import annotations

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands.command import DMCommand
from dmctl.failure import CommandError
from pkg.pb import dmmaster_pb2 as master


@click.command("hand-back", cls=DMCommand)
@click.argument("task", metavar="TASK | TASK_FILE")
@click.option(
    "--yes", is_flag=True, help="Write the checkpoint. Without this flag, the command only shows what it would write."
)
@click.pass_obj
def hand_back(context: CommandContext, task: str, yes: bool) -> None:
    """Converts a paused task's checkpoint so that DM can continue from it: structures get DM's form, and parts that DM
    would misread are removed.

    See docs/from-dm.md. A task that is resumed here afterwards takes the checkpoint over as it took DM's.
    """
    name = files.task_name(task)
    answer = context.call("HandBack", master.HandBackRequest(task=name, execute=yes))
    lines = [f"source {one.source}: {one.msg}" for one in answer.sources]
    if not answer.result:
        raise CommandError("\n".join([answer.msg, *lines]))
    context.print("\n".join([*lines, _next(name, done=yes)]))


def _next(task: str, *, done: bool) -> str:
    if not done:
        return f"Nothing was changed. To write it: `dmctl hand-back {task} --yes`."
    return (
        f"Task {task} is handed back. Next: `dmctl stop-task {task}` here, wait until query-status does not show it "
        "any more, then start the task in DM with DM's task file, without --remove-meta."
    )
