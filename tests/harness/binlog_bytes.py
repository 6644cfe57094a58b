"""Builds binlog events byte by byte, independently of the code that reads them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from pkg import errors
from pkg.binlog.events import Event, event_from_bytes


def raw(kind: int, body: bytes, *, checksum: bool = False, log_pos: int = 1000, flags: int = 0) -> bytes:
    """An event as in a binlog file."""
    size = 19 + len(body) + (4 if checksum else 0)
    whole = struct.pack("<IBIIIH", 1_700_000_000, kind, 7, size, log_pos, flags) + body
    return whole + struct.pack("<I", zlib.crc32(whole)) if checksum else whole


def event(kind: int, body: bytes, **kw: int) -> Event:
    return event_from_bytes(raw(kind, body, **kw))  # type: ignore[arg-type]


def format_description(*, checksum: bool, server: bytes = b"10.11.6-MariaDB-log", created: int = 0) -> bytes:
    body = struct.pack("<H50sIB", 4, server, created, 19) + bytes(40) + bytes([int(checksum)])
    return raw(15, body, checksum=True)


def rotate(name: bytes, *, checksum: bool = False) -> bytes:
    return raw(4, struct.pack("<Q", 4) + name, checksum=checksum, log_pos=0, flags=0x20)


def packets(events: list[bytes], piece: int = 0xFFFFFF) -> bytes:
    """Events as a server sends them; the protocol splits packets into pieces of at most ``piece`` bytes."""
    stream = b""
    for number, data in enumerate(events):
        rest = b"\0" + data
        while True:
            part, rest = rest[:piece], rest[piece:]
            stream += len(part).to_bytes(3, "little") + bytes([number & 255]) + part
            if len(part) < piece:
                break
    return stream


def table_map(types: bytes, meta: bytes, nullable: int = 0, *, optional: bytes = b"", table: bytes = b"t") -> Event:
    count = len(types)
    body = struct.pack("<IHH", 42, 0, 1) + b"\x01s\0" + bytes([len(table)]) + table + b"\0"
    body += bytes([count]) + types + bytes([len(meta)]) + meta + nullable.to_bytes((count + 7) // 8, "little")
    return event(19, body + optional)


def rows(kind: int, count: int, images: bytes, *, present: int = -1, after: int = -1, extra: bytes = b"") -> bytes:
    """A rows event's data; ``present`` and ``after`` are bitmaps, -1 for all columns."""
    size = (count + 7) // 8
    body = struct.pack("<IHH", 42, 0, 1)
    if kind in (30, 31, 32, 39, 169, 170, 171):
        body += struct.pack("<H", 2 + len(extra)) + extra
    body += bytes([count]) + (present & (1 << count) - 1).to_bytes(size, "little")
    if kind in (24, 31, 39, 167, 170):
        body += (after & (1 << count) - 1).to_bytes(size, "little")
    return raw(kind, body + images)


def error_code(action: Callable[[], object]) -> int:
    """The code of the DMError that ``action`` raises, 0 for none; other exceptions propagate."""
    try:
        action()
    except errors.DMError as exc:
        return exc.code
    return 0


def table_id(data: bytes) -> int:
    """The table id at the start of a TABLE_MAP or rows event."""
    return int.from_bytes(data[19:25], "little")
