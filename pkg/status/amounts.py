"""Amounts with units for people. Pure."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def in_bytes(count: float) -> str:
    """A number of bytes with a unit, as ``1.5 GiB``."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} {_UNITS[-1]}"


def duration(seconds: int) -> str:
    """Seconds as ``4 s``, ``3 min 20 s``, ``5 h 12 min``, or ``6 d 23 h``."""
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 2 * 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600} h"


def counted(count: int, noun: str) -> str:
    """``1 row``, ``1,830 rows``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
