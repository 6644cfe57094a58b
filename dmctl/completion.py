"""Answers a shell that completes a line, for the script that ``dmctl completion`` prints."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from dmctl.commands.command import USAGE
from dmctl.commands.completion import PROGRAM
from dmctl.failure import UsageError
from dmctl.options import COMPLETION_VARIABLE, FLAGS, parse_options
from dmctl.runner import commands
from pkg.errors import DMError


def answer(instruction: str) -> int:
    """Prints the completions for ``instruction`` (such as ``bash_complete``); the result is the exit code."""
    kind = get_completion_class(instruction.partition("_")[0])
    if kind is None or not instruction.endswith("_complete"):
        return 1
    shell = kind(commands, {}, PROGRAM, COMPLETION_VARIABLE)
    arguments, incomplete = shell.get_completion_args()
    for item in _items(shell, arguments, incomplete):
        sys.stdout.write(f"{shell.format_completion(item)}\n")
    return 0


def _items(shell: ShellComplete, arguments: list[str], incomplete: str) -> list[CompletionItem]:
    """Finds the command without the global flags, which may be anywhere."""
    try:
        _, rest = parse_options(arguments, {})
    except (UsageError, DMError):
        # The previous word is a global flag that needs a value. Most of them name a file.
        return [CompletionItem(incomplete, type="file")]
    items = list(shell.get_completions(rest, incomplete))
    if incomplete.startswith("-"):
        return items + [CompletionItem(f"--{name}") for name in FLAGS if f"--{name}".startswith(incomplete)]
    return items or ([CompletionItem(incomplete, type="file")] if _takes_file(rest) else [])


def _takes_file(arguments: list[str]) -> bool:
    """Whether the usage line of the command in ``arguments`` names a file."""
    path: list[str] = []
    command: click.Command | None = commands
    for word in arguments:
        if isinstance(command, click.Group) and not word.startswith("-"):
            path.append(word)
            command = command.get_command(click.Context(command), word)
    return "file" in USAGE.get(" ".join(path), "")
