"""The statements that give rows of the target the upstream's values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import TablePair
from dm_worker.syncer.rows.row_matching import RowMatch, condition
from pkg.binlog.rows.literals import TextInUtf8, marked
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import TableInfo
from pkg.mysql.target_values import TargetValues


def matches_of(pair: TablePair, target: TableInfo, values: TargetValues) -> RowMatch:
    """``values``: what the target's values are like. The comparison's literals are in UTF-8, or name their charset."""
    columns = [target.column(column.name) for column in pair.columns]
    return tuple(condition(marked(TextInUtf8, column), column, values) for column in columns if column is not None)


class Repairs:
    """The statements for the rows of one table; ``matches``: how a row of the target is found."""

    def __init__(self, pair: TablePair, matches: RowMatch) -> None:
        table = qualified(pair.target.schema, pair.target.name).encode()
        self._key = pair.key
        self._columns = [column.name for column in pair.columns]
        self._names = [quote(name).encode() for name in self._columns]
        self._written = [not column.generated for column in pair.columns]
        self._gaps = [tuple(map(str.encode, match)) for match in matches]
        self._insert = (
            b"INSERT INTO " + table + b" (" + b", ".join(compress(self._names, self._written)) + b") VALUES ("
        )
        self._update = b"UPDATE " + table + b" SET "
        self._delete = b"DELETE FROM " + table + b" WHERE "

    def of(self, one: Difference) -> list[bytes]:
        """The statements that make the target's rows the upstream's; none changes a row that is not as it was read.

        None where several upstream rows have one key: only one of them fits into the target; and none for a row of
        which only what the target computes differs.
        """
        here, there = one.counts
        if self._key and max(here, there) > 1:
            return []
        if one.kind is DifferenceKind.CHANGED:
            return self._updated(one)
        values = one.upstream or one.target or ()
        if one.kind is DifferenceKind.MISSING:
            return [self._inserted(values)] * max(1, here)
        if one.kind is DifferenceKind.EXTRA:
            return [self._deleted(values, max(1, there))]
        return [self._deleted(values, there - here)] if there > here else [self._inserted(values)] * (here - there)

    def _inserted(self, values: Sequence[bytes]) -> bytes:
        return self._insert + b", ".join(compress(values, self._written)) + b")"

    def _deleted(self, values: Sequence[bytes], rows: int) -> bytes:
        return self._delete + self._where(values) + b" LIMIT %d" % rows

    def _updated(self, one: Difference) -> list[bytes]:
        columns = zip(self._columns, self._names, one.upstream or (), self._written, strict=True)
        changed = [
            name + b" = " + value for column, name, value, written in columns if written and column in one.columns
        ]
        if not changed:
            return []
        return [self._update + b", ".join(changed) + b" WHERE " + self._where(one.target or ()) + b" LIMIT 1"]

    def _where(self, values: Sequence[bytes]) -> bytes:
        """Every column as it was read, to the byte: a row that has changed since then is left alone."""
        return b" AND ".join([value.join(gaps) for gaps, value in zip(self._gaps, values, strict=True)])


def in_order(found: Iterable[Difference]) -> list[Difference]:
    """The differences in the order in which they can be repaired: a row that is deleted or changed may have the unique
    value of one that is inserted."""
    return sorted(found, key=_rank)


def _rank(one: Difference) -> int:
    here, there = one.counts
    if one.kind is DifferenceKind.EXTRA or (one.kind is DifferenceKind.DOUBLED and there > here):
        return 0
    return 1 if one.kind is DifferenceKind.CHANGED else 2
