"""The form of each column type in a row image, and the SQL literal that reproduces its value bit for bit.

The literals are made for a session with charset utf8mb4, ``time_zone='+00:00'`` and backslash escapes. The session of
the upstream does not matter. Bytes that are not UTF-8 text are written in hex, so that the statement is valid UTF-8.
"""

from __future__ import annotations

import ipaddress
import math
import re
import struct
import zlib
from binascii import hexlify
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.charsets import ASCII_COMPATIBLE, UTF8, collation_charset, decode_text, is_ascii_alone, utf8_characters
from pkg.binlog.events import unzip
from pkg.binlog.rows import jsonb, temporal
from pkg.binlog.rows.decimals import decimal_decoder, decimal_size
from pkg.errors import Code
from pkg.errors.workarounds import Advice
from pkg.mysql.schema import Column

#: Converts a raw value (int, float or bytes, as ``Codec.fixed`` unpacks it) to bytes, or to an int for the form ``%d``.
Render = Callable[[Any], Any]
_MarkedColumn = TypeVar("_MarkedColumn", bound=Column)

_BINARY_TYPES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"})
_INTEGERS = {c.TYPE_TINY: "b", c.TYPE_SHORT: "h", c.TYPE_LONG: "i", c.TYPE_LONGLONG: "q"}
_DIGITS = re.compile(r"\((\d+)\)")
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(frozen=True, slots=True)
class Codec:
    """How one column is read and written.

    ``fixed``: the value's struct format; '' when its length in ``prefix`` bytes precedes it.
    ``form``: the literal as a bytes format with one placeholder. ``render`` converts the raw value for the placeholder;
    None when the raw value fits. ``escape``: the raw bytes are text that may need escapes. ``native`` names the
    compiled kernel's replacement for ``render``: op, two parameters, a text.
    """

    fixed: str = ""
    prefix: int = 0
    form: bytes = b"%b"
    render: Render | None = None
    escape: bool = False
    native: tuple[str, int, int, bytes] | None = None

    @property
    def fixed_size(self) -> int:
        """Bytes of a value without a length before it."""
        return struct.calcsize("<" + self.fixed)

    def literal(self, raw: bytes) -> bytes:
        """The literal of a value that is not NULL, by its bytes in the row image."""
        value: Any = struct.unpack("<" + self.fixed, raw)[0] if self.fixed else raw
        if self.escape:
            value = escape(raw)
        elif self.render is not None:
            value = self.render(value)
        return self.form % (value,)


class MembersByName(Column):
    """An ENUM or SET column whose values are written as their members' names: the target numbers them differently."""

    __slots__ = ()


class EnumByName(MembersByName):
    """An ENUM column that is written to an ENUM with the member '': number 0, whose text this is, stays a number."""

    __slots__ = ()


class TextInUtf8(Column):
    """A column whose text is written in UTF-8, whatever its charset: the target reads no literals in other charsets."""

    __slots__ = ()


def marked(kind: type[_MarkedColumn], column: Column) -> _MarkedColumn:
    """The column as one of ``kind``."""
    return kind(**{field.name: getattr(column, field.name) for field in fields(column)})


def literal_charset(column: Column) -> str:
    """The charset of a text column's literals."""
    return "utf8mb4" if isinstance(column, TextInUtf8) else column.charset


def escape(text: bytes) -> bytes:
    """Text for use between single quotes. Other characters, NUL included, need no escape."""
    return text.replace(b"\\", b"\\\\").replace(b"'", b"\\'")


def codec_for(kind: int, meta: int, column: Column, collation: int = 0) -> Codec:
    """The codec of a column by its type and metadata in TABLE_MAP and its tracked definition.

    ``collation`` is that of TABLE_MAP, 0 if there is none. Raises 11076 for a type that can't be replicated.
    """
    if kind in _INTEGERS:
        code = _INTEGERS[kind]
        return Codec(fixed=code.upper() if column.unsigned else code, form=b"%d")
    maker = _MAKERS.get(kind)
    if maker is None:
        raise _unsupported(column, f"has binlog type {kind}")
    return maker(meta, column, collation)


def _unsupported(column: Column, what: str) -> errors.DMError:
    return errors.new(
        Code.BinlogColumnTypeNotSupport,
        f"column `{column.name}` ({column.column_type}) {what}, which is not supported",
        workaround="Exclude the table with block-allow-list, or change the column's type on the upstream.",
    )


def float_literal(value: float) -> bytes:
    """The shortest decimal that gives exactly this double, written as an approximate number.

    Without an exponent it would be an exact number, which has no negative zero.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a value of a FLOAT or DOUBLE column")
    text = repr(value)
    return text.encode() if "e" in text else text.encode() + b"e0"


def _int24(_: int, column: Column, __: int) -> Codec:
    signed = not column.unsigned
    native = ("INT" if signed else "UINT", 0, 0, b"")
    return Codec(fixed="3s", form=b"%d", render=lambda raw: int.from_bytes(raw, "little", signed=signed), native=native)


def _year(_: int, __: Column, ___: int) -> Codec:
    return Codec(fixed="B", form=b"%d", render=lambda year: year + 1900 if year else 0, native=("YEAR", 0, 0, b""))


def _decimal(meta: int, _: Column, __: int) -> Codec:
    precision, scale = meta >> 8, meta & 0xFF
    native = ("DECIMAL", precision, scale, b"") if scale <= precision <= 65 else None
    size = decimal_size(precision, scale)
    return Codec(fixed=f"{size}s", render=decimal_decoder(precision, scale), native=native)


def _bit(meta: int, _: Column, __: int) -> Codec:
    size = ((meta >> 8) * 8 + (meta & 0xFF) + 7) // 8
    native = ("UINT_BE", 0, 0, b"") if size <= 8 else None
    return Codec(fixed=f"{size}s", form=b"%d", render=lambda raw: int.from_bytes(raw, "big"), native=native)


def _enum(meta: int, column: Column, _: int) -> Codec:
    fixed = _UNSIGNED[meta & 0xFF]
    if not isinstance(column, MembersByName):
        return Codec(fixed=fixed, form=b"%d")
    # Number 0 is the error value; it reads as an empty string.
    none = b"0" if isinstance(column, EnumByName) else b"''"
    names = [none, *(b"'%b'" % escape(name.encode()) for name in column.elements)]
    return Codec(fixed=fixed, render=lambda number: _member(names, number))


def _member(names: list[bytes], number: int) -> bytes:
    if number >= len(names):
        raise ValueError(f"ENUM value {number} exceeds the number of the column's members")
    return names[number]


def _set(meta: int, column: Column, __: int) -> Codec:
    """SET by its bit mask."""
    size = meta & 0xFF
    if isinstance(column, MembersByName):
        by_name = _set_by_name(column.elements)
        return Codec(fixed=f"{size}s", render=lambda raw: by_name(int.from_bytes(raw, "little")))
    if size == 8:
        return Codec(fixed="Q", render=_wide_set(column.elements), native=("WIDE_SET", 0, 0, b""))
    if size in _UNSIGNED:
        return Codec(fixed=_UNSIGNED[size], form=b"%d")
    native = ("UINT", 0, 0, b"") if size <= 8 else None
    return Codec(fixed=f"{size}s", form=b"%d", render=lambda raw: int.from_bytes(raw, "little"), native=native)


def _wide_set(members: tuple[str, ...]) -> Render:
    by_name = _set_by_name(members)
    # Servers compare a SET as a signed number: with its 64th member it is equal only to its names.
    return lambda bits: b"%d" % bits if bits < 1 << 63 else by_name(bits)


def _set_by_name(members: tuple[str, ...]) -> Render:
    def render(bits: int) -> bytes:
        names = [name for i, name in enumerate(members) if bits >> i & 1]
        if len(names) != bits.bit_count():
            raise ValueError(f"SET value {bits} has more members than the column")
        return b"'%b'" % escape(",".join(names).encode())

    return render


_OLD_TIMES = (c.TYPE_TIME, c.TYPE_DATETIME, c.TYPE_TIMESTAMP)
_TEMPORAL_OPS = {
    c.TYPE_DATE: "DATE",
    c.TYPE_NEWDATE: "DATE",
    c.TYPE_TIME: "OLD_TIME",
    c.TYPE_DATETIME: "OLD_DATETIME",
    c.TYPE_TIMESTAMP: "OLD_TIMESTAMP",
    c.TYPE_TIME2: "TIME",
    c.TYPE_DATETIME2: "DATETIME",
    c.TYPE_TIMESTAMP2: "TIMESTAMP",
}


def _temporal(kind: int) -> Callable[[int, Column, int], Codec]:
    def make(meta: int, column: Column, _: int) -> Codec:
        if kind in _OLD_TIMES:
            # The old forms' number of digits is not in the binlog.
            digits = _DIGITS.search(column.column_type)
            meta = int(digits[1]) if digits else 0
        if meta > 6:
            raise _unsupported(column, f"has {meta} fractional digits")
        size, render = temporal.decoder(kind, meta)
        native = None if meta and kind in _OLD_TIMES else (_TEMPORAL_OPS[kind], meta, 0, b"")
        return Codec(fixed=f"{size}s", render=render, native=native)

    return make


def string_length(meta: int) -> int:
    """The length in bytes of a CHAR or BINARY column; the type holds its two highest bits."""
    high, low = meta >> 8, meta & 0xFF
    return low if high & 0x30 == 0x30 else low | ((high & 0x30) ^ 0x30) << 4


def _string(meta: int, column: Column, collation: int) -> Codec:
    length = string_length(meta)
    prefix = 2 if length > 255 else 1
    special = _FIXED_BINARY.get(column.type_name)
    if special is not None:
        return Codec(prefix=prefix, form=b"'%b'", render=lambda raw: special(_padded(raw, length)))
    if column.type_name == "binary":
        # The image lacks trailing zero bytes; comparisons with the column don't supply them.
        native = ("PADDED_HEX", length, 0, b"")
        return Codec(prefix=prefix, form=b"x'%b'", render=lambda raw: hexlify(_padded(raw, length)), native=native)
    return _characters(prefix, column, collation)


def _padded(raw: bytes, length: int) -> bytes:
    if len(raw) > length:
        raise ValueError(f"{len(raw)} bytes in a column of {length}")
    return raw.ljust(length, b"\0")


def _varchar(meta: int, column: Column, collation: int) -> Codec:
    return _characters(2 if meta > 255 else 1, column, collation)


def _blob(meta: int, column: Column, collation: int) -> Codec:
    return _characters(meta, column, collation)


def _geometry(meta: int, _: Column, __: int) -> Codec:
    """The internal form (SRID, then WKB), which both servers take back from a binary string."""
    return Codec(prefix=meta, form=b"x'%b'", render=hexlify)


def _json(meta: int, _: Column, __: int) -> Codec:
    return Codec(prefix=meta, render=jsonb.to_sql)


def _characters(prefix: int, column: Column, collation: int) -> Codec:
    charset = _charset(column, collation)
    if charset == "binary":
        return Codec(prefix=prefix, form=b"x'%b'", render=hexlify)
    if charset in UTF8:
        return Codec(prefix=prefix, form=b"'%b'", escape=True)
    if isinstance(column, TextInUtf8):
        native = ("TRANSLATED", int(is_ascii_alone(charset)), 0, utf8_characters(charset))
        return Codec(prefix=prefix, form=b"'%b'", render=_translated(column, charset), native=native)
    native = ("FOREIGN", int(charset in ASCII_COMPATIBLE), 0, f"_{charset} x'".encode())
    return Codec(prefix=prefix, render=_foreign(charset), native=native)


def _charset(column: Column, collation: int) -> str:
    if column.type_name in _BINARY_TYPES or column.charset == "binary":
        return "binary"
    if column.charset:
        return column.charset
    if collation:
        return collation_charset(collation)
    if column.type_name == "json":
        return "utf8mb4"
    raise errors.new(
        Code.SyncerUnitDMLColumnNotMatch,
        f"the character set of column `{column.name}` ({column.column_type}) is not known",
        workaround=Advice.CORRECT_STRUCTURE,
    )


def _foreign(charset: str) -> Render:
    """Text in another charset: unchanged if it is ASCII, otherwise in hex with an introducer."""
    introducer = f"_{charset} x'".encode()
    plain = charset in ASCII_COMPATIBLE

    def render(raw: bytes) -> bytes:
        if not raw or (plain and raw.isascii()):
            return b"'%b'" % escape(raw)
        return b"%b%b'" % (introducer, hexlify(raw))

    return render


def _translated(column: Column, charset: str) -> Render:
    """Text in another charset as UTF-8."""

    def render(raw: bytes) -> bytes:
        try:
            return escape(decode_text(raw, charset).encode())
        except errors.DMError as exc:
            raise _untranslatable(column, charset, raw) from exc

    return render


def _untranslatable(column: Column, charset: str, raw: bytes) -> errors.DMError:
    shown = f"{raw[:40].hex()}{'…' if len(raw) > 40 else ''}"
    return errors.new(
        Code.BinlogColumnTypeNotSupport,
        f"column `{column.name}` ({column.column_type}) has the bytes {shown}, which are not valid text in {charset}; "
        "the target takes text in UTF-8 only",
        workaround="Correct the row on the upstream, then migrate the table again from a full copy; or exclude the "
        "table with block-allow-list.",
    )


def _compressed(make: Callable[[int, Column, int], Codec]) -> Callable[[int, Column, int], Codec]:
    """MariaDB's COMPRESSED columns: decompresses, then uses the plain column's codec."""

    def compressed(meta: int, column: Column, collation: int) -> Codec:
        plain = make(meta, column, collation)
        inner = plain.render or escape
        return Codec(prefix=plain.prefix, form=plain.form, render=lambda raw: inner(inflate_column(raw)))

    return compressed


def inflate_column(raw: bytes) -> bytes:
    """A COMPRESSED column's value. Raises ``ValueError`` for invalid bytes."""
    if not raw:
        return b""
    head = raw[0]
    if head >> 4 == 0:
        return raw[1:]
    if head >> 4 != 8:
        raise ValueError(f"0x{head:02x} is not a known column compression")
    width = head & 0x07
    return unzip(raw[1 : 1 + width], raw[1 + width :], -zlib.MAX_WBITS if head & 0x08 else zlib.MAX_WBITS)


def _uuid(raw: bytes) -> bytes:
    if len(raw) != 16:
        raise ValueError(f"a UUID of {len(raw)} bytes")
    # Tables from before MariaDB 10.11.5 store UUIDs with their parts reversed, so that they sort by time. The server
    # refuses values whose plain form looks reversed, so the two forms can't be confused.
    if raw[6] & 0x80 and 0 < raw[8] <= 0x80:
        raw = raw[12:16] + raw[10:12] + raw[8:10] + raw[6:8] + raw[0:6]
    text = hexlify(raw)
    return b"-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def inet6_text(raw: bytes) -> str:
    """The 16 bytes of an INET6 as MariaDB prints them: it leaves out the first of the longest runs of zeros, even a
    single one, and writes an IPv4 address at the end as one. Raises ``ValueError`` for other lengths."""
    if len(raw) != 16:
        raise ValueError(f"an INET6 of {len(raw)} bytes")
    words = struct.unpack(">8H", raw)
    runs = [next((n for n in range(8 - at) if words[at + n]), 8 - at) for at in range(8)]
    longest = max(runs)
    if not longest:
        return ":".join(f"{word:x}" for word in words)
    gap = runs.index(longest)
    if gap == 0 and (longest == 6 or (longest == 5 and words[5] == 0xFFFF)):
        return f"::{'ffff:' if longest == 5 else ''}{ipaddress.IPv4Address(raw[12:])}"
    head, tail = words[:gap], words[gap + longest :]
    return f"{':'.join(f'{word:x}' for word in head)}::{':'.join(f'{word:x}' for word in tail)}"


_FIXED_BINARY: dict[str, Callable[[bytes], bytes]] = {
    "inet6": lambda raw: inet6_text(raw).encode(),
    "inet4": lambda raw: str(ipaddress.IPv4Address(raw)).encode(),
    "uuid": _uuid,
}
_MAKERS: dict[int, Callable[[int, Column, int], Codec]] = {
    c.TYPE_INT24: _int24,
    c.TYPE_FLOAT: lambda *_: Codec(fixed="f", render=float_literal),
    c.TYPE_DOUBLE: lambda *_: Codec(fixed="d", render=float_literal),
    c.TYPE_YEAR: _year,
    c.TYPE_NEWDECIMAL: _decimal,
    c.TYPE_BIT: _bit,
    c.TYPE_ENUM: _enum,
    c.TYPE_SET: _set,
    **{kind: _temporal(kind) for kind in temporal.KINDS},
    c.TYPE_STRING: _string,
    c.TYPE_VARCHAR: _varchar,
    c.TYPE_VAR_STRING: _varchar,
    c.TYPE_VARCHAR_COMPRESSED: _compressed(_varchar),
    **dict.fromkeys((c.TYPE_BLOB, c.TYPE_TINY_BLOB, c.TYPE_MEDIUM_BLOB, c.TYPE_LONG_BLOB), _blob),
    c.TYPE_BLOB_COMPRESSED: _compressed(_blob),
    c.TYPE_VECTOR: _blob,
    c.TYPE_GEOMETRY: _geometry,
    c.TYPE_JSON: _json,
}
