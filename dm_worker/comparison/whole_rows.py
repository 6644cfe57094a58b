"""Whole rows as they come from a server: their values as they are compared, and their literals for the target. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from dm_worker.comparison.found_rows import FoundRow
from dm_worker.comparison.pair import LiteralSource, TablePair, TableSide
from dm_worker.comparison.readings import canonical, digest, reader_of
from dm_worker.comparison.row_difference import Item
from dm_worker.comparison.statements import row_layout
from dm_worker.dumper.json_types import expression
from dm_worker.table_reads.column_literals import JSON_MARK, ODD, FieldValue, LiteralKind, RowRenderer

_NULL = b"NULL"


class WholeRows:
    """Rows of one side, selected by the expressions of its ``layout``."""

    def __init__(self, pair: TablePair, side: TableSide, source: int) -> None:
        self.layout = row_layout(pair, side)
        self._key = pair.key
        self._source = source
        self._readers = [reader_of(column.reading, guarded=column.guarded) for column in pair.columns]
        self._key_readers = [self._readers[number] for number in pair.key]
        self._literals = [_Literals(literal) for literal in side.literals]

    def identity(self, row: Sequence[FieldValue]) -> Item:
        """By which rows of both sides belong together: the key, or without one the whole row. Raises
        UnreadableValueError."""
        if not self._key:
            return (digest(canonical(self._readers, row[: self.layout.forms])),)
        return tuple(canonical(self._key_readers, [row[number] for number in self._key]))

    def found(self, columns: Sequence[Sequence[FieldValue]]) -> list[FoundRow]:
        """The rows with these columns, with their compared values and their literals. Raises UnreadableValueError."""
        found = zip(
            repeat(self._source),
            zip(*self._forms(columns), strict=True),
            zip(*self._all_literals(columns), strict=True),
        )
        return list(map(FoundRow._make, found))

    def literals(self, columns: Sequence[Sequence[FieldValue]]) -> list[Sequence[bytes]]:
        """The literals of rows with these columns, by column. Raises UnreadableValueError."""
        self._forms(columns)
        return self._all_literals(columns)

    def _forms(self, columns: Sequence[Sequence[FieldValue]]) -> list[Sequence[FieldValue]]:
        """What is compared. Raises UnreadableValueError."""
        return [
            column if reader is None else [None if form is None else reader(form) for form in column]
            for reader, column in zip(self._readers, columns, strict=False)
        ]

    def _all_literals(self, columns: Sequence[Sequence[FieldValue]]) -> list[Sequence[bytes]]:
        nothing = [None] * len(columns[0])
        return [
            one.literals(columns[place] if place >= 0 else nothing)
            for one, place in zip(self._literals, self.layout.literals, strict=True)
        ]


class _Literals:
    """The literals of one column, valid in sessions with and without backslash escapes."""

    def __init__(self, source: LiteralSource) -> None:
        self._source = source
        self._renderer = RowRenderer([source.kind], [source.introducer], backslash=False)

    def literals(self, texts: Sequence[FieldValue]) -> Sequence[bytes]:
        source = self._source
        if source.constant:
            return [source.constant] * len(texts)
        if source.introducer == JSON_MARK:
            return [self._document(text) for text in texts]
        plain = self._renderer.literals(0, list(texts))
        if source.change is None:
            return plain
        return [
            _NULL if text is None else source.change.literal(text if source.kind is LiteralKind.VERBATIM else literal)
            for text, literal in zip(texts, plain, strict=True)
        ]

    def _document(self, text: FieldValue) -> bytes:
        if text is not None and text[:1] == ODD:
            return expression(text[1:], backslash=False)
        return self._renderer.literals(0, [text])[0]
