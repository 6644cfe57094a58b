"""Changes and adds values in the tuples of an INSERT statement. Pure.

Unchanged text stays the same, byte for byte. For integers and NULL,
``pkg/native/sqlscan/map_rows.c`` does the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from dm_worker.loader.sql_file import SPECIAL
from pkg.native import load

_NATIVE = load("sqlscan")
_TOKEN = re.compile(SPECIAL + rb"| [(),]", re.DOTALL | re.VERBOSE)
_SEPARATOR = re.compile(rb"\s*(?:,\s*|\Z)")
_BLANK = re.compile(rb"\s*")

#: A row's literals → position and new literal of each value that changes.
ValueChange = Callable[[list[bytes]], list[tuple[int, bytes]]]
#: The start and end of a value.
Span = tuple[int, int]


class NoTupleError(ValueError):
    """The text at ``offset`` is not a tuple of values."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(why)
        self.offset = offset


class ChangeError(Exception):
    """``cause``: the exception of ``change`` for the tuple at ``offset``."""

    def __init__(self, offset: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.offset = offset
        self.cause = cause


def add_bases(
    text: bytes | memoryview, start: int, bases: tuple[int | None, ...], more: bytes, head: bytes = b""
) -> bytes | None:
    """Compiled: ``head`` and the tuples from ``start`` on, with a base added to each column that has one, and ``more``
    after the last value.

    None for values other than plain integers and NULL in these columns, for text other than plain tuples, and
    without the compiled code.
    """
    if _NATIVE is None:
        return None
    result: bytes | None = _NATIVE.map_rows(text, start, bases, more, head)
    return result


def change_rows(
    text: bytes | memoryview, start: int, width: int, change: ValueChange, more: bytes, head: bytes = b""
) -> bytes:
    """``head`` and the tuples of ``width`` values from ``start`` on, changed, with ``more`` after each last value.

    Raises :class:`NoTupleError` for other text, :class:`ChangeError` for exceptions of ``change``.
    """
    pieces: list[bytes | memoryview] = [head]
    copied = start
    for offset, spans in tuples(text, start):
        if len(spans) != width:
            raise NoTupleError(offset, f"the row has {len(spans)} values for {width} columns")
        row = [bytes(text[a:b]) for a, b in spans]
        try:
            changes = change(row)
        except Exception as exc:
            raise ChangeError(offset, exc) from exc
        for i, literal in sorted(changes):
            pieces += (text[copied : spans[i][0]], literal)
            copied = spans[i][1]
        end = _skip_blanks(text, spans[-1][1])
        pieces += (text[copied:end], more)
        copied = end
    pieces.append(text[copied:])
    return b"".join(pieces)


def tuples(text: bytes | memoryview, start: int) -> Iterator[tuple[int, list[Span]]]:
    """The start of each tuple, and the spans of its values, without surrounding blanks. Raises NoTupleError."""
    at = _skip_blanks(text, start)
    while True:
        spans, end = _tuple(text, at)
        yield at, spans
        separator = _SEPARATOR.match(text, end)
        if separator is None:
            raise NoTupleError(end, "a row is followed by neither a comma nor the end of the statement")
        if separator.end() == len(text) and b"," not in separator[0]:
            return
        at = separator.end()


def _tuple(text: bytes | memoryview, start: int) -> tuple[list[Span], int]:
    """The values of the tuple at ``start``, and its end."""
    if bytes(text[start : start + 1]) != b"(":
        raise NoTupleError(start, "a row is missing")
    spans: list[Span] = []
    depth, begin = 0, start + 1
    for token in _TOKEN.finditer(text, start + 1):
        byte = token[0]
        if byte == b"(":
            depth += 1
        elif depth and byte == b")":
            depth -= 1
        elif depth == 0 and byte in (b",", b")"):
            spans.append(_stripped(text, begin, token.start()))
            begin = token.end()
            if byte == b")":
                return spans, begin
    raise NoTupleError(start, "a row is not terminated")


def _stripped(text: bytes | memoryview, begin: int, end: int) -> Span:
    begin = min(_skip_blanks(text, begin), end)
    value = bytes(text[begin:end]).rstrip()
    if not value:
        raise NoTupleError(begin, "a value is missing")
    return begin, begin + len(value)


def _skip_blanks(text: bytes | memoryview, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
