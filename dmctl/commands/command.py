"""The base classes of commands: their help and usage errors read as in DM, since scripts search for these strings."""

from __future__ import annotations

from typing import Any

import click

#: The usage line after the command's path, as DM prints it. Commands that DM does not have show click's line.
USAGE = {
    "start-task": "[-s source ...] [--remove-meta] <config-file>",
    "stop-task": "[-s source ...] [task-name | task-file]",
    "pause-task": "[-s source ...] [task-name | task-file]",
    "resume-task": "[-s source ...] [task-name | task-file]",
    "check-task": "<config-file> [--error count] [--warn count]",
    "query-status": "[-s source ...] [task-name | task-file] [--more]",
    "operate-source": "<operate-type> [config-file ...] [--print-sample-config]",
    "transfer-source": "<source-id> <worker-id>",
    "list-member": "[--leader] [--master] [--worker] [--name master-name/worker-name ...]",
    "offline-member": "<--master/--worker> <--name master-name/worker-name>",
    "operate-leader": "<operate-type>",
    "config": "[command]",
    "config task": "[task-name]",
    "config source": "[source-name]",
    "config master": "[master-name]",
    "config worker": "[worker-name]",
    "config task-template": "[task-name]",
    "config export": "[--dir directory]",
    "config import": "[--dir directory]",
    "get-config": "<task | master | worker | source> <name> [--file filename]",
    "get-task-config": "<task-name | task-file> [--file filename]",
    "encrypt": "<plain-text>",
    "shard-ddl-lock": "[task] [command]",
    "shard-ddl-lock unlock": "<lock-id>",
    "show-ddl-locks": "[-s source ...] [task-name | task-file]",
    "unlock-ddl-lock": "<lock-ID>",
    "binlog": "<command>",
    "binlog skip": "<task-name> [-b binlog-pos]",
    "binlog replace": "<task-name> [-b binlog-pos] <replace-sql1> <replace-sql2>...",
    "binlog revert": "<task-name> [-b binlog-pos]",
    "binlog inject": "<task-name> [-b binlog-pos] <inject-sql1> <inject-sql2>...",
    "binlog list": "<task-name> [-b binlog-pos]",
    "handle-error": "<task-name | task-file> [-s source ...] [-b binlog-pos] <skip/replace/revert> "
    "[replace-sql1;replace-sql2;]",
    "binlog-schema": "<command>",
    "binlog-schema list": "<task-name> <database> <table>",
    "binlog-schema update": "<task-name> <database> <table> [schema-file]",
    "binlog-schema delete": "<task-name> <database> <table>",
    "operate-schema": "<operate-type> <-s source ...> <task-name | task-file> <-d database> <-t table> [schema-file] "
    "[--flush] [--sync]",
    "start-relay": "<-s source-id> [worker-name ...]",
    "stop-relay": "<-s source-id> [worker-name ...]",
    "pause-relay": "<-s source ...>",
    "resume-relay": "<-s source ...>",
    "purge-relay": "<-s source> <-f filename> [--sub-dir directory]",
    "validation": "<command>",
    "validation start": "[--all-task | task-name]",
    "validation stop": "[--all-task | task-name]",
    "validation status": "<task-name>",
    "validation show-error": "<task-name>",
    "validation ignore-error": "<task-name> <error-id | --all>",
    "validation resolve-error": "<task-name> <error-id | --all>",
    "validation clear-error": "<task-name> <error-id | --all>",
    "validation update": "<task-name>",
}


class _Formatter(click.HelpFormatter):
    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """On one line: scripts search for it."""
        line = USAGE.get(prog.partition(" ")[2])
        line = args if line is None else f"{line} [flags]"
        self.write(f"{prefix or 'Usage: '}{prog} {line}\n")


class _Context(click.Context):
    formatter_class = _Formatter


class DMCommand(click.Command):
    """A command with DM's usage line."""

    context_class = _Context


class UnknownCommand(click.UsageError):
    """An unknown command, at the top level or in a group."""

    def __init__(self, word: str, ctx: click.Context) -> None:
        listed = "" if ctx.parent is None else f"\n{ctx.get_help()}"
        super().__init__(f'unknown command "{word}" for "{ctx.command_path}"{listed}', ctx)


class CommandGroup(click.Group):
    """Sub-commands of one command."""

    context_class = _Context
    command_class = DMCommand

    def listed(self) -> list[tuple[str, str]]:
        """Each command with its short help."""
        return [(name, one.get_short_help_str(80)) for name, one in sorted(self.commands.items())]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Available Commands"):
            formatter.write_dl(self.listed())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            raise UnknownCommand(args[0], ctx)
        return super().resolve_command(ctx, args)


class DefaultGroup(CommandGroup):
    """A group that runs ``default`` when its first argument is not one of its sub-commands."""

    def __init__(self, *args: Any, default: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [self.default, *args]
        return super().parse_args(ctx, args)
