"""Stops the batch, before anything of it is written, for values that the target would silently change. Pure.

Only tables with such columns have checks. The rows of a bucket are checked before any statement writes them, in any
form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dm_worker.syncer.execution.merge import DELETE_KEYS, BucketContent
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql.literal_text import split_tuple
from pkg.mysql.names import qualified
from pkg.rules import value_loss
from pkg.rules.kept_values import kept_rows
from pkg.rules.value_loss import ColumnLoss

#: A row's key or value in a message is cut to this many bytes.
_SHOWN = 200


def ensure_kept(content: BucketContent, plans: Mapping[int, TablePlan]) -> None:
    """Raises 36027 for the first value that the target would change."""
    if not any(plan.checks for plan in plans.values()):
        return
    for plan, numbers, literals in _rows(content, plans):
        for number, loss in plan.checks:
            if number not in numbers:
                continue
            literal = literals[numbers.index(number)]
            if loss.changes(literal):
                raise _error(plan, loss, literal, _name(plan, numbers, literals))


def _rows(
    content: BucketContent, plans: Mapping[int, TablePlan]
) -> Iterator[tuple[TablePlan, Sequence[int], Sequence[bytes]]]:
    """Plan, numbers of literals, and the literals, of each row to write and each key to find; without rows whose
    values are known to stay unchanged."""
    for group in content.groups:
        plan = plans[group.plan]
        if plan.checks:
            numbers = plan.key if group.kind == DELETE_KEYS else plan.write
            kept = _kept_rows(plan, numbers)
            for text in group.rows():
                if kept is None or kept.match(text) is None:
                    yield plan, numbers, split_tuple(text)
    for _, _, number, _, _, after in (row for rows in content.ordered.values() for row in rows):
        plan = plans[number]
        if plan.checks and after is not None:
            yield plan, range(len(after)), after


def _kept_rows(plan: TablePlan, numbers: Sequence[int]) -> re.Pattern[bytes] | None:
    losses = dict(plan.checks)
    return kept_rows([losses.get(number) for number in numbers])


def _name(plan: TablePlan, numbers: Sequence[int], literals: Sequence[bytes]) -> bytes:
    return b",".join(literals[numbers.index(number)] for number in plan.key or numbers if number in numbers)


def _error(plan: TablePlan, loss: ColumnLoss, literal: bytes, row: bytes) -> DMError:
    return errors.new(
        Code.SyncerUnitDMLColumnNotMatch,
        f"the target table {qualified(*plan.target)} would store another value than {_cut(literal)} for the row "
        f"({_cut(row)}) of {qualified(*plan.source)}: {value_loss.describe(loss)}",
        scope="downstream",
        workaround=value_loss.way_out(plan.target, loss),
    )


def _cut(literal: bytes) -> str:
    return literal[:_SHOWN].decode("utf-8", "backslashreplace") + ("…" if len(literal) > _SHOWN else "")
