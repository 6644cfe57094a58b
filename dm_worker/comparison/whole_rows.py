"""Whole rows as they come from a server: their values as they are compared, and their literals for the target. Pure."""

from __future__ import annotations

from collections.abc import Sequence

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
        self._key_places = [self.layout.forms[number] for number in pair.key]
        self._key_readers = [self._readers[number] for number in pair.key]
        self._renderers = [_Literals(literal) for literal in side.literals]

    def identity(self, row: Sequence[FieldValue]) -> Item:
        """By which rows of both sides belong together: the key, or without one the whole row. Raises
        UnreadableValueError."""
        if not self._key:
            return (digest(self._values(row)),)
        return tuple(canonical(self._key_readers, [row[place] for place in self._key_places]))

    def found(self, row: Sequence[FieldValue]) -> FoundRow:
        """The row with its compared values and its literals. Raises UnreadableValueError."""
        places = self.layout.literals
        texts = (row[place] if place >= 0 else None for place in places)
        return FoundRow(self._source, self._values(row), tuple(map(_Literals.literal, self._renderers, texts)))

    def _values(self, row: Sequence[FieldValue]) -> tuple[FieldValue, ...]:
        return tuple(canonical(self._readers, [row[place] for place in self.layout.forms]))


class _Literals:
    """The literals of one column, valid in sessions with and without backslash escapes."""

    def __init__(self, source: LiteralSource) -> None:
        self._source = source
        self._renderer = RowRenderer([source.kind], [source.introducer], backslash=False)

    def literal(self, text: FieldValue) -> bytes:
        source = self._source
        if source.constant:
            return source.constant
        if text is None:
            return _NULL
        if source.introducer == JSON_MARK and text[:1] == ODD:
            return expression(text[1:], backslash=False)
        plain = text if source.kind is LiteralKind.VERBATIM else self._renderer.render([text], 1)[1:-1]
        return plain if source.change is None else source.change.literal(plain)
