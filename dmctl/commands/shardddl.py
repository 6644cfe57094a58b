"""shard-ddl-lock, and the older show-ddl-locks and unlock-ddl-lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import DefaultGroup, DMCommand
from pkg.pb import dmmaster_pb2 as master

_ACTIONS = {"skip": master.SkipLock, "exec": master.ExecLock}


@click.group("shard-ddl-lock", cls=DefaultGroup, default="show")
def shard_ddl_lock() -> None:
    """Shows shard-DDL locks (of one task, if it is named), or resolves one with unlock."""


def _show(name: str) -> click.Command:
    @click.command(name, help="Shows the shard-DDL locks that are not resolved.", cls=DMCommand)
    @click.argument("task", required=False)
    @click.pass_obj
    def command(context: CommandContext, task: str | None) -> None:
        name = files.task_name(task) if task else ""
        context.run("ShowDDLLocks", master.ShowDDLLocksRequest(task=name, sources=context.sources))

    return command


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        [
            click.option("-o", "--owner", default="", help="Make this source the owner."),
            click.option(
                "-f", "--force-remove", is_flag=True, help="Remove the lock even if a source fails to execute or skip."
            ),
            click.option("-a", "--action", default="skip", help="What the waiting sources do: skip or exec."),
            click.option("-d", "--database", default="", help="Upstream database (optimistic mode)."),
            click.option("-t", "--table", default="", help="Upstream table (optimistic mode)."),
        ]
    ):
        function = option(function)
    return function


def _unlock(name: str) -> click.Command:
    @click.command(name, help="Resolves a shard-DDL lock by hand.", cls=DMCommand)
    @click.argument("lock_id")
    @_options
    @click.pass_obj
    def command(
        context: CommandContext, lock_id: str, owner: str, force_remove: bool, action: str, database: str, table: str
    ) -> None:
        if (database or table) and not (database and table and len(context.sources) == 1):
            raise click.UsageError("a lock of optimistic mode needs all of -s (one source), -d and -t")
        request = master.UnlockDDLLockRequest(
            ID=lock_id,
            replaceOwner=owner,
            forceRemove=force_remove,
            op=_ACTIONS[pick(action, list(_ACTIONS), "action")],
            sources=context.sources,
            database=database,
            table=table,
        )
        context.run("UnlockDDLLock", request)

    return command


shard_ddl_lock.add_command(_show("show"))
shard_ddl_lock.add_command(_unlock("unlock"))
show_ddl_locks = _show("show-ddl-locks")
unlock_ddl_lock = _unlock("unlock-ddl-lock")
