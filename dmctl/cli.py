"""``dmctl``: one command from the arguments, or many from a prompt or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from dmctl.failure import UsageError
from dmctl.options import COMPLETION_VARIABLE, parse_options
from dmctl.runner import fail, run_command
from pkg.errors import DMError
from pkg.process.version import version_text


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``dmctl``; the result is the exit code (0, or 1 for a command that failed)."""
    asked = os.environ.get(COMPLETION_VARIABLE)
    if asked is not None and argv is None:
        from dmctl.completion import answer

        return answer(asked)
    try:
        options, rest = parse_options(sys.argv[1:] if argv is None else argv)
    except (UsageError, DMError) as exc:
        return fail(str(exc))
    if options.version:
        sys.stdout.write(version_text())
        return 0
    if rest:
        return run_command(options, rest)
    from dmctl.repl import run_lines

    return run_lines(options)


if __name__ == "__main__":
    sys.exit(main())
