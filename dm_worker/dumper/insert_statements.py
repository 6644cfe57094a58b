"""Turns the packets of a result set into INSERT statements: the dumper's hot loop, compiled or in Python. Pure.

A statement is ``head``, rows joined by ``,\\n``, and ``;\\n``. It ends before the row that would make it longer than
``statement_size`` bytes; a longer row has its own statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dm_worker.table_reads.column_literals import FieldValue, LiteralKind, RowRenderer
from dm_worker.table_reads.row_splitter import RowSplitter
from pkg.native import load

_NATIVE = load("dump")
#: Literals take more bytes than their text (hex: twice), so batches are a fraction of a statement.
_FRACTION = 4

#: Whether a statement starts here, and its text. A statement above its size limit comes in several pieces, and its
#: first piece alone is above the limit.
StatementPiece = tuple[bool, bytes]


class Statements(Protocol):
    """Takes packets (see :class:`dm_worker.table_reads.row_stream.Consumer`) and returns pieces of statements."""

    @property
    def rows(self) -> int:
        """Complete rows so far."""

    @property
    def done(self) -> bool: ...

    @property
    def error(self) -> bytes | None: ...

    def feed(self, data: bytes | memoryview, /) -> list[StatementPiece]: ...

    def finish(self) -> list[StatementPiece]:
        """The last statement. Raises ``ValueError`` when the rows are incomplete."""


def statements(
    kinds: Sequence[LiteralKind], introducers: Sequence[bytes], head: bytes, statement_size: int, *, backslash: bool
) -> Statements:
    """Statements for columns of these kinds; for ``introducers`` and ``backslash`` see :class:`RowRenderer`."""
    if _NATIVE is None:
        return PythonStatements(kinds, introducers, head, statement_size, backslash=backslash)
    letters = "".join(kind.value for kind in kinds).encode()
    native: Statements = _NATIVE.Statements(letters, tuple(introducers), head, statement_size, backslash)
    return native


class PythonStatements:
    """The same in Python. It stores a complete row, several times while it renders it."""

    def __init__(
        self,
        kinds: Sequence[LiteralKind],
        introducers: Sequence[bytes],
        head: bytes,
        statement_size: int,
        *,
        backslash: bool,
    ) -> None:
        self._splitter = RowSplitter(len(kinds))
        self._width = len(kinds)
        self._renderer = RowRenderer(kinds, introducers, backslash=backslash)
        self._head = head
        self._limit = statement_size
        self._texts: list[bytes] = []
        self._size = len(head)
        self._pieces: list[StatementPiece] = []

    @property
    def rows(self) -> int:
        return self._splitter.rows

    @property
    def done(self) -> bool:
        return self._splitter.done

    @property
    def error(self) -> bytes | None:
        return self._splitter.error

    def feed(self, data: bytes | memoryview) -> list[StatementPiece]:
        values, rows = self._splitter.feed(data)
        step = max(1, rows * self._limit // (_FRACTION * max(len(data), 1)))
        for start in range(0, rows, step):
            part: list[FieldValue] = list(values[start * self._width : (start + step) * self._width])
            self._add(self._renderer.render(part, len(part) // self._width))
        return self._taken()

    def finish(self) -> list[StatementPiece]:
        if not self.done or self.error is not None:
            raise ValueError("the rows are incomplete")
        self._end_statement()
        return self._taken()

    def _taken(self) -> list[StatementPiece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _add(self, text: bytes) -> None:
        """Adds rendered rows, cut where a statement must end: no literal contains a newline."""
        while self._size + 2 * bool(self._texts) + len(text) + 2 > self._limit:
            room = self._limit - 2 - self._size - 2 * bool(self._texts)
            cut = text.rfind(b",\n", 0, max(room, 0) + 2)
            if cut < 0 and self._texts:
                self._end_statement()
                continue
            if cut < 0:
                cut = text.find(b",\n")
            if cut < 0:
                break  # one row, longer than a statement
            self._append(text[:cut])
            self._end_statement()
            text = text[cut + 2 :]
        self._append(text)

    def _append(self, text: bytes) -> None:
        self._size += len(text) + 2 * bool(self._texts)
        self._texts.append(text)

    def _end_statement(self) -> None:
        if self._texts:
            self._pieces.append((True, self._head + b",\n".join(self._texts) + b";\n"))
        self._texts, self._size = [], len(self._head)
