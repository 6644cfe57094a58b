"""Completes row images that hold a part of the columns, because later stages read images of all columns. Pure.

- An image after an update may hold what changed alone (MariaDB's ``FULL_NODUP``): the rest is in the image before.
- MariaDB 11.8 leaves generated columns out of updates and deletes. They become NULL here, as nothing reads them: the
  target computes its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pkg.binlog.rows.literals import Codec

#: The bytes of a value with its length; None for NULL.
_Image = list[bytes | None]


def completable(before: Sequence[bool], after: Sequence[bool] | None, spared: Sequence[bool]) -> bool:
    """Whether the images of a rows event hold enough: those ``before`` and ``after`` an update, or its only images.

    ``spared``: the columns that are not read.
    """
    held = all(there or spare for there, spare in zip(before, spared, strict=True))
    return held and (after is None or all(map(any, zip(after, before, spared, strict=True))))


def take(data: bytes, start: int, size: int, end: int) -> bytes:
    """``size`` bytes of an image in ``data``; ValueError where the event ends before."""
    if size > end - start:
        raise ValueError("a row image ends beyond its event")
    return data[start : start + size]


class PartialImages:
    """Completes the images of one table shape whose events have the columns ``before`` and ``after``, as bitmaps."""

    def __init__(self, codecs: Sequence[Codec], nullable: Sequence[bool], before: bytes, after: bytes | None) -> None:
        self._shape = [(codec.prefix, codec.fixed_size, null) for codec, null in zip(codecs, nullable, strict=True)]
        self._absent: _Image = [None if null else bytes(prefix or size) for prefix, size, null in self._shape]
        self._bitmap = (len(codecs) + 7) // 8
        self._held = [self._numbers(bits) for bits in (before, after) if bits is not None]
        self._head = ((1 << len(codecs)) - 1).to_bytes(self._bitmap, "little") * len(self._held)

    def _numbers(self, bits: bytes) -> list[int]:
        """The columns of a bitmap."""
        return [number for number in range(len(self._shape)) if bits[number >> 3] >> (number & 7) & 1]

    def completed(self, data: bytes, start: int) -> bytes:
        """The event, which is not compressed, with complete images from ``start`` on.

        Raises ``ValueError`` for images that are torn.
        """
        out = [data[: start - len(self._head)], self._head]
        while start < len(data):
            row = start
            image = list(self._absent)
            for numbers in self._held:
                start = self._read(data, start, numbers, image)
                self._append(image, out)
            if start == row:
                raise ValueError("a row image without columns")
        return b"".join(out)

    def _read(self, data: bytes, at: int, numbers: Sequence[int], image: _Image) -> int:
        """Takes the values of those columns from the image at ``at``; returns its end."""
        bits = take(data, at, (len(numbers) + 7) // 8, len(data))
        nulls = int.from_bytes(bits, "little")
        at += len(bits)
        for index, number in enumerate(numbers):
            prefix, size, nullable = self._shape[number]
            if nullable and nulls >> index & 1:
                image[number] = None
                continue
            if prefix:
                size = prefix + int.from_bytes(take(data, at, prefix, len(data)), "little")
            image[number] = take(data, at, size, len(data))
            at += size
        return at

    def _append(self, image: _Image, out: list[bytes]) -> None:
        nulls = sum(1 << number for number, value in enumerate(image) if value is None)
        out.append(nulls.to_bytes(self._bitmap, "little"))
        out.extend(value for value in image if value is not None)
