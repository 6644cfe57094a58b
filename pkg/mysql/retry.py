"""Retries with backoff, jitter and a limit, that stop at once on request."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from pkg.errors import DMError

T = TypeVar("T")


def retrying(
    action: Callable[[], T],
    *,
    should_stop: Callable[[], bool] | None = None,
    attempts: int = 100,
    base: float = 0.1,
    cap: float = 3.0,
    budget: float | None = None,
    on_retry: Callable[[DMError, int], None] | None = None,
) -> T:
    """Runs ``action`` until it succeeds, its error is not retryable, attempts run out, or a stop is requested.

    Waits ``base`` × 2^n seconds up to ``cap``, half of it random. No attempt begins more than ``budget`` seconds after
    the first failure: an attempt may itself wait long. Raises the last :class:`DMError` unchanged.
    """
    failed_at: float | None = None
    for attempt in range(1, attempts + 1):
        try:
            return action()
        except DMError as exc:
            if not exc.retryable or attempt == attempts or (should_stop is not None and should_stop()):
                raise
            failed_at = time.monotonic() if failed_at is None else failed_at
            if budget is not None and time.monotonic() - failed_at >= budget:
                raise
            if on_retry is not None:
                on_retry(exc, attempt)
            pause = min(cap, base * 2 ** min(attempt - 1, 16)) * (0.5 + random.random() / 2)
            if not _sleep(pause, should_stop):
                raise
    raise AssertionError("attempts must be positive")


def _sleep(seconds: float, should_stop: Callable[[], bool] | None) -> bool:
    """Sleeps in small steps; False when a stop was requested in the meantime."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if should_stop is not None and should_stop():
            return False
        time.sleep(min(left, 0.1))
    return True
