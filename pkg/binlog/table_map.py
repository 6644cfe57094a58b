"""TABLE_MAP: the table that the rows events after it belong to, and the shape of its row images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pkg.binlog import constants as c
from pkg.binlog.cursor import Cursor, TornBytes
from pkg.binlog.events import Event, parsing

#: Bytes of metadata that a column type has in TABLE_MAP; other types have none.
_META_SIZES = {
    c.TYPE_FLOAT: 1,
    c.TYPE_DOUBLE: 1,
    c.TYPE_VARCHAR: 2,
    c.TYPE_BIT: 2,
    c.TYPE_TIMESTAMP2: 1,
    c.TYPE_DATETIME2: 1,
    c.TYPE_TIME2: 1,
    c.TYPE_BLOB_COMPRESSED: 1,
    c.TYPE_VARCHAR_COMPRESSED: 2,
    c.TYPE_VECTOR: 1,
    c.TYPE_JSON: 1,
    c.TYPE_NEWDECIMAL: 2,
    c.TYPE_ENUM: 2,
    c.TYPE_SET: 2,
    c.TYPE_TINY_BLOB: 1,
    c.TYPE_MEDIUM_BLOB: 1,
    c.TYPE_LONG_BLOB: 1,
    c.TYPE_BLOB: 1,
    c.TYPE_VAR_STRING: 2,
    c.TYPE_STRING: 2,
    c.TYPE_GEOMETRY: 1,
}
#: Types whose two bytes of metadata are separate values, high byte first.
_BIG_ENDIAN_META = frozenset({c.TYPE_NEWDECIMAL, c.TYPE_STRING, c.TYPE_VAR_STRING, c.TYPE_ENUM, c.TYPE_SET})
#: Types whose metadata is the number of bytes of a value's length.
_LENGTH_FIRST = frozenset(
    {c.TYPE_BLOB, c.TYPE_TINY_BLOB, c.TYPE_MEDIUM_BLOB, c.TYPE_LONG_BLOB, c.TYPE_BLOB_COMPRESSED}
    | {c.TYPE_JSON, c.TYPE_GEOMETRY, c.TYPE_VECTOR}
)
_NUMERIC = frozenset(
    {c.TYPE_TINY, c.TYPE_SHORT, c.TYPE_INT24, c.TYPE_LONG, c.TYPE_LONGLONG}
    | {c.TYPE_FLOAT, c.TYPE_DOUBLE, c.TYPE_NEWDECIMAL, c.TYPE_YEAR}
)
_TEXTUAL = frozenset(
    {c.TYPE_STRING, c.TYPE_VAR_STRING, c.TYPE_VARCHAR, c.TYPE_BLOB, c.TYPE_TINY_BLOB, c.TYPE_MEDIUM_BLOB}
    | {c.TYPE_LONG_BLOB, c.TYPE_BLOB_COMPRESSED, c.TYPE_VARCHAR_COMPRESSED}
)


@dataclass(frozen=True, slots=True)
class TableMap:
    """The content of TABLE_MAP; picklable and hashable.

    ``types`` and ``metas`` have one entry a column. ENUM and SET have their own types, not the STRING that carries
    them. The optional parts are None when the server does not log them (``binlog_row_metadata``): ``unsigned`` (a flag
    a column, False for types without signedness, None where it is not certain), ``collations`` (an id a column, 0 for
    types without one), ``names``, ``members`` (of ENUM and SET columns, as raw bytes in the column's charset, in column
    order), ``primary_key``.
    """

    table_id: int
    schema: str
    table: str
    types: bytes
    metas: tuple[int, ...]
    nullable: tuple[bool, ...]
    unsigned: tuple[bool | None, ...] | None = None
    collations: tuple[int, ...] | None = None
    names: tuple[str, ...] | None = None
    members: tuple[tuple[bytes, ...], ...] | None = None
    primary_key: tuple[int, ...] | None = None

    @property
    def column_count(self) -> int:
        return len(self.types)

    def __str__(self) -> str:
        return f"`{self.schema}`.`{self.table}`"


def table_map_name(event: Event, file: str = "") -> tuple[str, str]:
    """Only schema and table. Raises 11071."""

    def parse() -> tuple[str, str]:
        cursor = Cursor(event.data, c.HEADER_SIZE + 8)
        return _name(cursor), _name(cursor)

    return parsing(event, file, parse)


def _name(cursor: Cursor) -> str:
    name = cursor.take(cursor.uint(1)).decode()
    cursor.take(1)
    return name


def parse_table_map(event: Event, file: str = "") -> TableMap:
    """The whole event. Raises 11071 for bytes that are torn or invalid."""
    return parsing(event, file, lambda: _table_map(event))


def _table_map(event: Event) -> TableMap:
    cursor = Cursor(event.data, c.HEADER_SIZE)
    table_id = cursor.uint(6)
    cursor.take(2)
    schema, table = _name(cursor), _name(cursor)
    raw_types = cursor.take(cursor.packed_int())
    metas = _metas(raw_types, cursor.take(cursor.packed_int()))
    types = bytes(_real_type(kind, meta) for kind, meta in zip(raw_types, metas, strict=True))
    for kind, meta in zip(types, metas, strict=True):
        if not _plausible(kind, meta):
            raise ValueError(f"metadata {meta} of column type {kind}")
    nullable = _bits(cursor.take((len(types) + 7) // 8), len(types))
    return TableMap(table_id, schema, table, types, metas, nullable, **_optional(cursor, types))


def _metas(types: bytes, data: bytes) -> tuple[int, ...]:
    cursor = Cursor(data)
    metas = []
    for kind in types:
        raw = cursor.take(_META_SIZES.get(kind, 0))
        metas.append(int.from_bytes(raw, "big" if kind in _BIG_ENDIAN_META else "little"))
    if cursor.left:
        raise TornBytes(f"{cursor.left} bytes of metadata do not belong to any column")
    return tuple(metas)


def _plausible(kind: int, meta: int) -> bool:
    """Whether a column of this type may have this metadata, for types whose values wrong metadata would misread."""
    high, low = meta >> 8, meta & 0xFF
    if kind in _LENGTH_FIRST:
        return 1 <= meta <= 4
    if kind == c.TYPE_NEWDECIMAL:
        return 1 <= high <= 65 and low <= high
    if kind == c.TYPE_BIT:
        return 1 <= high * 8 + low <= 64 and low < 8
    if kind in (c.TYPE_ENUM, c.TYPE_SET):
        return low in (1, 2) if kind == c.TYPE_ENUM else 1 <= low <= 8
    return meta <= 6 if kind in (c.TYPE_TIME2, c.TYPE_DATETIME2, c.TYPE_TIMESTAMP2) else True


def _real_type(kind: int, meta: int) -> int:
    return meta >> 8 if kind == c.TYPE_STRING and meta >> 8 in (c.TYPE_ENUM, c.TYPE_SET) else kind


def _bits(data: bytes, count: int) -> tuple[bool, ...]:
    """``count`` flags, the first in the lowest bit."""
    return tuple(bool(data[i >> 3] >> (i & 7) & 1) for i in range(count))


def _optional(cursor: Cursor, types: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    enumerated = [i for i, kind in enumerate(types) if kind in (c.TYPE_ENUM, c.TYPE_SET)]
    collations: dict[int, int] = {}
    members: dict[int, list[tuple[bytes, ...]]] = {}
    while cursor.left:
        kind, length = cursor.uint(1), cursor.packed_int()
        part = Cursor(cursor.take(length))
        if kind == 1:
            found["unsigned"] = _unsigned(part.rest(), types)
        elif kind in (2, 3):
            collations.update(_collations(part, types, each=kind == 3))
        elif kind in (10, 11):
            collations.update(_numbered(part, enumerated, each=kind == 11))
        elif kind == 4:
            found["names"] = tuple(part.take(part.packed_int()).decode() for _ in types)
        elif kind in (5, 6):
            members[kind] = _members(part)
        elif kind in (8, 9):
            found["primary_key"] = _primary_key(part, with_prefix=kind == 9)
    if collations:
        found["collations"] = tuple(collations.get(i, 0) for i in range(len(types)))
    if members:
        found["members"] = _in_order(members, types, enumerated)
    return found


def _unsigned(flags: bytes, types: bytes) -> tuple[bool | None, ...]:
    """The signedness of numbers; MySQL 8.0.12 does not count YEAR among them, later versions and MariaDB do.

    The event does not name its server, so flags that differ between the possible readings are left out. YEAR is
    unsigned.
    """
    readings = []
    for counted in (_NUMERIC, _NUMERIC - {c.TYPE_YEAR}):
        columns = [i for i, kind in enumerate(types) if kind in counted]
        if len(flags) == (len(columns) + 7) // 8:
            unsigned = {column: bool(flags[n >> 3] << (n & 7) & 0x80) for n, column in enumerate(columns)}
            if all(unsigned[i] for i in columns if types[i] == c.TYPE_YEAR):
                readings.append([unsigned.get(i, False) for i in range(len(types))])
    if not readings:
        raise TornBytes(
            f"{len(flags)} bytes of signedness for {sum(kind in _NUMERIC for kind in types)} columns with numbers"
        )
    return tuple(both[0] if len(set(both)) == 1 else None for both in zip(*readings, strict=True))


def _collations(part: Cursor, types: bytes, *, each: bool) -> dict[int, int]:
    """The collations of text columns; MariaDB counts GEOMETRY among them and MySQL does not.

    The event does not name its server, so collations that differ between the possible readings are left out.
    """
    numbers = _packed_ints(part)
    counted = {
        tuple(i for i, kind in enumerate(types) if kind in _TEXTUAL or kind in also)
        for also in ((), (c.TYPE_GEOMETRY,), (c.TYPE_VECTOR,), (c.TYPE_GEOMETRY, c.TYPE_VECTOR))
    }
    if each:
        readings = [dict(zip(columns, numbers, strict=True)) for columns in counted if len(columns) == len(numbers)]
    else:
        readings = [_exceptions(numbers, columns) for columns in counted]
    if not readings:
        raise TornBytes(f"{len(numbers)} collations for {min(map(len, counted))} text columns")
    first, *others = readings
    return {column: n for column, n in first.items() if all(other.get(column) == n for other in others)}


def _packed_ints(part: Cursor) -> list[int]:
    numbers = []
    while part.left:
        numbers.append(part.packed_int())
    return numbers


def _numbered(part: Cursor, columns: Sequence[int], *, each: bool) -> dict[int, int]:
    numbers = _packed_ints(part)
    return dict(zip(columns, numbers, strict=True)) if each else _exceptions(numbers, columns)


def _exceptions(numbers: list[int], columns: Sequence[int]) -> dict[int, int]:
    """A default, then pairs of a column's index in ``columns`` and its collation."""
    if len(numbers) % 2 == 0:
        raise TornBytes("a default collation or that of an exception is missing")
    others = dict(zip(numbers[1::2], numbers[2::2], strict=True))
    return {column: others.get(n, numbers[0]) for n, column in enumerate(columns)}


def _members(part: Cursor) -> list[tuple[bytes, ...]]:
    columns = []
    while part.left:
        count = part.packed_int()
        columns.append(tuple(part.take(part.packed_int()) for _ in range(count)))
    return columns


def _in_order(
    members: dict[int, list[tuple[bytes, ...]]], types: bytes, columns: list[int]
) -> tuple[tuple[bytes, ...], ...]:
    """SET's lists (5) and ENUM's (6) are separate; together they follow the columns."""
    sets, enums = iter(members.get(5, [])), iter(members.get(6, []))
    return tuple(next(sets if types[i] == c.TYPE_SET else enums, ()) for i in columns)


def _primary_key(part: Cursor, *, with_prefix: bool) -> tuple[int, ...]:
    columns = []
    while part.left:
        columns.append(part.packed_int())
        if with_prefix:
            part.packed_int()
    return tuple(columns)


@dataclass(frozen=True, slots=True)
class RowsHeader:
    """The part before the row images. ``body`` is their offset in the event's data, ``op`` one of constants.OP_*.

    ``present`` are the columns in the (before) image, ``present_after`` those in an UPDATE's after image.
    """

    op: int
    table_id: int
    statement_end: bool
    column_count: int
    present: tuple[bool, ...]
    present_after: tuple[bool, ...]
    body: int


def parse_rows_header(event: Event, file: str = "") -> RowsHeader:
    """Raises 11071 for torn bytes; the event must be one of constants.ROWS_EVENTS."""
    return parsing(event, file, lambda: _rows_header(event))


def _rows_header(event: Event) -> RowsHeader:
    cursor = Cursor(event.data, c.HEADER_SIZE)
    op = c.ROWS_EVENTS[event.type]
    table_id, flags = cursor.uint(6), cursor.uint(2)
    if event.type in c.ROWS_EVENTS_V2:
        cursor.take(cursor.uint(2) - 2)
    count = cursor.packed_int()
    present = _bits(cursor.take((count + 7) // 8), count)
    after = _bits(cursor.take((count + 7) // 8), count) if op == c.OP_UPDATE else present
    return RowsHeader(op, table_id, bool(flags & 1), count, present, after, cursor.pos)
