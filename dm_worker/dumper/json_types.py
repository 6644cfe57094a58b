"""JSON documents of MySQL with the SQL types of their values: decimals, dates, times, unsigned numbers. Pure.

The text of a document does not contain these types. So the upstream is queried for the types of all values with the
text, and a document with such values is written as an expression that creates it; every other one stays text.

Such a value arrives as bytes of the kind FOREIGN, which are written in hex after an introducer. Ours begins with a NUL,
which no literal contains. :class:`TypedDocuments` replaces it by the expression.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from dm_worker.dumper.insert_statements import StatementPiece, Statements
from dm_worker.table_reads.column_literals import JSON_MARK, text_literal

_MARKED = re.compile(re.escape(JSON_MARK) + rb"([0-9a-f]*)'")
_TEMPORAL = {"DATE": b"DATE", "TIME": b"TIME(6)", "DATETIME": b"DATETIME(6)"}
_NUMBERS = ("INTEGER", "UNSIGNED INTEGER", "DOUBLE", "DECIMAL")


class TypedDocuments:
    """Statements whose marked documents become expressions. See :class:`Statements` for the methods."""

    def __init__(self, plain: Statements, *, backslash: bool) -> None:
        self._plain = plain
        self._render = lambda match: expression(bytes.fromhex(match[1].decode()), backslash=backslash)
        #: A piece that ends within a marked document; the next piece has the document's end.
        self._held: StatementPiece | None = None

    @property
    def rows(self) -> int:
        return self._plain.rows

    @property
    def done(self) -> bool:
        return self._plain.done

    @property
    def error(self) -> bytes | None:
        return self._plain.error

    def feed(self, data: bytes | memoryview, /) -> list[StatementPiece]:
        return list(self._replaced(self._plain.feed(data)))

    def finish(self) -> list[StatementPiece]:
        return list(self._replaced(self._plain.finish()))

    def _replaced(self, pieces: list[StatementPiece]) -> Iterator[StatementPiece]:
        for starts, text in pieces:
            if self._held is not None:
                starts, text = self._held[0], self._held[1] + text
                self._held = None
            last = text.rfind(b"\0")
            if last < 0:
                yield starts, text
            elif _MARKED.match(text, last):
                yield starts, _MARKED.sub(self._render, text)
            else:
                self._held = (starts, text)


def expression(told: bytes, *, backslash: bool) -> bytes:
    """The SQL expression for a document from the upstream's answer: its types, a NUL, its text.

    Raises ``ValueError`` when the types do not match the text.
    """
    types, _, text = told.partition(b"\0")
    root = json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_Members)
    # In newer servers, null in a document is SQL's NULL, which has no type.
    return _Printer(root, [name or "NULL" for name in json.loads(types)], backslash).document()


class _Number(str):
    """The digits of a number."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """An object, in the order of the text."""


def _children(value: Any) -> list[Any]:
    return [child for _, child in value] if isinstance(value, _Members) else value if isinstance(value, list) else []


def _containers(value: Any) -> Iterator[list[Any]]:
    """Containers in the order in which MySQL's paths find their values: each before its members."""
    if isinstance(value, list):
        yield value
        for child in _children(value):
            yield from _containers(child)


class _Printer:
    """``types``: of the root, then of all members, then of all cells."""

    def __init__(self, root: Any, types: list[str], backslash: bool) -> None:
        self._root, self._root_type = root, types[0]
        self._backslash = backslash
        #: By container, the types of its values. The containers live as long as this object.
        self._types: dict[int, list[str]] = {}
        rest = iter(types[1:])
        found = list(_containers(root))
        for container in [*(one for one in found if isinstance(one, _Members)),
                          *(one for one in found if not isinstance(one, _Members))]:  # fmt: skip
            self._types[id(container)] = list(islice(rest, len(container)))
        if sum(map(len, found)) != len(types) - 1:
            raise ValueError(f"{len(types) - 1} types for {sum(map(len, found))} values in a JSON document")

    def document(self) -> bytes:
        made = self._value(self._root, self._root_type)
        if isinstance(self._root, list):
            return made
        # The same for a single value; not all servers have CAST(… AS JSON).
        return b"JSON_EXTRACT(JSON_ARRAY(%b), '$[0]')" % made

    def _value(self, value: Any, kind: str) -> bytes:
        if isinstance(value, list):
            if kind != ("OBJECT" if isinstance(value, _Members) else "ARRAY"):
                raise _misfit(value, kind)
            parts = map(self._value, _children(value), self._types[id(value)])
            if not isinstance(value, _Members):
                return b"JSON_ARRAY(%b)" % b",".join(parts)
            keys = (self._text(key) for key, _ in value)
            return b"JSON_OBJECT(%b)" % b",".join(b"%b,%b" % pair for pair in zip(keys, parts, strict=True))
        if isinstance(value, _Number):
            return _number(value, kind)
        if isinstance(value, str):
            if kind in _TEMPORAL:
                return b"CAST('%b' AS %b)" % (value.encode(), _TEMPORAL[kind])
            if kind in _NUMBERS or kind in ("OBJECT", "ARRAY", "BOOLEAN", "NULL"):
                raise _misfit(value, kind)
            return self._text(value)
        if kind != ("NULL" if value is None else "BOOLEAN"):
            raise _misfit(value, kind)
        return json.dumps(value).encode()

    def _text(self, text: str) -> bytes:
        return text_literal(text.encode(), backslash=self._backslash)


def _number(digits: str, kind: str) -> bytes:
    if kind == "DECIMAL":
        whole, _, fraction = digits.lstrip("-").partition(".")
        precision = len(whole.lstrip("0")) + len(fraction)
        return f"CAST({digits} AS DECIMAL({max(precision, 1)},{len(fraction)}))".encode()
    if kind == "DOUBLE":
        return (digits if "e" in digits else digits + "e0").encode()
    if kind not in _NUMBERS:
        raise _misfit(digits, kind)
    return f"CAST({digits} AS UNSIGNED)".encode() if kind == "UNSIGNED INTEGER" else digits.encode()


def _misfit(value: Any, kind: str) -> ValueError:
    return ValueError(f"a value of a JSON document is {str(value)[:40]!r}, and its type {kind}")
