"""The epochs under which runs write to a target. No other run ever has the same one."""

from __future__ import annotations

import secrets
import time

#: A millisecond's epochs: runs that can't know of each other draw from so many.
_CHANCE = 1 << 20


def next_epoch(newest: int) -> int:
    """An epoch above ``newest``, the highest that the target knows of.

    It is new also where the target forgot the earlier ones (``--remove-meta``, or it was set back to an older state),
    so that a writer that slept meanwhile stays fenced off.
    """
    return max(newest, int(time.time() * 1000) * _CHANCE) + 1 + secrets.randbelow(_CHANCE)
