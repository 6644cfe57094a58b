"""Which row changes of a table are left out: by kind (binlog event filter), or by an expression. Pure.

A :class:`RowFilter` is plain data, part of the table's plan; expressions are compiled where rows are decoded.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache

from pkg.binlog import constants as c
from pkg.binlog.rows.row_decoder import RowImages
from pkg.errors import DMError
from pkg.mysql.schema import Column
from pkg.rules.binlog_filter import RowDecisions
from pkg.rules.expression_filter import CompiledFilter, compile_filter

_ALL_KINDS = RowDecisions()
_WORDS = ("insert", "update", "delete")
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)")

#: Returns the row changes of an event that are not left out; the number is the event's time (UNIX seconds).
KeepRows = Callable[[Sequence[RowImages], int], Sequence[RowImages]]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """``kinds``: the action for each kind of row change. The others are expressions, each for columns that the table
    has; a row is left out when one of its kind is true. ``update`` are pairs for the row before and after, of which
    both must be true and one may be empty. ``zone`` is that of TIMESTAMPs in expressions, '' for UTC; ``flavor`` the
    upstream's.
    """

    kinds: RowDecisions = _ALL_KINDS
    insert: tuple[str, ...] = ()
    update: tuple[tuple[str, str], ...] = ()
    delete: tuple[str, ...] = ()
    zone: str = ""
    flavor: str = "mysql"

    @property
    def reads_rows(self) -> bool:
        """Whether the decision depends on rows."""
        return bool(self.insert or self.update or self.delete)

    @property
    def takes_all(self) -> bool:
        return self.kinds.takes_all and not self.reads_rows

    @property
    def leaves_gaps(self) -> bool:
        """Whether a row of the upstream may be missing at the target, or be there under its old key.

        Deletes that are left out cause no gap: later changes find their rows.
        """
        return self.reads_rows or not self.kinds.ignored <= {"delete"}

    def columns_read(self, columns: Sequence[Column]) -> tuple[int, ...]:
        """The numbers of the columns that expressions may name."""
        expressions = (*self.insert, *self.delete, *(text for pair in self.update for text in pair))
        text = " ".join(expressions).lower()
        return tuple(number for number, column in enumerate(columns) if column.name.lower() in text) if text else ()

    def refusal(self, op: int, name: tuple[str, str]) -> DMError | None:
        """36015 for a kind of row change (``c.OP_…``) of table ``name`` at which the task stops."""
        decision = (self.kinds.insert, self.kinds.update, self.kinds.delete)[op]
        return decision.refusal(*name, _WORDS[op]) if decision.action == "error" else None

    def ignores(self, op: int) -> bool:
        """Whether all row changes of the kind are left out."""
        return (self.kinds.insert, self.kinds.update, self.kinds.delete)[op].action == "ignore"

    def compiled(self, columns: tuple[Column, ...]) -> KeepRows:
        """The function that leaves rows out, for rows of these columns; cached by the process.

        Raises 20041 for an expression that they don't support. The function raises 36017 for a row for which an
        expression has no value.
        """
        return _compiled(self, columns)


TAKES_ALL = RowFilter()


@lru_cache(maxsize=1024)
def _compiled(rules: RowFilter, columns: tuple[Column, ...]) -> KeepRows:
    zone = zone_of(rules.zone)

    def one(text: str) -> CompiledFilter:
        return compile_filter(text, columns, zone=zone, flavor=rules.flavor)

    inserts, deletes = ([one(text) for text in expressions] for expressions in (rules.insert, rules.delete))
    updates = [tuple(one(text) if text else None for text in pair) for pair in rules.update]

    def is_out(image: RowImages, second: int) -> bool:
        op, before, after = image
        if op == c.OP_INSERT:
            return any(_matches(each, after, second) for each in inserts)
        if op == c.OP_DELETE:
            return any(_matches(each, before, second) for each in deletes)
        return any(_matches(old, before, second) and _matches(new, after, second) for old, new in updates)

    return lambda images, second: [image for image in images if not is_out(image, second)]


def _matches(expression: CompiledFilter | None, row: list[bytes] | None, second: int) -> bool:
    if expression is None:
        return True
    assert row is not None
    return expression.matches(row, second)


def zone_of(text: str) -> tzinfo:
    """A task's ``timezone``: a name, an offset, or '' for UTC."""
    offset = _OFFSET.fullmatch(text)
    if offset is None:
        return zoneinfo.ZoneInfo(text) if text else UTC
    sign = -1 if offset[1] == "-" else 1
    return timezone(sign * timedelta(hours=int(offset[2]), minutes=int(offset[3])))
