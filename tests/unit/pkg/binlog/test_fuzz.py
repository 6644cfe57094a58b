"""Hazard: damaged or hostile events crash the decoder, make it hang, or end in an error that names no position."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from pkg.binlog.events import event_from_bytes
from pkg.binlog.table_map import parse_table_map, table_map_name
from pkg.mysql.schema import Column
from tests.both_decoders import BothDecoders
from tests.harness import binlog_bytes
from tests.sweeps import examples
from tests.unit.pkg.binlog.support import TYPED

_TEXT = {"charset": "utf8mb4"}
#: Type number, metadata, definition, a value.
_COLUMNS: list[tuple[int, bytes, Column, bytes]] = [
    (3, b"", Column("i", "int", "int(11)"), b"\1\0\0\0"),
    (9, b"", Column("m", "mediumint", "mediumint(9)"), b"\xff\xff\xff"),
    (8, b"", Column("b", "bigint", "bigint(20) unsigned", unsigned=True), b"\xff" * 8),
    (4, b"\4", Column("f", "float", "float"), struct.pack("<f", 1.5)),
    (5, b"\10", Column("d", "double", "double"), struct.pack("<d", -0.0)),
    (246, b"\x41\x1e", Column("n", "decimal", "decimal(65,30)"), b"\x80" + bytes(29)),
    (16, b"\5\1", Column("bt", "bit", "bit(13)"), b"\x1f\xff"),
    (13, b"", Column("y", "year", "year(4)"), b"\x7c"),
    (10, b"", Column("da", "date", "date"), b"\x21\xd0\x0f"),
    (11, b"", Column("t", "time", "time"), b"\1\2\3"),
    (11, b"", Column("th", "time", "time(6) /* mariadb-5.3 */"), bytes(6)),
    (12, b"", Column("dt", "datetime", "datetime"), bytes(8)),
    (12, b"", Column("dh", "datetime", "datetime(3) /* mariadb-5.3 */"), bytes(7)),
    (7, b"", Column("ts", "timestamp", "timestamp"), b"\1\2\3\4"),
    (7, b"", Column("sh", "timestamp", "timestamp(1)"), b"\1\2\3\4\5"),
    (17, b"\5", Column("t5", "timestamp", "timestamp(5)"), b"\1\2\3\4\1\2\3"),
    (18, b"\3", Column("d3", "datetime", "datetime(3)"), b"\x99\x9a\xbc\xde\xf0\1\2"),
    (19, b"\1", Column("t1", "time", "time(1)"), b"\x80\0\1\x0a"),
    (15, b"\x50\0", Column("v", "varchar", "varchar(20)", **_TEXT), b"\3a'\\"),  # type: ignore[arg-type]
    (15, b"\x50\1", Column("g", "varchar", "varchar(168)", charset="gbk"), b"\2\0\xd6\xd0"),
    (254, b"\xfe\x50", Column("c", "char", "char(20)", **_TEXT), b"\2\xc3\xa9"),  # type: ignore[arg-type]
    (254, b"\xee\xfc", Column("cc", "char", "char(255)", **_TEXT), b"\2\0ab"),  # type: ignore[arg-type]
    (254, b"\xfe\x07", Column("bi", "binary", "binary(7)"), b"\2\0\1"),
    (254, b"\xfe\x10", Column("u", "uuid", "uuid"), b"\x10" + bytes(range(16))),
    (254, b"\xfe\x10", Column("i6", "inet6", "inet6"), b"\x10" + bytes(16)),
    (254, b"\xfe\x04", Column("i4", "inet4", "inet4"), b"\4\1\2\3\4"),
    (252, b"\2", Column("tx", "text", "text", **_TEXT), b"\3\0abc"),  # type: ignore[arg-type]
    (252, b"\3", Column("mb", "mediumblob", "mediumblob"), b"\3\0\0\0\1\2"),
    (252, b"\4", Column("lb", "longblob", "longblob"), b"\3\0\0\0\0\1\2"),
    (254, b"\xf7\1", Column("e", "enum", "enum('a','b')"), b"\1"),
    (254, b"\xf8\1", Column("s", "set", "set('a','b')"), b"\3"),
    (254, b"\xf8\x08", Column("s8", "set", "set(" + ",".join(f"'{n}'" for n in range(64)) + ")"), b"\xff" * 8),
    (255, b"\4", Column("ge", "geometry", "geometry"), b"\x19\0\0\0" + bytes(25)),
    (245, b"\4", Column("j", "json", "json"), struct.pack("<I", len(TYPED)) + TYPED),
    (242, b"\4", Column("ve", "vector", "vector(1)"), b"\4\0\0\0\1\2\3\4"),
    (141, b"\x50\0", Column("vc", "varchar", "varchar(20) /*M!100301 COMPRESSED*/", **_TEXT), b"\4\0abc"),  # type: ignore[arg-type]
    (140, b"\2", Column("bc", "blob", "blob /*M!100301 COMPRESSED*/"), b"\x0d\0\x81\2" + zlib.compress(b"ab") + b"\0"),
]
_TYPES = bytes(kind for kind, *_ in _COLUMNS)
_MAP = binlog_bytes.table_map(_TYPES, b"".join(meta for _, meta, *_ in _COLUMNS), -1 & (1 << len(_COLUMNS)) - 1)
_DEFINITIONS = [column for *_, column, _ in _COLUMNS]
_BITMAP = (len(_COLUMNS) + 7) // 8
_IMAGE = bytes(_BITMAP) + b"".join(value for *_, value in _COLUMNS)
_WRITE = range(len(_COLUMNS))


def _rows(kind: int, images: int) -> bytes:
    body = _IMAGE * images
    if kind >= 166:
        body = b"\x82" + len(body).to_bytes(2, "big") + zlib.compress(body)
    return binlog_bytes.rows(kind, len(_COLUMNS), body)


_EVENTS = [_rows(kind, 2) for kind in (23, 24, 25, 30, 31, 32, 166, 170)]


@st.composite
def mutations(draw: st.DrawFn, whole: bytes, first: int) -> bytes:
    """``whole`` with some bytes changed, cut out, doubled or added, from byte ``first`` on."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(first, max(first, len(data) - 1)))
        gone = draw(st.integers(0, 4))
        new = draw(st.binary(max_size=4) | st.sampled_from((b"\xff" * 4, bytes(4), bytes(data[at : at + 40]))))
        data[at : at + gone] = new
    return bytes(data)


def _outcome(action: Callable[[], object], *codes: int) -> int:
    """0, or the code of the error, which must be one of ``codes``."""
    code = binlog_bytes.error_code(action)
    assert code in (0, *codes)
    return code


def _decode(data: bytes, decoder: BothDecoders) -> None:
    """Both forms give rows, or both the same error; the short form does not look at old values but of the key."""
    short = _outcome(lambda: decoder.changes(data, "b.000004"), 11070, 11071, 11126, 36027)
    whole = _outcome(lambda: decoder.images(data, "b.000004"), 11070, 11071, 11126, 36027)
    assert whole == short or (short == 0 and data[4] not in (23, 30, 166))


def test_the_seeds_are_sound() -> None:
    decoder = BothDecoders(parse_table_map(_MAP), _DEFINITIONS, key=[0, 18], write=_WRITE)
    for event in _EVENTS:
        assert len(decoder.changes(event)) == (1 if event[4] in (24, 31, 170) else 2)
        _decode(event, decoder)


@given(st.data())
@settings(max_examples=examples(150))
def test_damaged_rows_events_are_rows_or_errors(data: st.DataObject) -> None:
    decoder = BothDecoders(parse_table_map(_MAP), _DEFINITIONS, key=[0, 18], write=_WRITE)
    _decode(data.draw(mutations(data.draw(st.sampled_from(_EVENTS)), 19)), decoder)


@given(st.data())
@settings(max_examples=examples(100))
def test_damaged_table_maps_are_tables_or_errors(data: st.DataObject) -> None:
    extra = b"\1\2\xff\xff\2\1\x21\4" + bytes([3, 1]) + b"a\5\6\1\1a\6\3\1\1b\7\2\1\3\x08\1\0"
    whole = _MAP.data + data.draw(st.sampled_from((b"", extra)))
    event = event_from_bytes(data.draw(mutations(whole, 19)))
    rows = data.draw(st.sampled_from(_EVENTS))

    def decode() -> None:
        table_map_name(event, "b.000004")
        _decode(rows, BothDecoders(parse_table_map(event, "b.000004"), _DEFINITIONS, key=[0, 18], write=_WRITE))

    _outcome(decode, 11054, 11071, 11076, 36027)
