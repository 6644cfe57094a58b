"""Runs one command of ``dmctl`` and prints its errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from dmctl.command_context import CommandContext
from dmctl.commands import LazyCommands
from dmctl.commands.command import UnknownCommand
from dmctl.failure import CommandError, UsageError
from dmctl.options import GlobalOptions
from pkg.errors import DMError

HELP = """Controls a DM cluster.

Without a command, reads commands from the terminal or from standard input until its end.

\b
Global flags, before or after the command:
  --master-addr A[,B...]   address of the masters (or DM_MASTER_ADDR)
  -s, --source S[,T...]    sources that the command is limited to
  --preview                show what the command would change, and change nothing
  --rpc-timeout 10m        how long to wait for an answer
  --config FILE            TOML file with these settings
  --ssl-ca, --ssl-cert, --ssl-key FILE
  -V, --version            print the version
"""

#: The values that Go accepts for a boolean flag.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})

commands = LazyCommands("dmctl", help=HELP, context_settings={"help_option_names": ["-h", "--help"]})


def run_command(options: GlobalOptions, arguments: Sequence[str]) -> int:
    """Runs one command; prints an error on standard error."""
    context = CommandContext(options)
    try:
        commands.main(args=_plain_flags(_help(arguments)), prog_name="dmctl", standalone_mode=False, obj=context)
    except UnknownCommand as exc:
        # The arguments are wrong, so no request was sent.
        usage = f"{exc.ctx.get_usage()}\n" if exc.ctx is not None else ""
        return fail(usage + exc.format_message())
    except click.ClickException as exc:
        click_context = getattr(exc, "ctx", None)
        usage = f"{click_context.get_usage()}\n" if click_context is not None else ""
        return fail(context.connection_failure() or usage + exc.format_message())
    except (UsageError, CommandError) as exc:
        return fail(context.connection_failure() or str(exc))
    except DMError as exc:
        return fail(str(exc))
    except (click.Abort, KeyboardInterrupt):
        return fail("interrupted")
    except BrokenPipeError:
        # The reader of the output (head, grep -q) has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        context.close()
    return 0


def _help(arguments: Sequence[str]) -> list[str]:
    """``help`` and ``help command`` in click's form."""
    return [*arguments[1:], "--help"] if arguments[0] == "help" else list(arguments)


def _plain_flags(arguments: Sequence[str]) -> list[str]:
    """Turns ``--flag=true`` into ``--flag`` and drops ``--flag=false``: Go's forms, which scripts use.

    Raises :class:`UsageError` with Go's message for another value.
    """
    flags = _flags_of(arguments)
    plain: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return [*plain, *arguments[position:]]
        name, has_value, value = argument.partition("=")
        if name not in flags or not has_value:
            plain.append(argument)
        elif value in _TRUE:
            plain.append(name)
        elif value not in _FALSE:
            raise UsageError(f'invalid argument "{value}" for "{flags[name]}" flag: it is true or false')
    return plain


def _flags_of(arguments: Sequence[str]) -> dict[str, str]:
    """The flags without a value of the command in ``arguments``, each with all of its names."""
    command: click.Command | None = commands
    for argument in arguments:
        if not isinstance(command, click.Group):
            break
        if not argument.startswith("-"):
            command = command.get_command(click.Context(command), argument)
    options = command.params if command is not None else ()
    flags = [one for one in options if isinstance(one, click.Option) and one.is_flag]
    return {name: ", ".join(one.opts) for one in flags for name in one.opts}


def fail(text: str) -> int:
    sys.stderr.write(f"Error: {text}\n")
    return 1
