"""Handles the signals that end a program, without an interrupt of the main thread."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

from pkg.process.log import get_logger

log = get_logger(__name__)

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def on_ending_signals(stop: Callable[[], None]) -> None:
    """Calls ``stop`` once, at the first signal that ends a program; further signals do nothing.

    ``stop`` runs in its own thread: a handler would interrupt the main thread anywhere, even while it holds a lock that
    ``stop`` needs. Call this from the main thread, once per process.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    for number in _ENDING:
        signal.signal(number, _noted)

    def wait() -> None:
        number = receiver.recv(1)
        # The descriptor stays open: signals may arrive until the end.
        sender.detach()
        log.info("got signal to exit", signal=signal.Signals(number[0]).name)
        stop()

    threading.Thread(target=wait, name="signals", daemon=True).start()


def _noted(number: int, frame: FrameType | None) -> None:
    """The wakeup descriptor has already reported the signal."""
