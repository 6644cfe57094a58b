"""start-relay, stop-relay, pause-relay, resume-relay, purge-relay."""

from __future__ import annotations

import sys

import click

from dmctl.command_context import CommandContext
from dmctl.commands.command import DMCommand
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker


def _operate(name: str, op: master.RelayOpV2, text: str) -> click.Command:
    @click.command(name, help=text, cls=DMCommand)
    @click.argument("workers", nargs=-1)
    @click.pass_obj
    def command(context: CommandContext, workers: tuple[str, ...]) -> None:
        request = master.OperateRelayRequest(op=op, source=context.one_source(), worker=workers)
        context.run("OperateRelay", request)

    return command


def _switch(name: str, op: worker.RelayOp, text: str) -> click.Command:
    @click.command(name, help=text, cls=DMCommand)
    @click.pass_obj
    def command(context: CommandContext) -> None:
        request = master.OperateWorkerRelayRequest(op=op, sources=context.some_sources())
        context.run("OperateWorkerRelayTask", request)

    return command


start_relay = _operate(
    "start-relay",
    master.StartRelayV2,
    "Starts the relay of the source given with -s, on the worker that serves it or on each of the named workers.",
)
stop_relay = _operate(
    "stop-relay", master.StopRelayV2, "Stops the relay of the source given with -s, or that of the named workers."
)
pause_relay = _switch("pause-relay", worker.PauseRelay, "Pauses the relay of the sources given with -s.")
resume_relay = _switch("resume-relay", worker.ResumeRelay, "Resumes the relay of the sources given with -s.")


@click.command("purge-relay", cls=DMCommand)
@click.option("-f", "--filename", required=True, help="Remove the relay files before this one.")
@click.option("--sub-dir", default="", help="The relay sub-folder that the file is in.")
@click.pass_obj
def purge_relay(context: CommandContext, filename: str, sub_dir: str) -> None:
    """Removes relay files of the source given with -s that are no longer needed."""
    if len(context.some_sources()) > 1:
        raise click.UsageError("for --filename, can only specify one source per time")
    source = context.one_source()
    if not sub_dir:
        sys.stderr.write("Warning: no --sub-dir specified for --filename; the latest one will be used\n")
    request = master.PurgeWorkerRelayRequest(sources=[source], filename=filename, subDir=sub_dir)
    context.run("PurgeWorkerRelay", request)
