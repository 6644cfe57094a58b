"""Hazard: a program that is asked to end does not, because its main thread was interrupted at a bad moment."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

#: The main thread is in the middle of ``wait`` on the very event that the end sets: it holds the event's lock.
_INTERRUPTED_IN_WAIT = """
import os, signal, sys, threading
from pkg.process.signals import on_ending_signals
ended = threading.Event()
on_ending_signals(ended.set)
with ended._cond:
    os.kill(os.getpid(), int(sys.argv[1]))
    os.kill(os.getpid(), int(sys.argv[1]))
ended.wait()
print("in order")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_the_program_also_while_it_holds_the_lock_of_its_end(number: signal.Signals) -> None:
    command = [sys.executable, "-c", _INTERRUPTED_IN_WAIT, str(int(number))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (0, "in order\n"), ended.stderr
