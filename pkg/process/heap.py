"""Settings of the C library's heap: freed memory is kept and used again."""

from __future__ import annotations

import ctypes

#: https://man7.org/linux/man-pages/man3/mallopt.3.html
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: The greatest that glibc takes on 64 bits: blocks from this size on are maps of their own and go back when freed.
_MAP_FROM = 32 << 20
#: Free memory at the heap's end goes back from this size on.
_TRIM_FROM = 64 << 20


def keep_freed() -> bool:
    """Makes this process, and those that it forks, use freed memory again instead of returning it to the system; False
    where the C library is not glibc.

    By default a block of some MiB goes back to the system as soon as it is free. Batches come and go in such blocks,
    and for each the system would clear all pages again, several times the cost of copying the bytes. Beyond 64 MiB
    memory still goes back, for Spark's workers take turns, so that each of them keeps what it may.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAP_FROM)) and bool(mallopt(_M_TRIM_THRESHOLD, _TRIM_FROM))
