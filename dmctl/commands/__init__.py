"""dmctl's commands, one module a group; loaded only when called, so that the program starts quickly.

To add one, write it as a click command that takes the context (``@click.pass_obj``), and add it to :data:`COMMANDS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

from dmctl.commands.command import CommandGroup

#: Command → (module, attribute, short help). Names with help ``None`` are older spellings, kept but not listed.
COMMANDS: dict[str, tuple[str, str, str | None]] = {
    "start-task": ("task", "start_task", "Starts a task as defined in its file."),
    "stop-task": ("task", "stop_task", "Stops a task, or all tasks of one source."),
    "pause-task": ("task", "pause_task", "Pauses a running task, or all tasks of one source."),
    "resume-task": ("task", "resume_task", "Resumes a paused task, or all tasks of one source."),
    "check-task": ("task", "check_task", "Checks whether a task could run."),
    "show-rules": ("rules", "show_rules", "Shows what a task's rules would do with each upstream table."),
    "hand-back": ("hand_back", "hand_back", "Converts a paused task's checkpoint so that DM can continue from it."),
    "cutover": ("cutover", "cutover", "Moves applications to the target: checks, end of the task, certificate."),
    "diff": ("diff", "diff", "Compares a task's tables with the upstream's at one position."),
    "query-status": ("status", "query_status", "Shows the status of tasks."),
    "operate-source": (
        "source",
        "operate_source",
        "Changes or shows upstream sources.",
    ),
    "transfer-source": ("source", "transfer_source", "Moves a source to another worker."),
    "list-member": ("member", "list_member", "Lists the members of the cluster."),
    "offline-member": ("member", "offline_member", "Removes an offline member from the cluster."),
    "operate-leader": ("member", "operate_leader", "Evicts the leader, or lets the evicted one campaign again."),
    "config": ("config", "config", "Shows, exports or imports configurations."),
    "get-config": ("config", "get_config", None),
    "get-task-config": ("config", "get_task_config", None),
    "console-user": ("console", "console_user", "Prints a user's line for the console's users file."),
    "encrypt": ("config", "encrypt", "Encrypts a password for use in a configuration file."),
    "shard-ddl-lock": ("shardddl", "shard_ddl_lock", "Shows or resolves shard-DDL locks."),
    "show-ddl-locks": ("shardddl", "show_ddl_locks", None),
    "unlock-ddl-lock": ("shardddl", "unlock_ddl_lock", None),
    "binlog": ("binlog", "binlog", "Skips, replaces or injects statements at a binlog position."),
    "handle-error": ("binlog", "handle_error", None),
    "binlog-schema": ("schema", "binlog_schema", "Shows or changes the known structures of tables of a task."),
    "operate-schema": ("schema", "operate_schema", None),
    "start-relay": ("relay", "start_relay", "Starts a source's relay."),
    "stop-relay": ("relay", "stop_relay", "Stops a source's relay."),
    "pause-relay": ("relay", "pause_relay", "Pauses sources' relay."),
    "resume-relay": ("relay", "resume_relay", "Resumes sources' relay."),
    "purge-relay": ("relay", "purge_relay", "Removes relay files that are no longer needed."),
    "completion": ("completion", "completion", "Prints the script for completion in bash, zsh or fish."),
    "validation": ("validation", "validation", "Compares what is replicated with the target, continuously."),
}


class LazyCommands(CommandGroup):
    """The group of all commands: loads only the command that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"dmctl.commands.{module}"), attribute)
        return command

    def listed(self) -> list[tuple[str, str]]:
        # Taken from the table above, so that listing commands does not load them.
        return [(name, text) for name, (_, _, text) in sorted(COMMANDS.items()) if text is not None]


def pick(value: str, allowed: Sequence[str], what: str) -> str:
    """``value`` if it is one of ``allowed``; otherwise raises a usage error that lists them."""
    if value not in allowed:
        # The message begins as in DM.
        raise click.UsageError(f"invalid {what} '{value}': it is not one of {', '.join(allowed)}")
    return value
