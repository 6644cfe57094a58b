"""How long the client of the current request waits for its answer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: The answer should leave this many seconds before the client's own limit.
_MARGIN = 1.0
_deadline: ContextVar[float | None] = ContextVar("client_deadline", default=None)


@contextmanager
def client_waits(seconds: float | None) -> Iterator[None]:
    """For the block that answers a request: its client waits ``seconds`` from now, None without a limit."""
    # gRPC reports an infinite time for a client without a limit.
    token = _deadline.set(time.monotonic() + seconds if seconds is not None and math.isfinite(seconds) else None)
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining(default: float) -> float:
    """Seconds left for an answer that reaches the client in time; ``default`` if the client has no limit."""
    end = _deadline.get()
    return default if end is None else max(end - _MARGIN - time.monotonic(), 0.0)
