"""The setting ``log-rotate``: when a log file is renamed, and how many renamed files are kept. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pkg.settings.units import parse_size

_MIB = 1024 * 1024
_OFF = "off"
#: DM's values for rotation by time, which it accepts and ignores.
_BY_TIME = ("day", "hour")


@dataclass(frozen=True, slots=True)
class Rotation:
    """A file of ``size`` bytes is renamed (0: never). The last ``kept`` renamed files are kept (0: all)."""

    size: int = 512 * _MIB
    kept: int = 0


def is_by_time(text: str) -> bool:
    """Whether ``text`` requests rotation by time, which DM ignores as well."""
    return text.strip().lower() in _BY_TIME


def parse_rotation(text: str) -> Rotation:
    """``512MiB``, ``512MiB,10``, ``off``; '' and DM's ``day`` and ``hour`` mean DM's own rotation: 512 MiB, keep all.

    Raises ``ValueError`` for anything else.
    """
    size, comma, kept = (part.strip() for part in text.partition(","))
    if not text.strip() or is_by_time(text):
        return Rotation()
    if size.lower() == _OFF and not comma:
        return Rotation(0)
    count = kept.isdigit() and int(kept) > 0
    if comma and not count:
        raise ValueError(f"{kept!r} is not a number of files to keep")
    parsed = parse_size(size, _MIB)
    if parsed < _MIB:
        raise ValueError(f"{size!r} is less than 1MiB")
    return Rotation(parsed, int(kept) if comma else 0)
