"""cutover check|run|status|verify|reverse|end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import CommandGroup, DMCommand
from dmctl.failure import CommandError, UsageError
from pkg.pb import dmmaster_pb2 as master


@click.group("cutover", cls=CommandGroup)
def cutover() -> None:
    """Moves applications from the upstreams to the target: the checks, the end of the task, the certificate."""


def _of_checks(command: Callable[..., None]) -> Callable[..., None]:
    """The options of the checks, the same for `check` and `run`."""
    quiet = click.option(
        "--quiet-seconds",
        type=click.FloatRange(min=0, min_open=True),
        default=5.0,
        show_default=True,
        help="How long the upstreams' binlogs must not grow.",
    )
    accept = click.option(
        "--accept", multiple=True, metavar="CHECK", help="A check that need not be passed; several times."
    )
    return quiet(accept(command))


@cutover.command("check", cls=DMCommand)
@click.argument("task", metavar="TASK | TASK_FILE")
@_of_checks
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
        context.print("\n".join(report(answer.checks)))
        if answer.result:
            context.print(answer.msg)
    if not answer.result:
        raise CommandError(answer.msg)


@cutover.command("run", cls=DMCommand)
@click.argument("task", metavar="TASK | TASK_FILE")
@_of_checks
@click.option(
    "--certificate",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The folder of the certificate's files; the present one by default.",
)
@click.pass_obj
def run(context: CommandContext, task: str, quiet_seconds: float, accept: tuple[str, ...], folder: Path) -> None:
    """Carries the cutover out: checks, AUTO_INCREMENT, a comparison, the end of the task, the certificate.

    It may be interrupted and run again. See docs/cutover.md.
    """
    if not folder.is_dir():
        raise UsageError(f"--certificate: there is no folder {folder}")
    name = files.task_name(task)
    request = master.OperateCutoverRequest(op=master.RunCutover, task=name, seconds=quiet_seconds, accept=accept)
    answer = _until_done(context, request)
    if not answer.certificate:
        if answer.checks:
            context.print("\n".join(report(answer.checks)))
        raise CommandError(answer.msg)
    for path, text in certificate_files(folder, name, answer.certificate):
        path.write_text(text, encoding="utf-8")
        context.print(f"certificate: {path}")
    context.print(f"{answer.msg}: point the applications to the target")


def _until_done(context: CommandContext, request: master.OperateCutoverRequest) -> master.OperateCutoverResponse:
    """The last answer. Each call waits a moment; what was begun continues with the next call, on another leader too."""
    stage = ""
    while True:
        answer: master.OperateCutoverResponse = context.call("OperateCutover", request)
        if answer.done or not answer.result:
            return answer
        if answer.stage != stage:
            stage = answer.stage
            context.print(f"{stage} …")


@cutover.command("status", cls=DMCommand)
@click.argument("task", metavar="TASK | TASK_FILE")
@click.option("-o", "--output", default="table", help="table (for people) or json (everything).")
@click.pass_obj
def status(context: CommandContext, task: str, output: str) -> None:
    """Shows the cutover, and what was written in the upstreams since.

    It exits with 1 when something was written there, or when an upstream is not watched.
    """
    pick(output, ("table", "json"), "output")
    request = master.OperateCutoverRequest(op=master.ShowCutover, task=files.task_name(task))
    answer = context.call("OperateCutover", request)
    if output == "json":
        context.show(answer)
    elif answer.result:
        context.print("\n".join(status_report(answer)))
    if not answer.result:
        raise CommandError(answer.msg)
    if answer.done and (trouble := troubles(answer)):
        raise CommandError("; ".join(trouble))


def troubles(answer: master.OperateCutoverResponse) -> list[str]:
    """Writes in upstreams, and upstreams that are not watched."""
    found = []
    for one in answer.sources:
        if one.watch.writes:
            found.append(f"{one.source}: {one.watch.writes} writes since the cutover")
        if why := one.msg or one.watch.problem:
            found.append(f"{one.source}: not watched: {why}")
    return found


def status_report(answer: master.OperateCutoverResponse) -> Iterator[str]:
    """The lines for people."""
    yield f"cutover: {answer.stage}" + (f", {answer.msg}" if answer.msg else "")
    for one in answer.sources:
        watch = one.watch
        back = f", replicated back by {watch.replicatedBy}" if watch.replicatedBy else ""
        yield f"source {one.source}: ended at {watch.agreed or 'a position that the worker did not tell'}{back}"
        if one.msg or watch.problem:
            yield f"  not watched: {one.msg or watch.problem}"
        last = f", the last at {watch.lastWrite} UTC" if watch.lastWrite else ""
        others = " of others" if watch.replicatedBy else ""
        yield f"  {watch.writes} writes{others} since{last}; read up to {watch.watched or 'there'}"
        yield from (f"    {line}" for line in watch.first)
        if watch.file:
            yield f"  all of them: {watch.file}"


@cutover.command("end", cls=DMCommand)
@click.argument("task", metavar="TASK | TASK_FILE")
@click.pass_obj
def end(context: CommandContext, task: str) -> None:
    """Ends the watch over the upstreams, or an unfinished cutover. The task may then be resumed or stopped."""
    request = master.OperateCutoverRequest(op=master.EndCutover, task=files.task_name(task))
    context.run_or_fail("OperateCutover", request)


@cutover.command("reverse", cls=DMCommand)
@click.argument("task", metavar="TASK | TASK_FILE")
@click.pass_obj
def reverse(context: CommandContext, task: str) -> None:
    """Starts the opposite task: what the target gets from the cutover on is replicated into the upstream.

    The target must be a source too. The watch over the upstreams leaves out what this task writes. See docs/cutover.md.
    """
    request = master.OperateCutoverRequest(op=master.ReverseCutover, task=files.task_name(task))
    context.run_or_fail("OperateCutover", request)


@cutover.command("verify", cls=DMCommand)
@click.argument("certificate", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--task", default="", help="The task whose servers are asked; the certificate's by default.")
@click.option("-o", "--output", default="table", help="table (for people) or json (everything).")
@click.pass_obj
def verify(context: CommandContext, certificate: Path, task: str, output: str) -> None:
    """Says whether target and upstreams are still as at the cutover, else which tables since when not.

    It exits with 1 unless everything is equal.
    """
    pick(output, ("table", "json"), "output")
    text = certificate.read_text(encoding="utf-8")
    name = task or task_of(text)
    answer = context.call(
        "OperateCutover", master.OperateCutoverRequest(op=master.VerifyCutover, task=name, certificate=text)
    )
    if output == "json":
        context.show(answer)
    else:
        for one in answer.tables:
            context.print(f"{one.target}: {one.state}" + (f" since {one.since}" if one.since else ""))
        if answer.result:
            context.print(answer.msg)
    if not answer.result:
        raise CommandError(answer.msg)


def task_of(certificate: str) -> str:
    """The task that a certificate names. Raises :class:`UsageError` for another text."""
    try:
        return str(json.loads(certificate)["task"])
    except (ValueError, KeyError, TypeError):
        raise UsageError("this is not the JSON file of a certificate") from None


def certificate_files(folder: Path, task: str, certificate: str) -> Iterator[tuple[Path, str]]:
    """Each file of a certificate with its text: for programs, and for people."""
    data = json.loads(certificate)
    stem = f"{task}-cutover-{data['certificate']}"
    yield folder / f"{stem}.json", f"{certificate}\n"
    yield folder / f"{stem}.txt", "".join(f"{line}\n" for line in certificate_text(data))


def certificate_text(data: Mapping[str, Any]) -> Iterator[str]:
    """The lines for people."""
    yield f"Certificate {data['certificate']} of the cutover of task {data['task']}"
    yield f"From {data['began']} to {data['ended']} UTC, by version {data['version']}"
    for one in data["sources"]:
        gtid = f", GTID set {one['gtid-set']}" if one["gtid-set"] else ""
        yield f"Source {one['source']} ({one['version']}): ended at {one['position']}{gtid}"
    target = data["target"]
    yield f"Target ({target['version']}): its binlog was at {target.get('position', 'no position')}"
    yield f"Comparison: {data['comparison']}"
    yield f"Checksums: {data['method']}"
    for one in data["tables"]:
        left_out = f", {one['undigested']} without a checksum" if one["undigested"] else ""
        yield f"  {one['schema']}.{one['table']}: {one['rows']} rows{left_out}, {one['checksum']}"
    yield "Checks:"
    for one in data["checks"]:
        accepted = " (accepted)" if one["accepted"] else ""
        yield f"  {one['name']}: {one['verdict']}{accepted}: {'; '.join(one['evidence'])}"


def report(checks: Sequence[master.CutoverCheck]) -> Iterator[str]:
    """The lines for people: one for each check, its evidence and its remedy under it."""
    width = max(len(one.name) for one in checks)
    for one in checks:
        verdict = f"{one.verdict} (accepted)" if one.accepted else one.verdict
        first, *more = one.evidence or ("",)
        yield f"{one.name:{width}}  {verdict:14}  {first}"
        indent = " " * (width + 18)
        yield from (f"{indent}{line}" for line in more)
        if one.remedy and not one.accepted:
            yield f"{indent}→ {one.remedy}"
