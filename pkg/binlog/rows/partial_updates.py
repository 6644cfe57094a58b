"""Completes the images of MySQL's partial updates. Pure.

In PARTIAL_UPDATE_ROWS events (``binlog_row_value_options=PARTIAL_JSON``) JSON columns after an update hold the
differences to the image before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pkg.binlog import constants as c
from pkg.binlog.cursor import Cursor
from pkg.binlog.rows.json_diffs import apply_diffs
from pkg.binlog.rows.literals import Codec

_PARTIAL_JSON = 1


@dataclass(frozen=True, slots=True)
class _Place:
    """How an image holds a column."""

    prefix: int
    size: int
    nullable: bool
    json: bool


class PartialUpdates:
    """Completes the images of one table shape."""

    def __init__(self, types: bytes, codecs: Sequence[Codec], nullable: Sequence[bool]) -> None:
        self._places = [
            _Place(codec.prefix, codec.fixed_size, null, kind == c.TYPE_JSON)
            for kind, codec, null in zip(types, codecs, nullable, strict=True)
        ]
        self._bitmap = (len(types) + 7) // 8
        self._json_columns = sum(column.json for column in self._places)

    def completed(self, data: bytes, start: int) -> bytes:
        """The event with complete images from ``start`` on, as UPDATE_ROWS has them.

        Raises ``ValueError`` or ``IndexError`` for images that are torn or do not fit each other.
        """
        cursor = Cursor(data, start)
        out = [data[:4], bytes([c.UPDATE_ROWS_EVENT]), data[5:start]]
        while cursor.left:
            at = cursor.pos
            before = self._image(cursor)
            out.append(data[at : cursor.pos])
            out.append(self._after(cursor, before))
        return b"".join(out)

    def _after(self, cursor: Cursor, before: list[bytes | None]) -> bytes:
        options = cursor.packed_int()
        if options & ~_PARTIAL_JSON:
            raise ValueError(f"an update with unknown options {options:#x}")
        partial = 0
        if options & _PARTIAL_JSON:
            partial = int.from_bytes(cursor.take((self._json_columns + 7) // 8), "little")
        nulls = cursor.take(self._bitmap)
        cursor.pos -= len(nulls)
        out = [nulls]
        json_columns = 0
        for number, (column, value) in enumerate(zip(self._places, self._image(cursor), strict=True)):
            is_partial = column.json and partial >> json_columns & 1
            json_columns += column.json
            if value is None:
                continue
            if is_partial:
                document = before[number]
                if document is None:
                    raise ValueError("differences to a JSON document that is NULL")
                value = apply_diffs(document, value)
            if column.prefix:
                out.append(len(value).to_bytes(column.prefix, "little"))
            out.append(value)
        return b"".join(out)

    def _image(self, cursor: Cursor) -> list[bytes | None]:
        """The values of the image at the cursor; None for NULL."""
        nulls = int.from_bytes(cursor.take(self._bitmap), "little")
        values: list[bytes | None] = []
        for number, column in enumerate(self._places):
            if column.nullable and nulls >> number & 1:
                values.append(None)
                continue
            size = cursor.uint(column.prefix) if column.prefix else column.size
            values.append(cursor.take(size))
        return values
