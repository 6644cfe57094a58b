"""Dates and times of row images as quoted literals. Pure.

Times, datetimes and timestamps have three forms: today's (since MySQL 5.6), the older one without fractions, and
MariaDB's own for fractions in tables created with ``mysql56_temporal_format=OFF``.
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
_EPOCH = date(1970, 1, 1).toordinal()


def decoder(kind: int, meta: int) -> tuple[int, Callable[[bytes], bytes]]:
    """The value's size in bytes and a function from bytes to the literal; ``meta`` is the number of fraction digits."""
    if kind in _FRACTIONAL and meta:
        sizes, of_ticks = _FRACTIONAL[kind]
        return sizes[meta], _quoted(lambda raw: of_ticks(int.from_bytes(raw, "big"), meta))
    if kind in _OLD:
        size, convert = _OLD[kind]
        return size, _quoted(convert)
    base, convert = _NEW[kind]
    size = base + (meta + 1) // 2
    if kind == c.TYPE_TIME2:
        return size, _quoted(lambda raw: _time(raw, meta))
    return size, _with_fraction(base, meta, convert) if meta else _quoted(convert)


def _quoted(convert: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda raw: b"'%b'" % convert(raw)


def _with_fraction(base: int, digits: int, convert: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    # An odd number of digits is stored with one digit more.
    divisor = 10 if digits & 1 else 1
    form = b"'%%b.%%0%dd'" % digits

    def render(raw: bytes) -> bytes:
        return form % (convert(raw[:base]), int.from_bytes(raw[base:], "big") // divisor)

    return render


def _day(number: int) -> bytes:
    """A date and a blank, by days since 1970."""
    day = date.fromordinal(_EPOCH + number)
    return b"%04d-%02d-%02d " % (day.year, day.month, day.day)


def _packed_day(value: int) -> bytes:
    """A date and a blank, by the bits of DATETIME above the time; the date may be invalid."""
    year_month = value >> 5
    return b"%04d-%02d-%02d " % (year_month // 13, year_month % 13, value & 31)


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
    minutes, seconds = divmod(rest, 60)
    return _day(days) + b"%02d:%02d:%02d" % (*divmod(minutes, 60), seconds)


def _old_timestamp(raw: bytes) -> bytes:
    return _seconds(int.from_bytes(raw, "little"))


def _timestamp(raw: bytes) -> bytes:
    return _seconds(int.from_bytes(raw, "big"))


def _datetime(raw: bytes) -> bytes:
    value = int.from_bytes(raw, "big") - 0x8000000000
    if value < 0:
        raise ValueError("negative DATETIME")
    return _packed_day(value >> 17) + b"%02d:%02d:%02d" % (value >> 12 & 31, value >> 6 & 63, value & 63)


def _time(raw: bytes, digits: int) -> bytes:
    bits = 8 * (len(raw) - 3)
    # One signed number with the fraction, shifted so that bytes compare like times.
    value = int.from_bytes(raw, "big") - (0x800000 << bits)
    sign, value = (b"-", -value) if value < 0 else (b"", value)
    clock, fraction = value >> bits, value & ((1 << bits) - 1)
    whole = sign + b"%02d:%02d:%02d" % (clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63)
    return b"%b.%0*d" % (whole, digits, fraction // (10 if digits & 1 else 1)) if digits else whole


def _split(value: int, digits: int) -> tuple[int, bytes]:
    """Whole seconds, and the fraction with its decimal point."""
    whole, fraction = divmod(value, 10**digits)
    return whole, b".%0*d" % (digits, fraction)


def _clock(seconds: int) -> bytes:
    minutes, rest = divmod(seconds, 60)
    return b"%02d:%02d:%02d" % (*divmod(minutes, 60), rest)


def _fractional_time(value: int, digits: int) -> bytes:
    # Shifted by one second more than the longest time.
    value -= _LONGEST_TIME * 10**digits
    seconds, fraction = _split(abs(value), digits)
    return (b"-" if value < 0 else b"") + _clock(seconds) + fraction


def _fractional_datetime(value: int, digits: int) -> bytes:
    seconds, fraction = _split(value, digits)
    days, seconds = divmod(seconds, 86400)
    return _packed_day(days) + _clock(seconds) + fraction


def _fractional_timestamp(value: int, digits: int) -> bytes:
    # The fraction has its own bytes.
    bits = 8 * ((digits + 1) // 2)
    return _seconds(value >> bits) + b".%0*d" % (digits, value & ((1 << bits) - 1))


_LONGEST_TIME = 838 * 3600 + 59 * 60 + 59 + 1
#: Sizes in bytes by number of digits, and conversion of the big-endian number.
_FRACTIONAL: dict[int, tuple[tuple[int, ...], Callable[[int, int], bytes]]] = {
    c.TYPE_TIME: ((0, 4, 4, 5, 5, 5, 6), _fractional_time),
    c.TYPE_DATETIME: ((0, 6, 6, 7, 7, 7, 8), _fractional_datetime),
    c.TYPE_TIMESTAMP: ((0, 5, 5, 6, 6, 7, 7), _fractional_timestamp),
}
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
