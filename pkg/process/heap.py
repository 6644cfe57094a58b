"""Settings of the C library's heap: freed memory is kept and reused."""

from __future__ import annotations

import ctypes

#: https://man7.org/linux/man-pages/man3/mallopt.3.html
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: The maximum of glibc on 64 bits: larger blocks are separate maps that return to the system when freed.
_MAP_FROM = 32 << 20
#: Free memory at the heap's end returns to the system above this size.
_TRIM_FROM = 64 << 20


def keep_freed() -> bool:
    """Makes this process and its forks reuse freed memory instead of returning it to the system; False where the C
    library is not glibc.

    By default a block of some MiB returns to the system when it is freed. Batches constantly allocate and free such
    blocks, and for each the system would clear all pages again, which costs several times as much as copying the bytes.
    Above 64 MiB memory still returns: Spark's workers take turns, so each of them keeps what it may.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAP_FROM)) and bool(mallopt(_M_TRIM_THRESHOLD, _TRIM_FROM))
