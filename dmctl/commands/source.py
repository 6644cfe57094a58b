"""operate-source and transfer-source."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import DMCommand
from pkg.pb import dmmaster_pb2 as master

_OPERATIONS = {
    "create": master.StartSource,
    "update": master.UpdateSource,
    "stop": master.StopSource,
    "enable": master.EnableSource,
    "disable": master.DisableSource,
    "show": master.ShowSource,
}


@click.command("operate-source", cls=DMCommand)
@click.argument("operation", required=False, metavar="|".join(_OPERATIONS))
@click.argument("arguments", nargs=-1, metavar="[FILE|SOURCE-ID ...]")
@click.option("-w", "--worker", default="", help="Bind the created source to this worker.")
@click.option("-p", "--print-sample-config", is_flag=True, help="Print a sample of a source's file.")
@click.pass_obj
def operate_source(
    context: CommandContext, operation: str | None, arguments: tuple[str, ...], worker: str, print_sample_config: bool
) -> None:
    """Changes or shows upstream sources."""
    if print_sample_config:
        context.print(_sample().rstrip("\n"))
        return
    if operation is None:
        raise click.UsageError(f"one of {', '.join(_OPERATIONS)} is needed")
    op = _OPERATIONS[pick(operation, list(_OPERATIONS), "operate")]
    request = master.OperateSourceRequest(op=op, workerName=worker)
    if op in (master.StartSource, master.UpdateSource):
        request.config.extend(_contents(operation, arguments, worker))
    else:
        request.sourceID.extend(context.sources + [_id(argument) for argument in arguments])
        if op != master.ShowSource and not request.sourceID:
            raise click.UsageError(f"operate-source {operation} needs a source: -s ID, its id, or its file")
    context.run("OperateSource", request)


def _contents(operation: str, paths: tuple[str, ...], worker: str) -> list[str]:
    if not paths:
        raise click.UsageError(f"operate-source {operation} should specify config-file")
    if worker and len(paths) > 1:
        raise click.UsageError("operate-source create can't create multiple sources when specify worker")
    contents = [files.read_source(path) for path in paths]
    for path, content in zip(paths, contents, strict=True):
        if any(line.startswith("relay-dir:") for line in content.splitlines()):
            sys.stderr.write(
                f"Warning: {path}: relay-dir in a source's file is deprecated; set it in the worker's configuration\n"
            )
    return contents


def _id(argument: str) -> str:
    """A source's id: the argument itself, or the ``source-id`` in the named file."""
    return files.source_id(argument) if Path(argument).is_file() else argument


def _sample() -> str:
    from importlib import resources

    return resources.files("pkg.config.samples").joinpath("source.yaml").read_text(encoding="utf-8")


@click.command("transfer-source", cls=DMCommand)
@click.argument("source")
@click.argument("worker")
@click.pass_obj
def transfer_source(context: CommandContext, source: str, worker: str) -> None:
    """Moves a source to another worker: a free one, or one that pulls its relay log."""
    context.run("TransferSource", master.TransferSourceRequest(source=source, worker=worker))
