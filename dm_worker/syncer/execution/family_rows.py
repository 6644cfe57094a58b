"""How rows of tables that foreign keys connect are written: with checks or without, and what comes before. Pure.

With checks, the target's keys act as the upstream's did. So a parent is never deleted and inserted again, and a row
that an upstream session wrote without checks is written without them. In safe mode, the rows may have changed already:
each is first restored without checks, and then changed as the upstream changed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from dm_worker.syncer.execution.compaction import DELETE, INSERT, UPDATE
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.table_plan import TablePlan

#: Added to the operation of a row that the upstream's session wrote with foreign_key_checks=0.
UNCHECKED = 8


@dataclass(frozen=True, slots=True)
class OrderedRun:
    """Rows to write in their order, with foreign keys checked or not. ``safe``: in safe mode."""

    rows: Sequence[OrderedRow]
    checks: bool
    safe: bool


def ordered_runs(
    plans: Mapping[int, TablePlan], rows: Sequence[OrderedRow], *, safe: bool, checks: bool
) -> Iterator[OrderedRun]:
    """The runs for rows whose order matters: those of one table, or of one family.

    ``checks``: the setting for rows of no family.
    """
    if not plans[rows[0][2]].family:
        yield OrderedRun(rows, checks, safe)
        return
    if not safe:
        for unchecked, found in groupby(rows, _is_unchecked):
            run = list(found)
            yield OrderedRun(
                [_with_op(row, row[1] & ~UNCHECKED) for row in run] if unchecked else run, not unchecked, False
            )
        return
    for (checked, forced), repeated in groupby(_safely(plans, rows), key=lambda one: one[:2]):
        yield OrderedRun([row for _, _, row in repeated], checked, forced)


#: Whether foreign keys are checked, whether existing rows are overwritten, the row.
_Single = tuple[bool, bool, OrderedRow]


def _is_unchecked(row: OrderedRow) -> int:
    return row[1] & UNCHECKED


def _safely(plans: Mapping[int, TablePlan], rows: Iterable[OrderedRow]) -> Iterator[_Single]:
    for row in rows:
        op, plan = row[1] & ~UNCHECKED, plans[row[2]]
        plain = _with_op(row, op)
        if row[1] & UNCHECKED or not _acts(plan, plain):
            # The row that it refers to may have been deleted since.
            yield False, True, plain
        elif not plan.key:
            yield True, True, plain
        else:
            yield from _repeated(plan, plain)


def _acts(plan: TablePlan, row: OrderedRow) -> bool:
    """Whether the change may cause an action of a foreign key."""
    before, after = row[4:]
    if not plan.acts or before is None:
        return False
    return after is None or any(before[i] != after[i] for i in plan.referenced)


def _repeated(plan: TablePlan, row: OrderedRow) -> Iterator[_Single]:
    """A change that causes an action, on a row that may have it already."""
    before, after = row[4:]
    assert before is not None
    if after is None:
        yield False, True, _with_images(row, INSERT, None, before)
        yield True, False, row
        return
    # A row that others refer to changes only by itself: a parent of this row may have been deleted since, and is
    # required only by changes of the referring columns.
    moved = list(before)
    for i in (*plan.key, *plan.referenced):
        moved[i] = after[i]
    if any(before[i] != after[i] for i in plan.key) or (plan.rewrite_existing and not plan.extra_columns):
        # A replacement removes conflicting rows; that replacement is removed next.
        yield False, True, _with_images(row, INSERT, None, moved)
        yield False, True, _with_images(row, DELETE, moved, None)
    yield False, True, _with_images(row, INSERT, None, before)
    yield True, False, _with_images(row, UPDATE, before, moved)
    yield False, True, _with_images(row, INSERT, None, after)


def _with_op(row: OrderedRow, op: int) -> OrderedRow:
    return row[0], op, *row[2:]


def _with_images(row: OrderedRow, op: int, before: list[bytes] | None, after: list[bytes] | None) -> OrderedRow:
    return row[0], op, row[2], row[3], before, after
