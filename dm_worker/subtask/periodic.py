"""Runs an action every few seconds during a blocking call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from pkg.process.log import get_logger

log = get_logger("periodic")


class Periodic:
    """Runs ``action`` every ``seconds`` in a thread while the ``with`` block lasts, and once more at its end.

    Exceptions of ``action`` are logged: they must not end the blocking call.
    """

    def __init__(self, seconds: float, action: Callable[[], None]) -> None:
        self._seconds = seconds
        self._action = action
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="periodic", daemon=True)

    def __enter__(self) -> Periodic:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        self._once()

    def _loop(self) -> None:
        while not self._end.wait(self._seconds):
            self._once()

    def _once(self) -> None:
        try:
            self._action()
        except Exception as exc:  # noqa: BLE001 - logged; the blocking call must continue
            log.warning("a periodic check failed", error=repr(exc))
