"""The statements that give rows of the target the upstream's values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import TablePair
from dm_worker.syncer.rows.row_matching import RowMatch, around, condition
from pkg.binlog.rows.literals import TextInUtf8, marked
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import TableInfo
from pkg.mysql.target_values import TargetValues


def matches_of(pair: TablePair, target: TableInfo, values: TargetValues) -> RowMatch:
    """``values``: what the target's values are like. The comparison's literals are in UTF-8, or name their charset."""
    columns = [target.column(column.name) for column in pair.columns]
    return tuple(condition(marked(TextInUtf8, column), column, values) for column in columns if column is not None)


def repair(pair: TablePair, matches: RowMatch, one: Difference) -> list[bytes]:
    """The statements that make the target's rows the upstream's; none changes a row that is not as it was read.

    None where several upstream rows have one key: only one of them fits into the target; and none for a row of which
    only what the target computes differs.
    """
    here, there = one.counts
    if pair.key and max(here, there) > 1:
        return []
    table = qualified(pair.target.schema, pair.target.name).encode()
    match one.kind, one.upstream, one.target:
        case DifferenceKind.MISSING, (*values,), _:
            return [_insert(table, pair, values)] * max(1, here)
        case DifferenceKind.EXTRA, _, (*values,):
            return [_delete(table, matches, values, max(1, there))]
        case DifferenceKind.CHANGED, (*wanted,), (*values,):
            changed = [
                quote(column.name).encode() + b" = " + value
                for column, value in zip(pair.columns, wanted, strict=True)
                if column.name in one.columns and not column.generated
            ]
            if not changed:
                return []
            where = _where(matches, values)
            return [b"UPDATE " + table + b" SET " + b", ".join(changed) + b" WHERE " + where + b" LIMIT 1"]
        case DifferenceKind.DOUBLED, upstream, target:
            values = list(upstream or target or ())
            if there > here:
                return [_delete(table, matches, values, there - here)]
            return [_insert(table, pair, values)] * (here - there)
    return []


def in_order(found: Iterable[Difference]) -> list[Difference]:
    """The differences in the order in which they can be repaired: a row that is deleted or changed may have the unique
    value of one that is inserted."""
    return sorted(found, key=_rank)


def _rank(one: Difference) -> int:
    here, there = one.counts
    if one.kind is DifferenceKind.EXTRA or (one.kind is DifferenceKind.DOUBLED and there > here):
        return 0
    return 1 if one.kind is DifferenceKind.CHANGED else 2


def _insert(table: bytes, pair: TablePair, values: Sequence[bytes]) -> bytes:
    written = [
        (quote(column.name).encode(), value)
        for column, value in zip(pair.columns, values, strict=True)
        if not column.generated
    ]
    names, literals = (b", ".join(parts) for parts in zip(*written, strict=True))
    return b"INSERT INTO " + table + b" (" + names + b") VALUES (" + literals + b")"


def _delete(table: bytes, matches: RowMatch, values: Sequence[bytes], rows: int) -> bytes:
    return b"DELETE FROM " + table + b" WHERE " + _where(matches, values) + b" LIMIT " + str(rows).encode()


def _where(matches: RowMatch, values: Sequence[bytes]) -> bytes:
    """Every column as it was read, to the byte: a row that has changed since then is left alone."""
    return b" AND ".join(around(match, value) for match, value in zip(matches, values, strict=True))
