"""Checksums of the rows of a part, in total or by buckets of their digests. The checksums of merged tables are added
up. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dm_worker.table_reads.column_literals import FieldValue

#: Numbers of 64 bits of a digest, and the fields of a bucket: its number, rows, digests, exclusive ors, sums.
_NUMBERS = 2
WIDTH = 3 + 2 * _NUMBERS


@dataclass(frozen=True, slots=True)
class BucketChecksum:
    """``undigested``: rows whose text the server could not build."""

    rows: int
    undigested: int
    xors: tuple[int, ...]
    sums: tuple[int, ...]

    def __add__(self, other: BucketChecksum) -> BucketChecksum:
        return BucketChecksum(
            self.rows + other.rows,
            self.undigested + other.undigested,
            tuple(one ^ another for one, another in zip(self.xors, other.xors, strict=True)),
            tuple(one + another for one, another in zip(self.sums, other.sums, strict=True)),
        )


Checksums = dict[int, BucketChecksum]


def added(tables: Iterable[Sequence[FieldValue]]) -> Checksums:
    """The checksums of several tables' rows together; each table's as the server's values, row after row."""
    found: Checksums = {}
    for values in tables:
        for row in zip(*[iter(values)] * WIDTH, strict=True):
            # Rows without a digest form a group without a number.
            bucket = -1 if row[0] is None else int(row[0])
            rows, digests, *numbers = (int(value or 0) for value in row[1:])
            one = BucketChecksum(rows, rows - digests, tuple(numbers[:_NUMBERS]), tuple(numbers[_NUMBERS:]))
            found[bucket] = found[bucket] + one if bucket in found else one
    return found


def differing(upstream: Checksums, target: Checksums) -> list[int]:
    """The buckets whose rows differ."""
    return sorted(bucket for bucket in upstream.keys() | target.keys() if upstream.get(bucket) != target.get(bucket))


def count_rows(checksums: Checksums) -> int:
    return sum(bucket.rows for bucket in checksums.values())
