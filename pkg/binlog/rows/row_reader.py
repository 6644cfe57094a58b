"""Row images to SQL literals, value by value. Pure.

This is the reference for tests of the compiled kernel, and it runs where the kernel was not built. It is plain on
purpose: an image is a bitmap of NULLs and then the values, one after another; each value becomes a literal by its
column's :class:`~pkg.binlog.rows.literals.Codec`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from pkg.binlog import constants as c
from pkg.binlog.rows.derived_literals import Derived
from pkg.binlog.rows.literals import Codec
from pkg.binlog.rows.partial_images import PartialImages, take

#: The bytes of each value of an image; None for NULL.
Values = list[bytes | None]
Append = Callable[[Any], None]


class RowReaders(Protocol):
    """Reads the row images of one table shape: those in ``data`` from ``start`` to ``end``.

    Each method gives every row to ``append`` and returns the offset where it stopped. Raises ``ValueError`` or the like
    for malformed images.
    """

    def insert(self, data: bytes, start: int, end: int, append: Append, /) -> int:
        """Gives (OP_INSERT, key, ``(literal,…)`` to write, b'')."""

    def update(self, data: bytes, start: int, end: int, append: Append, /) -> int:
        """Gives (OP_UPDATE, key, ``(literal,…)`` to write, key before)."""

    def delete(self, data: bytes, start: int, end: int, append: Append, /) -> int:
        """Gives (OP_DELETE, key, b'', b'')."""

    def image(self, data: bytes, start: int, end: int, append: Append, /) -> int:
        """Gives the list of all literals, derived ones too."""

    def image_pair(self, data: bytes, start: int, end: int, append: Append, /) -> int:
        """Gives such lists of the row before and after an update."""

    def completed(self, before: bytes, after: bytes | None, data: bytes, start: int, /) -> bytes:
        """The event ``data`` with complete images from ``start`` on. The bitmaps show the columns that its images hold:
        those ``before`` and ``after`` an update, or the only ones (None)."""


class PythonReaders:
    """See :class:`RowReaders`. ``key`` and ``write`` are numbers of columns, then of ``derived`` literals."""

    def __init__(
        self,
        codecs: Sequence[Codec],
        nullable: Sequence[bool],
        key: Sequence[int],
        write: Sequence[int],
        derived: Sequence[Derived] = (),
    ) -> None:
        self._codecs = codecs
        self._sizes = [codec.fixed_size for codec in codecs]
        self._nullable = nullable
        self._key = key
        self._write = write
        self._derived = derived

    def insert(self, data: bytes, start: int, end: int, append: Append) -> int:
        while start < end:
            values, start = self._values(data, start, end)
            append((c.OP_INSERT, self._key_text(values), self._tuple_text(values), b""))
        return start

    def update(self, data: bytes, start: int, end: int, append: Append) -> int:
        while start < end:
            before, start = self._values(data, start, end)
            after, start = self._values(data, start, end)
            # The old key comes first: of two values that cannot be mapped, the error names the older one.
            old_key = self._key_text(before)
            append((c.OP_UPDATE, self._key_text(after), self._tuple_text(after), old_key))
        return start

    def delete(self, data: bytes, start: int, end: int, append: Append) -> int:
        while start < end:
            values, start = self._values(data, start, end)
            append((c.OP_DELETE, self._key_text(values), b"", b""))
        return start

    def image(self, data: bytes, start: int, end: int, append: Append) -> int:
        while start < end:
            values, start = self._values(data, start, end)
            append(self._all_literals(values))
        return start

    def image_pair(self, data: bytes, start: int, end: int, append: Append) -> int:
        while start < end:
            before, start = self._values(data, start, end)
            after, start = self._values(data, start, end)
            append((self._all_literals(before), self._all_literals(after)))
        return start

    def completed(self, before: bytes, after: bytes | None, data: bytes, start: int) -> bytes:
        return PartialImages(self._codecs, self._nullable, before, after).completed(data, start)

    def _values(self, data: bytes, start: int, end: int) -> tuple[Values, int]:
        """The values of the image at ``start``, and the offset after it."""
        bitmap_size = (len(self._codecs) + 7) // 8
        nulls = int.from_bytes(take(data, start, bitmap_size, end), "little")
        position = start + bitmap_size
        values: Values = []
        for number, (codec, nullable) in enumerate(zip(self._codecs, self._nullable, strict=True)):
            if nullable and nulls >> number & 1:
                values.append(None)
                continue
            size = self._sizes[number]
            if codec.prefix:
                size = int.from_bytes(take(data, position, codec.prefix, end), "little")
                position += codec.prefix
            values.append(take(data, position, size, end))
            position += size
        if position == start:
            raise ValueError("a row image without columns")
        return values, position

    def _literal(self, number: int, values: Values) -> bytes:
        """The literal of a column or, after the columns, a derived one."""
        if number < len(self._codecs):
            value = values[number]
            return b"NULL" if value is None else self._codecs[number].literal(value)
        derived = self._derived[number - len(self._codecs)]
        return derived.text if derived.source < 0 else derived.literal(self._literal(derived.source, values))

    def _literals(self, numbers: Iterable[int], values: Values) -> list[bytes]:
        return [self._literal(number, values) for number in numbers]

    def _all_literals(self, values: Values) -> list[bytes]:
        return self._literals(range(len(self._codecs) + len(self._derived)), values)

    def _key_text(self, values: Values) -> bytes:
        return b",".join(self._literals(self._key, values))

    def _tuple_text(self, values: Values) -> bytes:
        return b"(%b)" % b",".join(self._literals(self._write, values))
