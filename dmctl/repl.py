"""The interactive mode: commands from a prompt with history, or line by line from standard input."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from dmctl.failure import UsageError
from dmctl.options import GlobalOptions, with_line
from dmctl.runner import fail, run_command
from pkg.errors import DMError
from pkg.process.version import version_text

#: Red, as in DM; readline counts no width for the text between \001 and \002.
PROMPT = "\001\033[31m\002»\001\033[0m\002 "
HISTORY_LENGTH = 1000


def run_lines(options: GlobalOptions) -> int:
    """Runs commands until ``exit`` or the end of input. It continues after a failed command."""
    lines = _prompted() if sys.stdin.isatty() else iter(sys.stdin)
    for line in lines:
        if not _run_line(options, line):
            break
    return 0


def _run_line(options: GlobalOptions, line: str) -> bool:
    """Runs one line; False for a command that ends the program."""
    try:
        arguments = shlex.split(line)
        if arguments in (["exit"], ["quit"]):
            return False
        line_options, rest = with_line(options, arguments)
    except (ValueError, UsageError, DMError) as exc:
        fail(str(exc))
        return True
    if line_options.version:
        sys.stdout.write(version_text())
    elif rest:
        run_command(line_options, rest)
    return True


def _prompted() -> Iterator[str]:
    import readline

    history = Path.home() / ".dmctl_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_LENGTH)
    try:
        while True:
            try:
                line = input(PROMPT)
            except EOFError:
                sys.stdout.write("\n")
                return
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                continue
            if line.lstrip().startswith("encrypt"):
                # Commands whose argument is a password in plain text.
                readline.remove_history_item(readline.get_current_history_length() - 1)
            yield line
    finally:
        with contextlib.suppress(OSError):
            history.touch(mode=0o600)
            readline.write_history_file(history)
