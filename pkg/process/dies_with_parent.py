"""Runs a command that cannot outlive the process that started it, even after SIGKILL.

Run as a script: ``python -I -S dies_with_parent.py <parent pid> <program> <argument> …``. It asks the kernel for a
SIGKILL when the thread that started it ends, then becomes the program. Start it from a thread that lives as long as the
program must.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """``command``, wrapped so that it dies with the calling thread."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


def _main(parent: int, command: Sequence[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    # The parent may have died before the kernel got the request.
    if os.getppid() != parent:
        sys.exit("the parent process has ended")
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2:])
