"""Another order of a family's rows, with neighbours that one statement can write. Pure.

Two rows keep their order if one of them decides a value that the other has: the row's own key, a value of another
unique key, or a value that foreign keys refer to. Rows that only refer to the same value do not depend on each other.

A foreign key's actions are not in the binlog, so rows may depend on each other through rows that are not in the
batch. In the other order such a row is still there or already gone, and the server refuses a statement, or one finds
another number of rows. So this order is only tried: after a refusal, the rows are written in the binlog's order.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.key_normalization import NULL, Normalize, normalize_function
from dm_worker.syncer.rows.table_plan import RowLink, TablePlan

_ImageOrNone = Sequence[bytes] | None
#: The values of a row before and after its change, each with whether rows that have it may change their order.
_LinkedValues = Callable[[_ImageOrNone, _ImageOrNone], Iterator[tuple[int, bool]]]


def may_reorder(plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow]) -> bool:
    """Whether all that the order of the rows depends on is known, and the server shows a wrong one."""
    found = [plans[number] for number in {row[2] for row in rows}]
    return all(plan.links and not plan.filter.leaves_gaps for plan in found)


def reordered(plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow]) -> list[Sequence[OrderedRow]]:
    """The rows in runs, each row in a later run than those that it depends on. A run has one operation on one table."""
    values = {number: _values_of(plans[number]) for number in {row[2] for row in rows}}
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    waves: list[tuple[int, int, int]] = []
    for row in rows:
        found = dict[int, bool]()
        for value, shared in values[row[2]](row[4], row[5]):
            found[value] = shared and found.get(value, True)
        wave = 0
        for value, shared in found.items():
            wave = max(wave, written.get(value, 0), 0 if shared else read.get(value, 0))
        wave += 1
        for value, shared in found.items():
            kept = read if shared else written
            kept[value] = max(wave, kept.get(value, 0))
        waves.append((wave, row[1], row[2]))
    order = sorted(range(len(rows)), key=waves.__getitem__)
    return [[rows[i] for i in run] for _, run in groupby(order, waves.__getitem__)]


def _values_of(plan: TablePlan) -> _LinkedValues:
    links: list[tuple[RowLink, list[Normalize]]] = [
        (link, [normalize_function(normalizer) for normalizer in link.normalizers]) for link in plan.links
    ]
    crc32 = zlib.crc32

    def values(before: _ImageOrNone, after: _ImageOrNone) -> Iterator[tuple[int, bool]]:
        for link, functions in links:
            columns = link.columns
            same = before is not None and after is not None and all(before[i] == after[i] for i in columns)
            if same and not link.always and not link.shared:
                continue
            for image in (after,) if same else (before, after):
                if image is not None and all(image[i] != NULL for i in columns):
                    parts = [normalize(image[i]) for normalize, i in zip(functions, columns, strict=True)]
                    yield crc32(b",".join(parts), link.seed), link.shared

    return values
