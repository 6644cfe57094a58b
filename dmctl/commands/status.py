"""query-status."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections import defaultdict
from typing import Any

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands.command import DMCommand
from dmctl.commands.status_table import status_table
from dmctl.commands.time_profile import profile_text
from dmctl.failure import UsageError
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.rpc import pbjson
from pkg.status.task_stage import task_status

#: Seconds between two tables of --watch.
WATCH_SECONDS = 2.0
#: The width of a table without a terminal, in characters.
_LOG_COLUMNS = 200


@click.command("query-status", cls=DMCommand)
@click.argument("task", required=False)
@click.option("--more", is_flag=True, help="Show all details even if no task is named.")
@click.option("--profile", is_flag=True, help="Show where the time of the last minutes went, by stage, as text.")
@click.option("--table/--json", "as_table", default=None, help="A table (the default on a terminal), or JSON.")
@click.option("--watch", is_flag=True, help="Show the table again every two seconds until Ctrl-C.")
@click.pass_obj
def query_status(
    context: CommandContext, task: str | None, more: bool, profile: bool, as_table: bool | None, watch: bool
) -> None:
    """Shows the status of tasks: a summary of all, or the details of one task or of the sources given with -s."""
    name = files.task_name(task) if task else ""
    if profile:
        request = master.QueryStatusListRequest(name=name, sources=context.sources, profile=True)
        show_profiles(context, context.call("QueryStatus", request))
        return
    if watch and as_table is False:
        raise UsageError("--watch shows a table: leave --json out")
    request = master.QueryStatusListRequest(name=name, sources=context.sources)
    if watch:
        _watch(context, request)
        return
    answer = context.call("QueryStatus", request)
    if as_table or (as_table is None and not more and sys.stdout.isatty()):
        context.print(_table(answer))
        return
    brief = not (name or context.sources or more)
    if brief and answer.result and all(source.result for source in answer.sources):
        context.print(pbjson.marshal_indent(summary(answer)))
    else:
        context.show(answer)


def _watch(context: CommandContext, request: master.QueryStatusListRequest) -> None:
    """Shows the table until the user interrupts; on a terminal each table replaces the one before."""
    clear = "\033[H\033[2J" if _live() else ""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            context.print(f"{clear}{_table(context.call('QueryStatus', request))}")
            time.sleep(WATCH_SECONDS)


def _table(answer: master.QueryStatusListResponse) -> str:
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _LOG_COLUMNS
    return status_table(answer, columns=columns, colours=_live() and "NO_COLOR" not in os.environ)


def _live() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def show_profiles(context: CommandContext, answer: master.QueryStatusListResponse) -> None:
    """The profile of each task and source as text; the raw answer when a part of it is missing."""
    if not answer.result or not all(source.result for source in answer.sources):
        context.show(answer)
        return
    parts = [
        profile_text(source.sourceStatus.source, subtask)
        for source in answer.sources
        for subtask in source.subTaskStatus
        if subtask.name
    ]
    context.print("\n\n".join(parts) or "no task replicates")


def summary(answer: master.QueryStatusListResponse) -> dict[str, Any]:
    """One status line a task."""
    parts: dict[str, list[tuple[worker.SourceStatus, worker.SubTaskStatus]]] = defaultdict(list)
    for source in answer.sources:
        for subtask in source.subTaskStatus:
            if subtask.name:
                parts[subtask.name].append((source.sourceStatus, subtask))
    tasks = [
        {
            "taskName": name,
            "taskStatus": task_status(name, members),
            "sources": [source.source for source, _ in members],
        }
        for name, members in sorted(parts.items())
    ]
    return {"result": answer.result, "msg": answer.msg, "tasks": tasks}
