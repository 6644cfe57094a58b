"""Dates and times of row images as quoted literals: today's forms with fractions and those before MySQL 5.6. Pure.

The same moments come again and again, so literals without fractions are remembered by their bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from pkg.binlog import constants as c

KINDS = (
    c.TYPE_DATE,
    c.TYPE_NEWDATE,
    c.TYPE_TIME,
    c.TYPE_DATETIME,
    c.TYPE_TIMESTAMP,
    c.TYPE_TIME2,
    c.TYPE_DATETIME2,
    c.TYPE_TIMESTAMP2,
)
#: How many literals a column remembers.
_REMEMBERED = 16384
_EPOCH = date(1970, 1, 1).toordinal()


def decoder(kind: int, meta: int) -> tuple[int, Callable[[bytes], bytes]]:
    """The value's size in bytes and a function from them to the literal; ``meta`` is the number of fraction digits."""
    if kind in _OLD:
        size, convert = _OLD[kind]
        return size, _Remembered(lambda raw: b"'%b'" % convert(raw)).__getitem__
    base_size, convert = _NEW[kind]
    size = base_size + (meta + 1) // 2
    if kind == c.TYPE_TIME2:
        return size, _Remembered(lambda raw: b"'%b'" % _time(raw, meta)).__getitem__
    if not meta:
        return size, _Remembered(lambda raw: b"'%b'" % convert(raw)).__getitem__
    return size, _with_fraction(base_size, meta, _Remembered(convert))


class _Remembered(dict[bytes, bytes]):
    """Literals by raw bytes, made when they are missing; emptied when too many."""

    def __init__(self, convert: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, raw: bytes) -> bytes:
        if len(self) >= _REMEMBERED:
            self.clear()
        literal = self[raw] = self._convert(raw)
        return literal


def _with_fraction(base: int, digits: int, whole: _Remembered) -> Callable[[bytes], bytes]:
    # An odd number of digits is stored with one more.
    divisor = 10 if digits & 1 else 1

    def render(raw: bytes) -> bytes:
        return b"'%b.%0*d'" % (whole[raw[:base]], digits, int.from_bytes(raw[base:], "big") // divisor)

    return render


def _date(raw: bytes) -> bytes:
    value = int.from_bytes(raw, "little")
    return b"%04d-%02d-%02d" % (value >> 9, value >> 5 & 15, value & 31)


def _old_time(raw: bytes) -> bytes:
    value = int.from_bytes(raw, "little", signed=True)
    sign, value = (b"-", -value) if value < 0 else (b"", value)
    return b"%b%02d:%02d:%02d" % (sign, value // 10000, value // 100 % 100, value % 100)


def _old_datetime(raw: bytes) -> bytes:
    day, clock = divmod(int.from_bytes(raw, "little"), 1_000_000)
    return b"%04d-%02d-%02d %02d:%02d:%02d" % (
        *(day // 10000, day // 100 % 100, day % 100),
        *(clock // 10000, clock // 100 % 100, clock % 100),
    )


def _seconds(value: int) -> bytes:
    """Seconds since 1970 in UTC; 0 is the zero date."""
    if not value:
        return b"0000-00-00 00:00:00"
    days, rest = divmod(value, 86400)
    day = date.fromordinal(_EPOCH + days)
    return b"%04d-%02d-%02d %02d:%02d:%02d" % (
        *(day.year, day.month, day.day),
        *(rest // 3600, rest // 60 % 60, rest % 60),
    )


def _old_timestamp(raw: bytes) -> bytes:
    return _seconds(int.from_bytes(raw, "little"))


def _timestamp(raw: bytes) -> bytes:
    return _seconds(int.from_bytes(raw, "big"))


def _datetime(raw: bytes) -> bytes:
    value = int.from_bytes(raw, "big") - 0x8000000000
    if value < 0:
        raise ValueError("negative DATETIME")
    year_month = value >> 22
    return b"%04d-%02d-%02d %02d:%02d:%02d" % (
        *(year_month // 13, year_month % 13, value >> 17 & 31),
        *(value >> 12 & 31, value >> 6 & 63, value & 63),
    )


def _time(raw: bytes, digits: int) -> bytes:
    bits = 8 * (len(raw) - 3)
    # One signed number, fraction included, moved up so that bytes compare like times.
    value = int.from_bytes(raw, "big") - (0x800000 << bits)
    sign, value = (b"-", -value) if value < 0 else (b"", value)
    clock, fraction = value >> bits, value & ((1 << bits) - 1)
    whole = b"%b%02d:%02d:%02d" % (sign, clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63)
    return b"%b.%0*d" % (whole, digits, fraction // (10 if digits & 1 else 1)) if digits else whole


#: Size in bytes and conversion.
_OLD: dict[int, tuple[int, Callable[[bytes], bytes]]] = {
    c.TYPE_DATE: (3, _date),
    c.TYPE_NEWDATE: (3, _date),
    c.TYPE_TIME: (3, _old_time),
    c.TYPE_DATETIME: (8, _old_datetime),
    c.TYPE_TIMESTAMP: (4, _old_timestamp),
}
#: Size in bytes without the fraction, and conversion of those bytes.
_NEW: dict[int, tuple[int, Callable[[bytes], bytes]]] = {
    c.TYPE_TIME2: (3, lambda raw: _time(raw, 0)),
    c.TYPE_DATETIME2: (5, _datetime),
    c.TYPE_TIMESTAMP2: (4, _timestamp),
}
