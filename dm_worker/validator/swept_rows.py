"""Converts rows that the sweep found into the validation's errors. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import TablePair
from dm_worker.syncer.execution.row_look import shown_row
from dm_worker.syncer.rows.row_matching import RowMatch, around
from dm_worker.validator.differences import CHANGED, DELETED_EXISTS, MISSING, RowMismatch
from pkg.mysql.names import quote

#: A check that returns no row: only another round can decide whether rows without a key are right.
_NO_CHECK = b"SELECT 1 FROM DUAL WHERE FALSE"


def mismatches(run: str, pair: TablePair, matches: RowMatch, found: Iterable[Difference]) -> list[RowMismatch]:
    """``run``: the round of the sweep."""
    return [_mismatch(run, pair, matches, one) for one in found]


def _mismatch(run: str, pair: TablePair, matches: RowMatch, one: Difference) -> RowMismatch:
    names = [column.name for column in pair.columns]
    # An extra row has no upstream table: any table that is replicated into the target table is named.
    source = pair.sources[max(one.source, 0)]
    return RowMismatch(
        (pair.target.schema, pair.target.name),
        (source.schema, source.name),
        b",".join(one.key or one.upstream or one.target or ()),
        _kind(one),
        shown_row(names, one.upstream),
        shown_row(names, one.target),
        _check(pair, matches, one),
        run,
    )


def _kind(one: Difference) -> int:
    """The validation does not count equal rows: too few of them are "missing", too many are "not deleted"."""
    here, there = one.counts
    if one.upstream is None or there > here:
        return DELETED_EXISTS
    return MISSING if one.target is None or here > there else CHANGED


def _check(pair: TablePair, matches: RowMatch, one: Difference) -> bytes:
    """A SELECT that returns a row when the row is as the upstream's was."""
    if not pair.key or one.kind is DifferenceKind.DOUBLED:
        return _NO_CHECK
    if one.upstream is None:
        return b"SELECT 1 FROM DUAL WHERE NOT EXISTS (%b)" % _there(pair, matches, pair.key, one.key)
    return _there(pair, matches, range(len(pair.columns)), one.upstream)


def _there(pair: TablePair, matches: RowMatch, columns: Sequence[int], values: Sequence[bytes]) -> bytes:
    """A SELECT that returns a row if the target has one with these values."""
    parts = [around(matches[number], value) for number, value in zip(columns, values, strict=True)]
    # These conditions can use an index; the others compare the bytes of the row.
    lookups = [
        quote(pair.columns[number].name).encode() + b" = " + value
        for number, value in zip(columns, values, strict=True)
        if number in pair.key and value != b"NULL"
    ]
    return b"SELECT 1 FROM %b WHERE %b" % (pair.target.qualified.encode(), b" AND ".join([*lookups, *parts]))
