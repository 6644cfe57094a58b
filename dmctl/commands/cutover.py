"""cutover check."""

from __future__ import annotations

from collections.abc import Iterator

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import CommandGroup, DMCommand
from dmctl.failure import CommandError
from pkg.pb import dmmaster_pb2 as master


@click.group("cutover", cls=CommandGroup)
def cutover() -> None:
    """Checks whether applications may move from the upstreams to the target."""


@cutover.command("check", cls=DMCommand)
@click.argument("task", metavar="TASK | TASK_FILE")
@click.option(
    "--quiet-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How long the upstreams' binlogs must not grow.",
)
@click.option("--accept", multiple=True, metavar="CHECK", help="A check that need not be passed; several times.")
@click.option("-o", "--output", default="table", help="table (for people) or json (everything).")
@click.pass_obj
def check(context: CommandContext, task: str, quiet_seconds: float, accept: tuple[str, ...], output: str) -> None:
    """Checks everything that a cutover needs, with evidence, and shows the command that mends what is missing.

    It changes nothing. It exits with 1 unless each check is passed or accepted. See docs/cutover.md.
    """
    pick(output, ("table", "json"), "output")
    request = master.CheckCutoverRequest(task=files.task_name(task), seconds=quiet_seconds, accept=accept)
    answer = context.call("CheckCutover", request)
    if output == "json":
        context.show(answer)
    elif answer.checks:
        context.print("\n".join(report(answer)))
    if not answer.result:
        raise CommandError(answer.msg)


def report(answer: master.CheckCutoverResponse) -> Iterator[str]:
    """The lines for people: one for each check, its evidence and its remedy under it."""
    width = max(len(one.name) for one in answer.checks)
    for one in answer.checks:
        verdict = f"{one.verdict} (accepted)" if one.accepted else one.verdict
        first, *more = one.evidence or ("",)
        yield f"{one.name:{width}}  {verdict:14}  {first}"
        indent = " " * (width + 18)
        yield from (f"{indent}{line}" for line in more)
        if one.remedy and not one.accepted:
            yield f"{indent}→ {one.remedy}"
    if answer.result:
        yield answer.msg
