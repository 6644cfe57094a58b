"""Durations as DM's files and flags write them (Go's form: ``10m``, ``1h30m``, ``1.5s``, ``300ms``)."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Seconds in ``text``. Raises ``ValueError`` for anything that is not a duration, negative ones included."""
    bare = text.strip()
    if bare == "0":
        return 0.0
    parts = _PART.findall(bare)
    if not parts or "".join(number + unit for number, unit in parts) != bare:
        raise ValueError(f"{text!r} is not a duration; write it like 30s, 10m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
