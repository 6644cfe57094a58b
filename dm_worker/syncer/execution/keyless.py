"""Many row changes of a table without a key in a few scans of it. Pure.

Rows without a key are equal or not; it does not matter which of several equal ones changes. So a table is a multiset of
row images, and a run of changes sets another count for each image. One scan counts the images that the changes start
from, the changes are applied to the counts, one scan deletes the images whose count decreased, and INSERT writes the
remaining copies of them, and the new ones.

A digest of its values identifies an image. The target computes it the same way for its rows and for literals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.row_matching import around
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.names import qualified, quote

#: Fewer changes of existing rows are cheaper one by one: each takes half a scan, without digests.
LEAST_CHANGES = 16
#: The number of digests of literals per statement, and of images per scan.
DIGESTS_PER_STATEMENT = 1000
IMAGES_PER_SCAN = 50_000
DIGEST_BYTES = 32
#: The length of a digest in a statement: x'…' and a comma.
_DIGEST_TEXT = 2 * DIGEST_BYTES + 4
#: Values for an index lookup may take this part of a statement, and this many bytes, at most.
_LOOKUP_PART, _LOOKUP_BYTES = 4, 256 * 1024


@dataclass(frozen=True, slots=True)
class KeylessRows:
    """Ordered rows of one target table without a key that may be written as a multiset."""

    plan: TablePlan
    rows: Sequence[OrderedRow]


@dataclass(slots=True)
class DistinctImages:
    """The numbered images of some rows. ``looked_for`` are those of rows that must exist before a change."""

    literals: list[bytes]
    values: list[Sequence[bytes]]
    looked_for: list[int]
    #: Number of the image before and after each change.
    changes: list[tuple[int | None, int | None]]


@dataclass(slots=True)
class ImageChanges:
    """The changes to write: images that lose rows, and images with the number of copies to insert."""

    fewer: list[int]
    inserts: list[tuple[int, int]]


class MissingRow(Exception):
    """The change with the number ``change`` finds no row equal to its before image."""

    def __init__(self, change: int) -> None:
        super().__init__(change)
        self.change = change


def plan_for(plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow]) -> TablePlan | None:
    """The plan for writing the rows as a multiset, None when they must be written one by one."""
    numbers = {row[2] for row in rows}
    plan = plans[rows[0][2]]
    if plan.key or not plan.digests or plan.family or any(not _alike(plan, plans[number]) for number in numbers):
        return None
    changes = sum(row[4] is not None for row in rows)
    return plan if changes >= LEAST_CHANGES else None


def _alike(one: TablePlan, other: TablePlan) -> bool:
    """Whether equal rows of both plans have equal literals."""
    return (
        one.target_number == other.target_number
        and (one.columns, one.derived, one.write) == (other.columns, other.derived, other.write)
        and (one.write_names, one.digests) == (other.write_names, other.digests)
    )


def images_of(plan: TablePlan, rows: Iterable[OrderedRow]) -> DistinctImages:
    """The images of the rows, each once."""
    found = DistinctImages([], [], [], [])
    numbers: dict[bytes, int] = {}
    looked_for: set[int] = set()

    def number_of(image: Sequence[bytes] | None) -> int | None:
        if image is None:
            return None
        values = [image[i] for i in plan.write]
        literals = b",".join(values)
        number = numbers.setdefault(literals, len(numbers))
        if number == len(found.literals):
            found.literals.append(literals)
            found.values.append(values)
        return number

    for _, _, _, _, before, after in rows:
        first, second = number_of(before), number_of(after)
        found.changes.append((first, second))
        if first is not None and first not in looked_for:
            looked_for.add(first)
            found.looked_for.append(first)
    return found


def merge_equal(images: DistinctImages, digests: Sequence[bytes]) -> dict[int, bytes]:
    """Merges images that are equal in the target's columns; ``digests`` belong to ``images.looked_for``.

    Returns the digests of the remaining images.
    """
    first: dict[bytes, int] = {}
    same = {number: first.setdefault(digest, number) for number, digest in zip(images.looked_for, digests, strict=True)}
    if len(first) < len(same):
        images.changes = [(_mapped(same, before), _mapped(same, after)) for before, after in images.changes]
        images.looked_for = list(first.values())
    return {number: digest for digest, number in first.items()}


def _mapped(same: Mapping[int, int], number: int | None) -> int | None:
    return None if number is None else same.get(number, number)


def play_changes(images: DistinctImages, counts: Mapping[int, int]) -> ImageChanges:
    """Applies the changes to the existing rows: ``counts`` of the images that were looked for.

    Raises :class:`MissingRow` for the first change of a missing row.
    """
    now = dict(counts)
    for change, (before, after) in enumerate(images.changes):
        if before is not None:
            if now.get(before, 0) == 0:
                raise MissingRow(change)
            now[before] -= 1
        if after is not None:
            now[after] = now.get(after, 0) + 1
    outcome = ImageChanges([], [])
    for number, count in now.items():
        there = counts.get(number, 0)
        if count < there:
            # A DELETE can't select one of several equal rows: it deletes all, and the others are inserted again.
            outcome.fewer.append(number)
            there = 0
        if count > there:
            outcome.inserts.append((number, count - there))
    return outcome


# -- statements -----------------------------------------------------------------------------------------------------


def digest_queries(plan: TablePlan, images: DistinctImages, most: int) -> Iterator[bytes]:
    """SELECTs of one value each, of about ``most`` bytes: the concatenated digests of the images looked for.

    The value is NULL when an image exceeds the server's limit for values.
    """
    parts: list[bytes] = []
    size = 0
    for number in images.looked_for:
        values = zip(plan.digests, images.values[number], strict=True)
        part = _digest(around(literal, value) for (_, literal), value in values)
        if parts and (size + len(part) > most or len(parts) == DIGESTS_PER_STATEMENT):
            yield b"SELECT CONCAT(%b)" % b",".join(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield b"SELECT CONCAT(%b)" % b",".join(parts)


def scans(numbers: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """Splits the images into as many parts as scans are needed, with statements of about ``most`` bytes."""
    step = max(1, min(IMAGES_PER_SCAN, most // 2 // _DIGEST_TEXT))
    for first in range(0, len(numbers), step):
        yield numbers[first : first + step]


def count_query(
    plan: TablePlan, images: DistinctImages, digests: Mapping[int, bytes], numbers: Sequence[int], most: int
) -> bytes:
    """The SELECT of the digest and row count of these images in the table. It locks the rows."""
    digest = _digest_of_row(plan)
    where = _where(plan, images, digests, numbers, most)
    # By its position: a column of the table may have any name.
    return b"SELECT %b, COUNT(*) FROM %b%b GROUP BY 1 FOR UPDATE" % (digest, _table(plan), where)


def removal(
    plan: TablePlan, images: DistinctImages, digests: Mapping[int, bytes], numbers: Sequence[int], most: int
) -> bytes:
    """The DELETE of all rows that have one of the images."""
    return b"DELETE FROM %b%b" % (_table(plan), _where(plan, images, digests, numbers, most))


def new_rows(images: DistinctImages, outcome: ImageChanges) -> list[bytes]:
    """The SQL tuples of the rows to insert."""
    return [b"(%b)" % images.literals[number] for number, count in outcome.inserts for _ in range(count)]


def _table(plan: TablePlan) -> bytes:
    return qualified(*plan.target).encode()


def _digest_of_row(plan: TablePlan) -> bytes:
    return _digest(column.encode() for column, _ in plan.digests)


def _digest(values: Iterable[bytes]) -> bytes:
    """The digest of all values, separated by their quotes; NULL has none. NULL for a value over the server's limit."""
    quoted = b",',',".join(b"QUOTE(%b)" % value for value in values)
    return b"UNHEX(SHA2(CONCAT(%b),256))" % quoted


def _where(
    plan: TablePlan, images: DistinctImages, digests: Mapping[int, bytes], numbers: Sequence[int], most: int
) -> bytes:
    listed = b",".join(b"x'%b'" % digests[number].hex().encode() for number in numbers)
    room = min(_LOOKUP_BYTES, most // _LOOKUP_PART) // max(1, len(plan.lookups))
    parts = [lookup for at in plan.lookups if (lookup := _lookup(plan, images, at, numbers, room))]
    return b" WHERE " + b" AND ".join([*parts, b"%b IN (%b)" % (_digest_of_row(plan), listed)])


def _lookup(plan: TablePlan, images: DistinctImages, at: int, numbers: Collection[int], room: int) -> bytes:
    """A condition that is true at least for these images, and that an index on the column can use; empty for values
    longer than ``room``."""
    values = {images.values[number][at] for number in numbers}
    name = quote(plan.write_names[at]).encode()
    null = b"NULL" in values
    values.discard(b"NULL")
    if sum(map(len, values)) + len(values) > room:
        return b""
    listed = [b"%b IN (%b)" % (name, b",".join(sorted(values)))] if values else []
    return b"(" + b" OR ".join([*listed, *([b"%b IS NULL" % name] if null else [])]) + b")"
