"""show-rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import DMCommand
from dmctl.failure import CommandError
from pkg.pb import dmmaster_pb2 as master


@click.command("show-rules", cls=DMCommand)
@click.argument("task_file")
@click.option("-o", "--output", default="table", help="table (for people) or json (everything).")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=100,
    help="The maximum number of tables to show of each kind; 0 for all.",
)
@click.pass_obj
def show_rules(context: CommandContext, task_file: str, output: str, limit: int) -> None:
    """Shows what a task's rules would do with each upstream table: its target and why, or why it is left out.

    Nothing is started or changed. -s limits it to some sources.
    """
    pick(output, ("table", "json"), "output")
    request = master.ShowRulesRequest(task=files.read_task(task_file), sources=context.sources)
    answer = context.call("ShowRules", request)
    if output == "json":
        context.show(answer)
        return
    if not answer.result:
        raise CommandError(answer.msg)
    context.print("\n".join(report(answer, limit)))


def report(answer: master.ShowRulesResponse, limit: int) -> Iterator[str]:
    """The lines for people: problems first, then the migrated tables, then the rest."""
    kinds = (
        ("Problems", [one for one in answer.tables if one.problem], _problem),
        ("Migrated", [one for one in answer.tables if not one.problem and not one.leftOut], _migrated),
        ("Left out", [one for one in answer.tables if one.leftOut], _left_out),
    )
    for title, tables, lines in kinds:
        if not tables:
            continue
        yield f"{title}:"
        shown = tables[:limit] if limit else tables
        width = max(len(_source_table(one)) for one in shown)
        for one in shown:
            yield from lines(one, width)
        if len(shown) < len(tables):
            yield f"  … and {len(tables) - len(shown)} more (--limit 0 shows all)"
        yield ""
    if answer.summary.unused:
        yield "Rules that do nothing:"
        yield from (f"  {line}" for line in answer.summary.unused)
        yield ""
    counts = answer.summary
    yield f"{counts.tables} tables go to {counts.targets} target tables; {counts.leftOut} are left out."


def _source_table(one: master.TableRules) -> str:
    return f"{one.source}  `{one.schema}`.`{one.table}`"


def _problem(one: master.TableRules, width: int) -> Sequence[str]:
    return [f"  {_source_table(one)}", f"      {one.problem}", *_rules(one)]


def _migrated(one: master.TableRules, width: int) -> Sequence[str]:
    return [f"  {_source_table(one):{width}}  →  `{one.targetSchema}`.`{one.targetTable}`", *_rules(one)]


def _left_out(one: master.TableRules, width: int) -> Sequence[str]:
    return [f"  {_source_table(one):{width}}  {one.leftOut}"]


def _rules(one: master.TableRules) -> list[str]:
    return [
        f"      {rule.block} {rule.name}, {rule.pattern}{f' ({rule.place})' if rule.place else ''}: {rule.effect}"
        for rule in one.rules
    ]
