"""diff start|status|stop."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import CommandGroup, DMCommand
from dmctl.failure import CommandError, UsageError
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.settings.units import parse_size

#: Seconds between two looks while `--once` waits.
LOOK_SECONDS = 1.0


_CONFIG = click.option(
    "--config", "path", default="", metavar="FILE.yaml", help="Servers and rules in place of a task."
)


@click.group("diff", cls=CommandGroup)
def diff() -> None:
    """Compares a task's tables with the upstream's rows at one position, while both are written to; or two servers."""


@diff.command("start", cls=DMCommand)
@click.argument("task", metavar="[TASK | TASK_FILE]", required=False)
@_CONFIG
@click.option("--tables", default="", help="Target tables: db.table[,…], with * and ? as wildcards. All by default.")
@click.option("--sample", type=click.FloatRange(0, 100, min_open=True), help="Only this share of the chunks, percent.")
@click.option("--lock", is_flag=True, help="Holds the upstream's global lock for milliseconds at each snapshot.")
@click.option("--redact", is_flag=True, help="Writes no values but keys into files, so no statements either.")
@click.option("--repair", is_flag=True, help="Gives rows that differ the upstream's values, then compares them again.")
@click.option("--threads", type=click.IntRange(min=1), help="Snapshots at once (2 by default).")
@click.option("--rate", default="", help="The most bytes that are read from the upstream each second, like 20MiB.")
@click.option("--most-lag", type=click.IntRange(min=1), help="Waits while replication lags by more seconds (30).")
@click.option("--once", is_flag=True, help="Waits for the end, shows the result, exits with 0 only if all is equal.")
@click.pass_obj
def start(
    context: CommandContext,
    task: str | None,
    path: str,
    tables: str,
    sample: float | None,
    lock: bool,
    redact: bool,
    repair: bool,
    threads: int | None,
    rate: str,
    most_lag: int | None,
    once: bool,
) -> None:
    """Starts a comparison; `diff status` shows it. -s limits it to some sources.

    With --config it compares two servers that no task connects. Rows that differ are then read again until they stay
    the same; --repair, --lock and --most-lag need a task.
    """
    if path and (repair or lock or most_lag):
        raise UsageError("--repair, --lock and --most-lag need a task: without one no position of both sides is known")
    options = worker.DiffOptions(
        tables=[pattern.strip() for pattern in tables.split(",") if pattern.strip()],
        sample=sample or 0.0,
        lock=lock,
        redact=redact,
        repair=repair,
        threads=threads or 0,
        bytesPerSecond=_bytes(rate),
        mostLag=most_lag or 0,
    )
    request = _request(context, worker.StartDiff, task, path, options)
    if once:
        _compare_once(context, request)
    else:
        context.run_or_fail("OperateDiff", request)


@diff.command("stop", cls=DMCommand)
@click.argument("task", metavar="[TASK | TASK_FILE]", required=False)
@_CONFIG
@click.pass_obj
def stop(context: CommandContext, task: str | None, path: str) -> None:
    """Ends a comparison; its results stay. -s limits it to some sources of a task."""
    context.run_or_fail("OperateDiff", _request(context, worker.StopDiff, task, path))


@diff.command("status", cls=DMCommand)
@click.argument("task", metavar="[TASK | TASK_FILE]", required=False)
@_CONFIG
@click.option("-o", "--output", default="json", help="json (everything) or table (for people).")
@click.pass_obj
def status(context: CommandContext, task: str | None, path: str, output: str) -> None:
    """Shows the comparison: per table its state, counts and first keys, and the files with all differences."""
    pick(output, ("table", "json"), "output")
    request = _request(context, worker.ShowDiff, task, path)
    if output == "json":
        context.run_or_fail("OperateDiff", request)
        return
    answer = context.call("OperateDiff", request)
    if not answer.sources:
        raise CommandError(answer.msg)
    context.print("\n".join(report(answer)))


def _request(
    context: CommandContext, op: worker.DiffOp, task: str | None, path: str, options: worker.DiffOptions | None = None
) -> master.OperateDiffRequest:
    """Raises UsageError unless there is either a task or a file. Only a start sends the file: it has passwords."""
    if bool(task) == bool(path):
        raise UsageError("must specify either a task or a comparison's file: `--config FILE.yaml`")
    if task:
        return master.OperateDiffRequest(op=op, task=files.task_name(task), sources=context.sources, options=options)
    text = files.read_diff(path)
    return master.OperateDiffRequest(
        op=op,
        sources=context.sources,
        options=options,
        comparison=files.name_in(text, path, "the file"),
        config=text if op == worker.StartDiff else "",
    )


def _compare_once(context: CommandContext, start: master.OperateDiffRequest) -> None:
    """Waits until the comparison has ended on all sources, then shows it. Raises CommandError unless all is equal."""
    answer: master.OperateDiffResponse = context.call("OperateDiff", start)
    if not answer.result:
        context.show(answer)
        raise CommandError(answer.msg)
    runs = {source.source: source.run for source in answer.sources}
    request = master.OperateDiffRequest(
        op=worker.ShowDiff, task=start.task, comparison=start.comparison, sources=sorted(runs)
    )
    shown = ""
    while not _has_ended(answer):
        time.sleep(LOOK_SECONDS)
        answer = context.call("OperateDiff", request)
        if any(source.result and source.run != runs[source.source] for source in answer.sources):
            raise CommandError("another comparison was started meanwhile: see `dmctl diff status`")
        text = "\n".join(_progress(answer))
        if text != shown:
            context.print(text)
            shown = text
    context.print("\n".join(report(answer)))
    if answer.verdict != "equal":
        raise CommandError(f"the tables are not proven equal: {answer.verdict}")


def _has_ended(answer: master.OperateDiffResponse) -> bool:
    """A source without an answer (its worker is restarted, or the master) has not ended."""
    stages = {source.stage if source.result else "" for source in answer.sources}
    return bool(stages) and stages <= {"Finished", "Stopped"}


def _progress(answer: master.OperateDiffResponse) -> Iterator[str]:
    if not answer.sources:
        yield answer.msg
    for source in answer.sources:
        done = sum(table.state not in ("pending", "comparing") for table in source.tables)
        rest = f", {source.eta} left" if source.eta not in ("", "unknown") else ""
        about = f": {source.msg}" if source.msg else ""
        yield (
            f"{source.source}: {source.stage or 'no answer'}, {done} of {len(source.tables)} tables, "
            f"{source.rows} of about {source.totalRows} rows{rest}{about}"
        )


def _bytes(text: str) -> int:
    if not text:
        return 0
    try:
        return parse_size(text)
    except ValueError as exc:
        raise UsageError(f"--rate: {exc}") from None


def report(answer: master.OperateDiffResponse) -> Iterator[str]:
    """The lines for people."""
    yield f"verdict: {answer.verdict}"
    for source in answer.sources:
        head = f"source {source.source}: {source.stage or 'no answer'}"
        yield f"{head}: {source.msg}" if source.msg else head
        width = max((len(table.target) for table in source.tables), default=0)
        for table in source.tables:
            counts = (("missing", table.missing), ("extra", table.extra), ("changed", table.changed),
                      ("doubled", table.doubled), ("repaired", table.repaired))  # fmt: skip
            found = ", ".join(f"{number} {name}" for name, number in counts if number)
            shown = [
                table.state,
                found,
                f"{table.rows} rows",
                f"{table.chunksDone}/{table.chunks} chunks",
                table.reason,
            ]
            yield f"  {table.target:{width}}  {'; '.join(filter(None, shown))}"
            yield from (f"      {key}" for key in table.firstKeys)
        if source.differences:
            yield f"  all differences: {source.differences}"
        if source.repairs:
            yield f"  statements that repair the target: {source.repairs}"
