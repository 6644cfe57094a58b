"""Completes partial row images, because later stages read images of all columns. Pure.

- After an update in MySQL's PARTIAL_UPDATE_ROWS events (``binlog_row_value_options=PARTIAL_JSON``) JSON columns hold
  the differences to the image before.
- An image after an update may hold what changed alone (MariaDB's ``FULL_NODUP``): the rest is in the image before.
- MariaDB 11.8 leaves generated columns out of updates and deletes. They become NULL here, as nothing reads them: the
  target computes its own.
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


#: The bytes of a value with its length; None for NULL.
_Image = list[bytes | None]


def completable(before: Sequence[bool], after: Sequence[bool] | None, spared: Sequence[bool]) -> bool:
    """Whether the images of a rows event hold enough: those ``before`` and ``after`` an update, or its only images.

    ``spared``: the columns that are not read.
    """
    held = all(there or spare for there, spare in zip(before, spared, strict=True))
    return held and (after is None or all(map(any, zip(after, before, spared, strict=True))))


class PartialImages:
    """Completes the images of one table shape whose events have the columns ``before`` and ``after``."""

    def __init__(
        self, codecs: Sequence[Codec], nullable: Sequence[bool], before: Sequence[bool], after: Sequence[bool] | None
    ) -> None:
        self._shape = [(codec.prefix, codec.fixed_size, null) for codec, null in zip(codecs, nullable, strict=True)]
        self._absent: _Image = [None if null else bytes(prefix or size) for prefix, size, null in self._shape]
        self._bitmap = (len(codecs) + 7) // 8
        self._before = _numbers(before)
        self._after = None if after is None else _numbers(after)
        self._head = ((1 << len(codecs)) - 1).to_bytes(self._bitmap, "little") * (1 if after is None else 2)

    def completed(self, data: bytes, start: int) -> bytes:
        """The event, which is not compressed, with complete images from ``start`` on.

        Raises ``ValueError`` or ``IndexError`` for images that are torn.
        """
        cursor = Cursor(data, start)
        out = [data[: start - len(self._head)], self._head]
        while cursor.left:
            image = list(self._absent)
            self._read(cursor, data, self._before, image)
            self._append(image, out)
            if self._after is not None:
                self._read(cursor, data, self._after, image)
                self._append(image, out)
        return b"".join(out)

    def _read(self, cursor: Cursor, data: bytes, numbers: Sequence[int], image: _Image) -> None:
        """Takes the values of those columns from the image at the cursor."""
        nulls = int.from_bytes(cursor.take((len(numbers) + 7) // 8), "little")
        for index, number in enumerate(numbers):
            prefix, size, nullable = self._shape[number]
            if nullable and nulls >> index & 1:
                image[number] = None
                continue
            at = cursor.pos
            length = cursor.uint(prefix) if prefix else size
            cursor.take(length)
            image[number] = data[at : cursor.pos]

    def _append(self, image: _Image, out: list[bytes]) -> None:
        nulls = sum(1 << number for number, value in enumerate(image) if value is None)
        out.append(nulls.to_bytes(self._bitmap, "little"))
        out.extend(value for value in image if value is not None)


def _numbers(present: Sequence[bool]) -> list[int]:
    return [number for number, there in enumerate(present) if there]
