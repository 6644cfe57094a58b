"""Many row changes of a table without a key in a few scans of it. Pure.

Rows without a key are equal or not; it does not matter which of several equal ones changes. So a table is a multiset of
row images, and a run of changes sets another count for each image. The images that the changes start from are counted
and deleted, in one scan where DELETE returns rows and in two elsewhere; the changes are applied to the counts, and
INSERT writes the copies that there are then.

A digest of its values identifies an image. To find a digest among many costs the target more than to delete a row.
Where the values of an integer column distinguish nearly all images, a scan looks for these values, and the digests of
the rows that it finds show whether it was to find them. If the target can write its rows as literals, as
:func:`row_matching.literal_text` says, it computes the digests of these texts, and those of the images are computed
here. A row may have another text than its image. So if a row is missing, and where there are no such texts, the target
computes the digests of literals too, in the form that it uses for its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.row_matching import around
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.names import qualified, quote

#: Fewer changes of existing rows are cheaper one by one: each takes half a scan, without digests.
LEAST_CHANGES = 16
#: The number of digests of literals per statement, and of images per scan.
DIGESTS_PER_STATEMENT = 1000
IMAGES_PER_SCAN = 200_000
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


@dataclass(frozen=True, slots=True)
class ImageDigests:
    """The digests of images by their numbers, and the SQL expression of a row's digest."""

    of_row: bytes
    of: Mapping[int, bytes]


class MissingRow(Exception):
    """The change with the number ``change`` finds no row equal to its before image, of which ``found`` were there."""

    def __init__(self, change: int, found: int) -> None:
        super().__init__(change, found)
        self.change = change
        self.found = found


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
        and (one.write_names, one.digests, one.texts) == (other.write_names, other.digests, other.texts)
    )


def images_of(plan: TablePlan, rows: Iterable[OrderedRow]) -> DistinctImages:
    """The images of the rows, each once."""
    found = DistinctImages([], [], [], [])
    numbers: dict[bytes, int] = {}
    looked_for: dict[int, None] = {}
    chosen = _chooser(plan.write)

    def number_of(image: Sequence[bytes]) -> int:
        values = chosen(image)
        literals = b",".join(values)
        number = numbers.setdefault(literals, len(numbers))
        if number == len(found.literals):
            found.literals.append(literals)
            found.values.append(values)
        return number

    for _, _, _, _, before, after in rows:
        first = None if before is None else number_of(before)
        found.changes.append((first, None if after is None else number_of(after)))
        if first is not None:
            looked_for[first] = None
    found.looked_for = list(looked_for)
    return found


def _chooser(numbers: Sequence[int]) -> Callable[[Sequence[bytes]], Sequence[bytes]]:
    """Returns the values with these numbers of an image."""
    if len(numbers) == 1:
        (only,) = numbers
        return lambda image: (image[only],)
    return itemgetter(*numbers)


def digests_of_literals(plan: TablePlan, images: DistinctImages) -> ImageDigests | None:
    """The digests of the images looked for as texts; None if the target can't write its rows as literals.

    Equal digests prove that a row equals the image. Different ones prove nothing.
    """
    if not plan.texts or not all(plan.texts):
        return None
    of_row = b"UNHEX(SHA2(CONCAT(%b),256))" % b",',',".join(text.encode() for text in plan.texts)
    literals = images.literals
    return ImageDigests(of_row, {number: hashlib.sha256(literals[number]).digest() for number in images.looked_for})


def merge_equal(plan: TablePlan, images: DistinctImages, digests: Sequence[bytes]) -> ImageDigests:
    """Merges images that are equal in the target's columns; ``digests`` belong to ``images.looked_for``.

    Returns the digests of the remaining images.
    """
    first: dict[bytes, int] = {}
    same = {number: first.setdefault(digest, number) for number, digest in zip(images.looked_for, digests, strict=True)}
    if len(first) < len(same):
        images.changes = [(_mapped(same, before), _mapped(same, after)) for before, after in images.changes]
        images.looked_for = list(first.values())
    of_row = _digest(column.encode() for column, _ in plan.digests)
    return ImageDigests(of_row, {number: digest for digest, number in first.items()})


def _mapped(same: Mapping[int, int], number: int | None) -> int | None:
    return None if number is None else same.get(number, number)


def play_changes(images: DistinctImages, counts: Mapping[int, int]) -> list[tuple[int, int]]:
    """Applies the changes to the existing rows: ``counts`` of the images that were looked for.

    Returns the images with the numbers of copies that there are then; the rows that were counted are gone.
    Raises :class:`MissingRow` for the first change of a missing row.
    """
    now = dict(counts)
    for change, (before, after) in enumerate(images.changes):
        if before is not None:
            if now.get(before, 0) == 0:
                raise MissingRow(change, counts.get(before, 0))
            now[before] -= 1
        if after is not None:
            now[after] = now.get(after, 0) + 1
    return [(number, count) for number, count in now.items() if count]


def distinguishing_column(plan: TablePlan, images: DistinctImages) -> int | None:
    """The number among the written columns of an integer column that distinguishes nearly all images, or None."""
    counted = [(len(_values_at(plan, images, at, images.looked_for)[1]), at) for at in plan.integers]
    most, at = max(counted, default=(0, 0))
    return at if most * 10 >= len(images.looked_for) * 9 else None


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


@dataclass(frozen=True, slots=True)
class Search:
    """How a statement finds the rows of the images with these ``numbers``: by digest, or by the values of the written
    column ``column``, which other rows may have too. ``most``: the server's limit for a statement, in bytes."""

    digests: ImageDigests
    numbers: Sequence[int]
    column: int | None
    most: int


def digest_query(plan: TablePlan, images: DistinctImages, search: Search) -> bytes:
    """The SELECT of the digests of the rows, which it locks."""
    where = _where(plan, images, search)
    return b"SELECT %b FROM %b%b FOR UPDATE" % (search.digests.of_row, _table(plan), where)


def removal(plan: TablePlan, images: DistinctImages, search: Search) -> bytes:
    """The DELETE of the rows."""
    return b"DELETE FROM %b%b" % (_table(plan), _where(plan, images, search))


def returning_removal(plan: TablePlan, images: DistinctImages, search: Search) -> bytes:
    """The DELETE that returns the digests of the rows."""
    return b"%b RETURNING %b" % (removal(plan, images, search), search.digests.of_row)


def new_rows(images: DistinctImages, copies: Iterable[tuple[int, int]]) -> list[bytes]:
    """The SQL tuples of the rows to insert."""
    return [b"(%b)" % images.literals[number] for number, count in copies for _ in range(count)]


def _table(plan: TablePlan) -> bytes:
    return qualified(*plan.target).encode()


def _digest(values: Iterable[bytes]) -> bytes:
    """The digest of all values, separated by their quotes; NULL has none. NULL for a value over the server's limit."""
    quoted = b",',',".join(b"QUOTE(%b)" % value for value in values)
    return b"UNHEX(SHA2(CONCAT(%b),256))" % quoted


def _where(plan: TablePlan, images: DistinctImages, search: Search) -> bytes:
    numbers, column = search.numbers, search.column
    room = min(_LOOKUP_BYTES, search.most // _LOOKUP_PART) // max(1, len(plan.lookups))
    # The server evaluates the conditions in this order, and a digest costs more than all others.
    indexed = [at for at in plan.lookups if at != column]
    parts = [lookup for at in indexed if (lookup := _lookup(plan, images, at, numbers, room))]
    parts += [_range(plan, images, at, numbers) for at in (plan.integers if column is None else (column,))]
    if column is None:
        listed = b",".join([b"x'%b'" % search.digests.of[number].hex().encode() for number in numbers])
        parts.append(b"%b IN (%b)" % (search.digests.of_row, listed))
    else:
        parts.append(_lookup(plan, images, column, numbers, search.most))
    return b" WHERE " + b" AND ".join(parts)


def _lookup(plan: TablePlan, images: DistinctImages, at: int, numbers: Collection[int], room: int) -> bytes:
    """A condition that is true at least for these images, and that an index on the column can use; empty for values
    longer than ``room``."""
    name, values, null = _values_at(plan, images, at, numbers)
    if sum(map(len, values)) + len(values) > room:
        return b""
    return _or_null(name, b"%b IN (%b)" % (name, b",".join(sorted(values))) if values else b"", null=null)


def _range(plan: TablePlan, images: DistinctImages, at: int, numbers: Collection[int]) -> bytes:
    """A condition that is true at least for these images: the range of an integer column."""
    name, values, null = _values_at(plan, images, at, numbers)
    found = list(map(int, values))
    return _or_null(name, b"%b BETWEEN %d AND %d" % (name, min(found), max(found)) if found else b"", null=null)


def _values_at(
    plan: TablePlan, images: DistinctImages, at: int, numbers: Collection[int]
) -> tuple[bytes, set[bytes], bool]:
    """The column's name, its different values in these images, and whether NULL is among them."""
    values = {images.values[number][at] for number in numbers}
    null = b"NULL" in values
    values.discard(b"NULL")
    return quote(plan.write_names[at]).encode(), values, null


def _or_null(name: bytes, condition: bytes, *, null: bool) -> bytes:
    parts = [condition] if condition else []
    return b"(" + b" OR ".join([*parts, *([b"%b IS NULL" % name] if null else [])]) + b")"
