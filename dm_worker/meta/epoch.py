"""The epochs under which runs write to a target. No other run ever has the same one."""

from __future__ import annotations

import secrets
import time

#: The number of epochs per millisecond; runs that don't know of each other choose one at random.
_PER_MILLISECOND = 1 << 20


def next_epoch(newest: int) -> int:
    """An epoch above ``newest``, the highest in the target.

    It is also new if the target has lost the earlier ones (``--remove-meta``, or a restored older state), so that a
    suspended writer of an earlier run stays fenced.
    """
    return max(newest, int(time.time() * 1000) * _PER_MILLISECOND) + 1 + secrets.randbelow(_PER_MILLISECOND)
