"""How long the client of the request that is being answered waits for its answer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Seconds before the client's own limit at which the answer should be on its way.
_MARGIN = 1.0
_deadline: ContextVar[float | None] = ContextVar("client_deadline", default=None)


@contextmanager
def client_waits(seconds: float | None) -> Iterator[None]:
    """While a request is answered: its client waits for so many seconds from now; None if it names no limit."""
    # gRPC has an infinite time for a client without a limit.
    token = _deadline.set(time.monotonic() + seconds if seconds is not None and math.isfinite(seconds) else None)
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining(default: float) -> float:
    """Seconds in which the answer reaches the client in time; ``default`` if the client names no limit."""
    end = _deadline.get()
    return default if end is None else max(end - _MARGIN - time.monotonic(), 0.0)
