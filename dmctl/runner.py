"""Runs one command of ``dmctl`` and tells what went wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from dmctl.commands import LazyCommands
from dmctl.failure import CommandError, UsageError
from dmctl.options import Options
from dmctl.session import Session
from pkg.errors import DMError

HELP = """Controls a DM cluster.

Without a command, reads commands from the terminal or from standard input until its end.

\b
Global flags, before or after the command:
  --master-addr A[,B...]   address of the masters (or DM_MASTER_ADDR)
  -s, --source S[,T...]    sources that the command is limited to
  --rpc-timeout 10m        how long to wait for an answer
  --config FILE            TOML file with these settings
  --ssl-ca, --ssl-cert, --ssl-key FILE
  -V, --version            print the version
"""

commands = LazyCommands("dmctl", help=HELP, context_settings={"help_option_names": ["-h", "--help"]})


def run_command(options: Options, arguments: Sequence[str]) -> int:
    """Runs one command; what goes wrong is told on standard error."""
    session = Session(options)
    try:
        commands.main(args=list(arguments), prog_name="dmctl", standalone_mode=False, obj=session)
    except click.ClickException as exc:
        context = getattr(exc, "ctx", None)
        usage = f"{context.get_usage()}\n" if context is not None else ""
        return fail(usage + exc.format_message())
    except (UsageError, CommandError, DMError) as exc:
        return fail(str(exc))
    except (click.Abort, KeyboardInterrupt):
        return fail("interrupted")
    except BrokenPipeError:
        # The reader of our output (head, grep -q) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        session.close()
    return 0


def fail(text: str) -> int:
    sys.stderr.write(f"Error: {text}\n")
    return 1
