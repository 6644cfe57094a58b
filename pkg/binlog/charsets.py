"""Character sets as the binlog names them: collation ids, and the Python codecs that read them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from pkg import errors
from pkg.binlog import multi_byte_charsets
from pkg.binlog.single_byte_charsets import HIGH, OTHERWISE, SWE7
from pkg.errors import Code
from pkg.errors.workarounds import Advice

#: Charset → its collation ids, as inclusive ranges. Both servers agree on ids below 512; higher ones are MariaDB's.
_RANGES: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "big5": ((1, 1), (84, 84)),
    "latin2": ((2, 2), (9, 9), (21, 21), (27, 27), (77, 77)),
    "dec8": ((3, 3), (69, 69)),
    "cp850": ((4, 4), (80, 80)),
    "latin1": ((5, 5), (8, 8), (15, 15), (31, 31), (47, 49), (94, 94)),
    "hp8": ((6, 6), (72, 72)),
    "koi8r": ((7, 7), (74, 74)),
    "swe7": ((10, 10), (82, 82)),
    "ascii": ((11, 11), (65, 65)),
    "ujis": ((12, 12), (91, 91)),
    "sjis": ((13, 13), (88, 88)),
    "cp1251": ((14, 14), (23, 23), (50, 52)),
    "hebrew": ((16, 16), (71, 71)),
    "tis620": ((18, 18), (89, 89)),
    "euckr": ((19, 19), (85, 85)),
    "latin7": ((20, 20), (41, 42), (79, 79)),
    "koi8u": ((22, 22), (75, 75)),
    "gb2312": ((24, 24), (86, 86)),
    "greek": ((25, 25), (70, 70)),
    "cp1250": ((26, 26), (34, 34), (44, 44), (66, 66), (99, 99)),
    "gbk": ((28, 28), (87, 87)),
    "cp1257": ((29, 29), (58, 59)),
    "latin5": ((30, 30), (78, 78)),
    "armscii8": ((32, 32), (64, 64)),
    "utf8mb3": ((33, 33), (76, 76), (83, 83), (192, 215), (223, 223), (576, 607), (2048, 2303)),
    "ucs2": ((35, 35), (90, 90), (128, 151), (159, 159), (640, 671), (2560, 2815)),
    "cp866": ((36, 36), (68, 68)),
    "keybcs2": ((37, 37), (73, 73)),
    "macce": ((38, 38), (43, 43)),
    "macroman": ((39, 39), (53, 53)),
    "cp852": ((40, 40), (81, 81)),
    "utf8mb4": ((45, 46), (224, 247), (255, 323), (608, 639), (2304, 2559)),
    "utf16": ((54, 55), (101, 124), (672, 703), (2816, 3071)),
    "utf16le": ((56, 56), (62, 62)),
    "cp1256": ((57, 57), (67, 67)),
    "utf32": ((60, 61), (160, 183), (736, 767), (3072, 3327)),
    "binary": ((63, 63),),
    "geostd8": ((92, 93),),
    "cp932": ((95, 96),),
    "eucjpms": ((97, 98),),
    "gb18030": ((248, 250),),
}
_BY_ID: Final = {
    number: name for name, ranges in _RANGES.items() for first, last in ranges for number in range(first, last + 1)
}
#: MariaDB adds this number to a collation's id for its NO PAD form.
_NO_PAD: Final = 1024

_CODECS: Final = {
    "binary": "utf-8",
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "hebrew": "iso8859_8",
    "greek": "iso8859_7",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "macroman": "mac_roman",
    "macce": "mac_latin2",
    "tis620": "tis_620",
    "euckr": "cp949",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "sjis": "shift_jis",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    **{
        same: same
        for same in ("ascii", "big5", "gbk", "gb2312", "gb18030", "cp850", "cp852", "cp866", "cp932", "cp1250")
    },
    **{same: same for same in ("cp1251", "cp1256", "cp1257")},
}

#: Charsets whose ASCII characters are single bytes with ASCII's meaning. Their pure ASCII strings can stand unchanged
#: in UTF-8 SQL.
ASCII_COMPATIBLE: Final = frozenset(
    {"latin1", "latin2", "latin5", "latin7", "gbk", "gb2312", "gb18030", "big5", "cp1250", "cp1251", "cp1256"}
    | {"ascii", "cp1257", "greek", "hebrew", "koi8r", "koi8u", "euckr", "ujis", "eucjpms", "cp850", "cp852", "cp866"}
)


def _high(name: str) -> dict[int, str]:
    """The characters of the bytes from 0x80 on; ? where a byte has none."""
    plain = HIGH.get(name) or bytes(range(0x80, 0x100)).decode(_CODECS[name], "replace").replace("\ufffd", "?")
    return {**dict(enumerate(plain, 0x80)), **OTHERWISE.get(name, {})}


#: Charset → its characters from byte 0x80 on (? for none), where Python has no codec or one that differs from the
#: servers'.
_DECODE: Final = {**{name: _high(name) for name in (*HIGH, *OTHERWISE)}, "swe7": SWE7}
#: ASCII characters keep ASCII's bytes.
_ENCODE: Final = {
    name: {char: byte for byte, char in reversed(table.items()) if not char.isascii()}
    for name, table in _DECODE.items()
}
#: Charsets that encode an ASCII character as another byte, or as more than one.
_WIDE: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32", "swe7"})
_MULTI_BYTE: Final = frozenset(
    {
        "ucs2",
        "utf16",
        "utf16le",
        "utf32",
        "big5",
        "gbk",
        "gb2312",
        "gb18030",
        "euckr",
        "ujis",
        "eucjpms",
        "sjis",
        "cp932",
    }
)
#: Charsets whose bytes are UTF-8. Not ascii: servers before MySQL 5.7 keep any byte there.
UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8"})


def collation_charset(collation_id: int) -> str:
    """The charset of a collation id of either server. Raises 11054 for an unknown one."""
    name = _BY_ID.get(collation_id) or _BY_ID.get(collation_id - _NO_PAD)
    if name is None:
        raise errors.new(
            Code.BinlogEventDecode,
            f"collation id {collation_id} in the binlog is unknown",
            workaround="Use a built-in character set for the upstream's sessions and columns.",
        )
    return name


def same_charset(one: str, other: str) -> bool:
    """Compares charset names; ``utf8`` and ``utf8mb3`` are the same."""
    return one == other or {one, other} == {"utf8", "utf8mb3"}


def _decode_latin1(data: bytes) -> str:
    # MySQL's latin1 is cp1252, but the five bytes that cp1252 does not define are control characters.
    return "".join(chr(b) if b in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else bytes((b,)).decode("cp1252") for b in data)


def decode_text(data: bytes, charset: str) -> str:
    """Decodes MySQL's ``charset``. Raises 11054 for invalid bytes, and for a charset without a known codec."""
    if data.isascii() and charset not in _WIDE:
        return data.decode("ascii")
    try:
        if charset == "latin1":
            return _decode_latin1(data)
        if charset in _DECODE:
            return "".join(_decoded(data, _DECODE[charset]))
        if charset in multi_byte_charsets.DECODE:
            return multi_byte_charsets.DECODE[charset](data)
        if charset in _CODECS:
            return data.decode(_CODECS[charset])
    except UnicodeDecodeError as exc:
        raise _undecodable(data, charset, str(exc)) from exc
    raise _undecodable(data, charset, "this charset is not supported")


def is_ascii_alone(charset: str) -> bool:
    """Whether ASCII bytes keep their ASCII meaning in this charset."""
    return charset not in _WIDE


@lru_cache(maxsize=64)
def utf8_characters(charset: str) -> bytes:
    """The characters of a single-byte charset in UTF-8, as the compiled kernel reads them: for each byte a length and
    up to three bytes. The length is 0 where there is no character. Empty for other charsets."""
    if charset in _MULTI_BYTE:
        return b""
    return b"".join(_utf8_entry(bytes((byte,)), charset) for byte in range(0x100))


def _utf8_entry(byte: bytes, charset: str) -> bytes:
    try:
        char = decode_text(byte, charset).encode()
    except errors.DMError:
        return bytes(4)
    if char in (b"'", b"\\"):
        char = b"\\" + char
    return bytes((len(char),)) + char.ljust(3, b"\0")


def _decoded(data: bytes, table: Mapping[int, str]) -> Iterator[str]:
    for at, byte in enumerate(data):
        char = table.get(byte, chr(byte))
        if char == "?" and byte != ord("?"):
            raise UnicodeDecodeError("charmap", data, at, at + 1, "no character has this code")
        yield char


def encode_text(text: str, charset: str) -> bytes:
    """The reverse of :func:`decode_text`. Raises 11054 for other characters, and without a known codec."""
    if text.isascii() and charset not in _WIDE:
        return text.encode("ascii")
    try:
        if charset == "latin1":
            return b"".join(_encode_latin1(char) for char in text)
        if charset in _ENCODE:
            return bytes(_encoded(text, charset))
        if charset in _CODECS:
            return text.encode(_CODECS[charset])
    except UnicodeEncodeError as exc:
        raise _unencodable(text, charset, str(exc)) from exc
    raise _unencodable(text, charset, "this charset is not supported")


def _encoded(text: str, charset: str) -> Iterator[int]:
    table = _DECODE[charset]
    for at, char in enumerate(text):
        byte = _ENCODE[charset].get(char)
        if byte is None and char.isascii() and ord(char) not in table:
            byte = ord(char)
        if byte is None:
            raise UnicodeEncodeError("charmap", text, at, at + 1, "the charset does not have this character")
        yield byte


def _encode_latin1(char: str) -> bytes:
    return char.encode("latin1" if char in "\x81\x8d\x8f\x90\x9d" else "cp1252")


def _unencodable(text: str, charset: str, cause: str) -> errors.DMError:
    return errors.new(
        Code.BinlogEventDecode,
        f"the text {text[:40]!r} can't be written in {charset}",
        raw=cause,
        workaround="Use characters that the column's character set has.",
    )


def _undecodable(data: bytes, charset: str, cause: str) -> errors.DMError:
    return errors.new(
        Code.BinlogEventDecode,
        f"bytes {data[:40].hex()}… ({len(data)} in total) are not valid text in {charset}",
        raw=cause,
        workaround=Advice.CONTINUE_AFTER_EVENT,
    )
