"""Durations, sizes, addresses and time zones as in files. Pure; a ``ValueError`` shows the expected form."""

from __future__ import annotations

import re
import zoneinfo

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0)")
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_EXPONENT = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_PORT_LIMIT = 65536
_ZONE_OFFSET = re.compile(r"([+-])(\d{1,2}):([0-5]\d)")
#: The offsets that MySQL accepts, in minutes.
_LEAST_OFFSET, _MOST_OFFSET = -(12 * 60 + 59), 14 * 60


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as ``1h30m``, ``500ms`` or ``0``."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(match[2]))
    return -seconds if match[1] == "-" else seconds


def format_duration(seconds: float) -> str:
    """Go's text form of a duration, such as ``5m0s`` or ``1.5s``; :func:`parse_duration` reads it."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if 0 < seconds < 1:
        unit, size = next((unit, size) for unit, size in (("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)) if seconds >= size)
        return f"{_decimal(seconds / size)}{unit}"
    whole, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(whole), 60)
    longer = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{longer}{_decimal(rest)}s"


def _decimal(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")


def parse_size(text: str, bare_unit: int = 1) -> int:
    """Bytes of ``64MiB``, ``64M``, ``1g``; all units are powers of 1024. A bare number counts ``bare_unit`` bytes."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size such as 64 or 64MiB")
    if text.strip().isdigit():
        return int(text) * bare_unit
    return int(float(match[1]) * 1024 ** _EXPONENT[match[2].lower()])


def split_address(text: str) -> tuple[str, int]:
    """The two parts of ``host:port``; the host may be empty, an IPv6 host is in brackets."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isdigit() or int(port) >= _PORT_LIMIT:
        raise ValueError(f"{text!r} is not an address such as 192.168.0.1:8261")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host or "[" in host or "]" in host or "/" in host:
        raise ValueError(f"{text!r} is not an address such as 192.168.0.1:8261 or [::1]:8261")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_unspecified(host: str) -> bool:
    """Whether other machines can't dial the host: it is empty or means all interfaces."""
    return host in ("", "0.0.0.0", "::")


def check_timezone(text: str) -> None:
    """Raises ``ValueError`` unless ``text`` is empty, an IANA name, or an offset within −12:59…+14:00."""
    if not text:
        return
    match = _ZONE_OFFSET.fullmatch(text)
    if match:
        minutes = (int(match[2]) * 60 + int(match[3])) * (-1 if match[1] == "-" else 1)
        if not _LEAST_OFFSET <= minutes <= _MOST_OFFSET:
            raise ValueError(f"{text!r} is outside of -12:59 to +14:00")
        return
    if text.lower() in ("system", "local", "localtime"):
        raise ValueError(f"{text!r} differs from machine to machine")
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{text!r} is not a known time zone") from None
