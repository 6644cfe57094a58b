"""Reads a column's SQL literals as values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from pkg.binlog.rows.literals import literal_charset
from pkg.mysql.schema import Column
from pkg.rules.expression_filter import collations, times
from pkg.rules.expression_filter.syntax import EvaluationError, ExpressionError
from pkg.rules.expression_filter.types import IMPLICIT, EvaluationSettings, TypedExpression, ValueType

_INT_DIGITS = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20, "year": 4}
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_CHARSETS = frozenset({"utf8mb4", "utf8mb3", "utf8", "latin1", "ascii"})
_FRACTION = re.compile(r"\((\d+)\)")
_DECIMAL = re.compile(r"\((\d+),(\d+)\)")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def column(definition: Column, index: int, at: int, settings: EvaluationSettings) -> TypedExpression:
    """The value of column ``index``. Raises :class:`ExpressionError` for types that expressions can't read."""
    type_, read = _reader(definition, at, settings)

    def get(row: Sequence[bytes]) -> Any:
        literal = row[index]
        if literal == b"NULL":
            return None
        try:
            return read(literal)
        except (ValueError, ArithmeticError) as exc:
            raise EvaluationError(f"column `{definition.name}` ({definition.column_type}): {exc}") from exc

    return TypedExpression(type_, get, at, column=True)


def is_null(definition: Column, index: int, at: int) -> TypedExpression:
    """A column of any type that is only compared with NULL."""
    return TypedExpression(ValueType("int"), lambda row: None if row[index] == b"NULL" else 1, at, column=True)


def _reader(definition: Column, at: int, settings: EvaluationSettings) -> tuple[ValueType, Callable[[bytes], Any]]:
    name = definition.type_name
    match = _DECIMAL.search(definition.column_type)
    sizes = (int(match[1]), int(match[2])) if match else (0, 0)
    if name in _INT_DIGITS:
        year = name == "year"
        return ValueType("int", unsigned=definition.unsigned or year, digits=_INT_DIGITS[name], year=year), int
    if name in ("decimal", "numeric"):
        return ValueType("decimal", digits=sizes[0] - sizes[1], scale=sizes[1]), lambda literal: Decimal(
            literal.decode()
        )
    if name in ("float", "double"):
        return ValueType("real"), float
    if name == "bit":
        return ValueType("bit"), int
    if name in _BINARY or definition.charset == "binary":
        return ValueType("binary"), string_bytes
    if name in _TEXT or name in ("enum", "set"):
        return _textual(definition, at)
    return _temporal(definition, at, settings)


def _textual(definition: Column, at: int) -> tuple[ValueType, Callable[[bytes], Any]]:
    charset = definition.charset or definition.collation.partition("_")[0]
    if definition.type_name in ("enum", "set"):
        elements = definition.elements
        kind = ValueType("enum" if definition.type_name == "enum" else "set", collation=definition.collation,
                    derivation=IMPLICIT, elements=elements)  # fmt: skip
        return kind, (_enum_reader if kind.kind == "enum" else _set_reader)(elements)
    if charset not in _CHARSETS:
        raise ExpressionError(
            at, f"column `{definition.name}` is text in {charset}, which expressions cannot read exactly"
        )
    type_ = ValueType("text", collation=definition.collation or f"{charset}_unknown", derivation=IMPLICIT)
    written = literal_charset(definition) or charset
    return type_, lambda literal: collations.decode(string_bytes(literal), written)


def _enum_reader(elements: tuple[str, ...]) -> Callable[[bytes], int]:
    numbers = {name.encode(): number for number, name in enumerate(("", *elements))}
    return lambda literal: numbers[string_bytes(literal)] if literal[:1] == b"'" else int(literal)


def _set_reader(elements: tuple[str, ...]) -> Callable[[bytes], int]:
    bits = {name.encode(): 1 << i for i, name in enumerate(elements)}

    def read(literal: bytes) -> int:
        if literal[:1] != b"'":
            return int(literal)
        return sum(bits[name] for name in string_bytes(literal).split(b",") if name)

    return read


def _temporal(definition: Column, at: int, settings: EvaluationSettings) -> tuple[ValueType, Callable[[bytes], Any]]:
    name = definition.type_name
    match = _FRACTION.search(definition.column_type)
    scale = int(match[1]) if match else 0
    readers: dict[str, tuple[ValueType, Callable[[str], Any]]] = {
        "date": (ValueType("date"), times.read_date),
        "datetime": (ValueType("datetime", scale=scale), times.read_datetime),
        "timestamp": (ValueType("datetime", scale=scale), times.local_reader(settings.zone)),
        "time": (ValueType("time", scale=scale), times.read_duration),
    }
    if name not in readers:
        raise ExpressionError(at, f"column `{definition.name}` is {name}, which expressions can only test with IS NULL")
    type_, read = readers[name]
    return type_, lambda literal: read(literal[1:-1].decode())


def string_bytes(literal: bytes) -> bytes:
    """The bytes of a string literal: quoted, in hex, or in hex with an introducer."""
    if literal[:1] == b"'":
        body = literal[1:-1]
        return _ESCAPED.sub(rb"\1", body) if b"\\" in body else body
    start = literal.find(b"x'")
    if start < 0:
        raise ValueError(f"{literal[:40]!r} is not a string")
    return bytes.fromhex(literal[start + 2 : -1].decode())
