"""Service threads: they run until their owner stops them, and a failed one restarts or ends its owner.

Without this, a dead thread takes its service with it while the rest of the program runs on: a leader that binds
nothing, a source that follows nobody. So each unexpected end of a loop is logged with its origin. Then the loop
restarts after a pause, or its owner gets a call and must end what depends on the loop.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from pkg.errors import DMError
from pkg.process.log import get_logger

log = get_logger("service-thread")

#: Seconds between the end of a loop and its restart: the first time, and at most.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class ServiceThread:
    """Runs ``work`` until its owner sets ``stopping``, which ``work`` must check.

    An exception, or an end without ``stopping``, is logged. Then ``on_failure`` is called once, from the thread, which
    ends; without ``on_failure``, ``work`` restarts, after pauses that grow while it keeps failing.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], None],
        stopping: threading.Event,
        *,
        on_failure: Callable[[BaseException], None] | None = None,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._name = name
        self._work = work
        self._stopping = stopping
        self._on_failure = on_failure
        self._first_pause = first_pause
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> ServiceThread:
        self._thread.start()
        return self

    def join(self, timeout: float | None = None) -> bool:
        """Waits for the end; False if it still runs after ``timeout`` seconds. True when it was never started."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _main(self) -> None:
        pause = self._first_pause
        while True:
            began = time.monotonic()
            try:
                self._work()
                failure: BaseException = RuntimeError("it ended unexpectedly")
            except Exception as exc:  # noqa: BLE001 - every error that ends a service is reported
                failure = exc
            if self._stopping.is_set():
                return
            # A loop that ran well for a while has not kept failing.
            pause = self._first_pause if time.monotonic() - began > LONGEST_PAUSE else pause
            self._tell(failure, 0.0 if self._on_failure is not None else pause)
            if self._on_failure is not None:
                self._on_failure(failure)
                return
            if self._stopping.wait(pause):
                return
            pause = min(pause * 2, LONGEST_PAUSE)

    def _tell(self, failure: BaseException, pause: float) -> None:
        what = "a service thread failed; " + ("it starts again" if pause else "what depends on it ends")
        # Errors made for operators are complete in their text; others need their traceback.
        trace = "" if isinstance(failure, DMError) else "".join(traceback.format_exception(failure))
        log.error(what, thread=self._name, error=str(failure) or repr(failure), pause=f"{pause:.1f}s", trace=trace)
