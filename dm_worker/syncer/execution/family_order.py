"""Another order of a family's rows, with neighbours that one statement can write. Pure.

Two rows keep their order if one of them decides a value that the other has: the row's own key, a value of another
unique key, or a value that foreign keys refer to. Rows that only refer to the same value do not depend on each other.

A foreign key's actions are not in the binlog, so rows may depend on each other through rows that are not in the
batch. In the other order such a row is still there or already gone, and the server refuses a statement, or one finds
another number of rows. So this order is only tried: after a refusal, the rows are written in the binlog's order.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from dm_worker.syncer.execution.compaction import UPDATE
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.kernel_layout import links_of
from dm_worker.syncer.rows.key_normalization import NULL, normalize_function
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog.rows.row_decoder import KERNEL

#: Added to a row's rank if the change gives other linked values to the row.
_MOVES = 1


@dataclass(frozen=True, slots=True)
class FamilyRun:
    """Rows that do not depend on each other, of one operation on one table. ``keeps``: each changes its row, and keeps
    the values by which the order counts."""

    rows: Sequence[OrderedRow]
    keeps: bool


def may_reorder(plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow]) -> bool:
    """Whether all that the order of the rows depends on is known, and the server shows a wrong one."""
    found = [plans[number] for number in {row[2] for row in rows}]
    return all(plan.links and not plan.filter.leaves_gaps for plan in found)


def reordered(
    plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow], kernel: ModuleType | None = KERNEL
) -> list[FamilyRun]:
    """The rows in runs, each row in a later run than those that it depends on. ``kernel``: the compiled row kernel,
    None for the Python code."""
    used = {number: plans[number] for number in {row[2] for row in rows}}
    ranks = _ranks(used, rows) if kernel is None else _ranks_natively(kernel, used, rows)
    runs: dict[tuple[int, int, int], list[OrderedRow]] = {}
    for rank, row in zip(ranks, rows, strict=True):
        place = rank, row[1], row[2]
        run = runs.get(place)
        if run is None:
            runs[place] = [row]
        else:
            run.append(row)
    return [FamilyRun(runs[place], place[1] == UPDATE and not place[0] & _MOVES) for place in sorted(runs)]


def _ranks_natively(kernel: ModuleType, plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow]) -> Sequence[int]:
    found: bytes = kernel.ranks(rows, {number: links_of(kernel, plan) for number, plan in plans.items()})
    return memoryview(found).cast("I")


def _ranks(plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow]) -> list[int]:
    """For each row twice the number of its wave: it depends on no row of the same wave, or of a later one."""
    links = {
        number: [(link, [normalize_function(normalizer) for normalizer in link.normalizers]) for link in plan.links]
        for number, plan in plans.items()
    }
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    ranks = []
    for _, _, number, _, before, after in rows:
        wave, moves, values = 0, 0, list[tuple[int, bool]]()
        for link, functions in links[number]:
            same = before is not None and after is not None and all(before[i] == after[i] for i in link.columns)
            moves |= 0 if same else _MOVES
            if same and not link.always and not link.shared:
                continue
            for image in (after,) if same else (before, after):
                if image is not None and all(image[i] != NULL for i in link.columns):
                    parts = [normalize(image[i]) for normalize, i in zip(functions, link.columns, strict=True)]
                    values.append((zlib.crc32(b",".join(parts), link.seed), link.shared))
        for value, shared in values:
            wave = max(wave, written.get(value, 0), 0 if shared else read.get(value, 0))
        wave += 1
        for value, shared in values:
            kept = read if shared else written
            kept[value] = max(wave, kept.get(value, 0))
        ranks.append(wave << 1 | moves)
    return ranks
