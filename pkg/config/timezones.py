"""Time zones of task files. Pure."""

from __future__ import annotations

import re
import zoneinfo

_OFFSET = re.compile(r"([+-])(\d{1,2}):([0-5]\d)")
_LEAST = -(12 * 60 + 59)
_MOST = 14 * 60


def check_timezone(text: str) -> None:
    """Raises ``ValueError`` unless ``text`` is empty, an IANA name, or an offset within −12:59…+14:00."""
    if not text:
        return
    match = _OFFSET.fullmatch(text)
    if match:
        minutes = (int(match[2]) * 60 + int(match[3])) * (-1 if match[1] == "-" else 1)
        if not _LEAST <= minutes <= _MOST:
            raise ValueError(f"{text!r} is outside of -12:59 to +14:00")
        return
    if text.lower() in ("system", "local", "localtime"):
        raise ValueError(f"{text!r} means something else on every machine")
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{text!r} is no known time zone") from None
