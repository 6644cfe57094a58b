"""Column values as SQL literals that restore every bit. Pure, no I/O.

The server sends every value as text. Most become literals by quoting; what text would lose is queried or written in
another way: FLOAT is selected as a double (its text has only 6 digits), floating literals have an
exponent (so that the target reads a double and keeps -0), bytes are written in hex. So is text in another charset that
Unicode can't express: codes without a character, or that share one with another code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pkg.binlog.charsets import UTF8
from pkg.mysql.names import quote
from pkg.mysql.schema import GEOMETRIES, Column

FieldValue = bytes | None


class LiteralKind(Enum):
    """How a column's text becomes a literal; the compiled code uses the letters."""

    VERBATIM = "v"
    FLOATING = "f"
    QUOTED = "q"
    TEXT = "t"
    HEX = "x"
    #: Text in a charset with codes that Unicode lacks: see :func:`select_expression`.
    FOREIGN = "c"


_VERBATIM = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"})
_QUOTED = frozenset({"date", "time", "datetime", "timestamp"})
_HEX = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", "vector"})
_SPECIAL = re.compile(rb"['\\\0\n\r\x1a]")
_SPECIAL_BYTES = b"'\\\0\n\r\x1a"
_ESCAPES = {b"'": b"\\'", b"\\": b"\\\\", b"\0": b"\\0", b"\n": b"\\n", b"\r": b"\\r", b"\x1a": b"\\Z"}


#: Charsets in which every code has its own character.
_EXACT = UTF8 | {"latin1"}
#: Prefixes of a FOREIGN value: for bytes, and for a value over the server's limit. No text in UTF-8 begins with them.
#: ODD alone is number 0 of an ENUM.
ODD, TOO_LONG = b"\xff", b"\xfe"
#: The error for a value over the limit.
TOO_LONG_ERROR = (
    "a text with characters that Unicode lacks, or a JSON document, exceeds the upstream's max_allowed_packet"
)
#: The prefix of the bytes of a JSON document with types in a statement. No literal contains a NUL.
JSON_MARK = b"\0j x'"
#: Types of JSON values that a document's text does not show, by their names in JSON_TYPE.
_UNTOLD = "'DECIMAL','DATE','TIME','DATETIME','UNSIGNED INTEGER'"


def kind_of(column: Column, *, json_types: bool = False) -> LiteralKind:
    """``json_types``: the types of values in JSON documents are queried, see :func:`select_expression`."""
    name = column.type_name
    if name == "json" and json_types:
        return LiteralKind.FOREIGN
    if name in _VERBATIM:
        return LiteralKind.VERBATIM
    if name in ("float", "double"):
        return LiteralKind.FLOATING
    if name in _QUOTED:
        return LiteralKind.QUOTED
    if name in _HEX or name in GEOMETRIES or column.charset == "binary":
        return LiteralKind.HEX
    return LiteralKind.FOREIGN if column.charset and column.charset not in _EXACT else LiteralKind.TEXT


def introducer_of(column: Column, *, json_types: bool = False) -> bytes:
    """The prefix of a literal of the column's bytes, when it is FOREIGN; otherwise empty."""
    if column.type_name == "json":
        return JSON_MARK if json_types else b""
    return f"_{column.charset} x'".encode() if kind_of(column) is LiteralKind.FOREIGN else b""


def select_expression(column: Column, *, json_types: bool = False) -> str:
    """The SELECT expression for the column. A FOREIGN one's values are text if that is exact, else bytes after ODD.

    With ``json_types``, such bytes of a JSON document are the types of its values, a NUL, and its text.
    """
    name = quote(column.name)
    if column.type_name == "json" and json_types:
        return _json_with_types(name)
    if kind_of(column) is LiteralKind.FOREIGN:
        stored, text = f"CAST({name} AS BINARY)", f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
        # ASCII has the same bytes in both, without a second conversion.
        back = f"CAST(CONVERT(CONVERT({name} USING utf8mb4) USING {column.charset}) AS BINARY)"
        odd = f"IFNULL(CONCAT(x'{ODD.hex()}', {stored}), x'{TOO_LONG.hex()}')"
        return f"IF({text if column.charset == 'ascii' else back} <=> {stored}, {text}, {odd})"
    return f"{name}*1e0" if column.type_name == "float" else name


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """How a column is read for a table of the same structure: its SELECT expression, and what its values become."""

    expression: str
    kind: LiteralKind
    introducer: bytes

    @classmethod
    def of(cls, column: Column, *, json_types: bool = False) -> ReadColumn:
        """``json_types``: see :func:`select_expression`. Number 0 of an ENUM (no member) reads as the empty text. Where
        this is a member too, the number is told apart."""
        expression = select_expression(column, json_types=json_types)
        if column.type_name != "enum" or "" not in column.elements:
            kind, introducer = kind_of(column, json_types=json_types), introducer_of(column, json_types=json_types)
            return cls(expression, kind, introducer)
        name = quote(column.name)
        if column.charset == "binary":
            text = f"IF(LENGTH({name})=0,x'',CONCAT(x'{ODD.hex()}',CAST({name} AS BINARY)))"
        elif kind_of(column) is LiteralKind.FOREIGN:
            text = expression
        else:
            text = f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
        introducer = f"_{column.charset} x'".encode()
        return cls(f"IF({name}+0=0,x'{ODD.hex()}',{text})", LiteralKind.FOREIGN, introducer)


def _json_with_types(name: str) -> str:
    """The types of root, members and cells: JSON_TABLE returns the members of one container after the other, each
    before its own members, and then the cells likewise."""
    text = f"CAST(CAST({name} AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
    kind = "JSON_TYPE(COALESCE(`dm member`,`dm cell`))"

    def told(rest: str) -> str:
        types = f"CONCAT('[\"',JSON_TYPE({name}),{rest})"
        return f"CONCAT(x'{ODD.hex()}',CAST({types} AS BINARY),x'00',{text})"

    several = told(f"""'",',SUBSTR(JSON_ARRAYAGG({kind}),2)""")
    found = (
        f"(SELECT IF(MAX({kind} IN ({_UNTOLD})),{several},{text}) FROM JSON_TABLE({name},'$' COLUMNS("
        "NESTED PATH '$**.*' COLUMNS(`dm member` JSON PATH '$'),NESTED PATH '$**[*]' COLUMNS(`dm cell` JSON PATH '$')"
        ")) `dm values`)"
    )
    alone = told("""'"]'""")
    single = f"IF(JSON_TYPE({name}) IN ({_UNTOLD}),{alone},{text})"
    made = f"IF(JSON_TYPE({name}) IN ('OBJECT','ARRAY'),{found},{single})"
    # The server returns NULL for a value longer than its packets.
    return f"IF({name} IS NULL,NULL,IFNULL({made},x'{TOO_LONG.hex()}'))"


def text_literal(value: bytes, *, backslash: bool) -> bytes:
    """Text in UTF-8 as a literal; see :class:`RowRenderer` for ``backslash``."""
    if backslash:
        return b"'" + _SPECIAL.sub(lambda match: _ESCAPES[match[0]], value) + b"'"
    if _SPECIAL.search(value.replace(b"'", b"")):
        return b"_utf8mb4 x'" + value.hex().encode() + b"'"
    return b"'" + value.replace(b"'", b"''") + b"'"


class RowRenderer:
    """Renders rows of one table as the tuples of an INSERT, a batch of rows at a time.

    With ``backslash`` false no literal contains a backslash, so that the text is also valid under NO_BACKSLASH_ESCAPES.
    No literal contains a newline either way. ``introducers``, one for each kind, are those of FOREIGN columns.
    """

    def __init__(
        self, kinds: Sequence[LiteralKind], introducers: Sequence[bytes] = (), *, backslash: bool = True
    ) -> None:
        self._kinds = tuple(kinds)
        self._introducers = tuple(introducers) or (b"",) * len(self._kinds)
        self._backslash = backslash

    def render(self, values: list[FieldValue], rows: int) -> bytes:
        """``(…),\\n(…)`` for ``rows`` consecutive rows in ``values``."""
        width = len(self._kinds)
        slots: list[bytes] = []
        for i, kind in enumerate(self._kinds):
            column = values[i::width]
            literals, quoted = self._column(kind, column, self._introducers[i])
            slots.append(b"'%b'" if quoted else b"%b")
            if literals is not column:
                values[i::width] = literals  # type: ignore[assignment]
        template = b"(" + b",".join(slots) + b")"
        return b",\n".join([template] * rows) % tuple(values)

    def literals(self, number: int, column: list[FieldValue]) -> Sequence[bytes]:
        """The literals of many values of one column."""
        found, quoted = self._column(self._kinds[number], column, self._introducers[number])
        # None is among them no more.
        return [b"'%b'" % one if quoted else one for one in found if one is not None]

    def _column(
        self, kind: LiteralKind, column: list[FieldValue], introducer: bytes
    ) -> tuple[Sequence[FieldValue], bool]:
        """The column's literals, and whether they still need quotes."""
        with_null = None in column
        if kind is LiteralKind.VERBATIM:
            return ([b"NULL" if v is None else v for v in column] if with_null else column), False
        if kind is LiteralKind.FLOATING:
            return [b"NULL" if v is None else v if b"e" in v else v + b"e0" for v in column], False
        if kind is LiteralKind.HEX:
            return [b"NULL" if v is None else b"x'" + v.hex().encode() + b"'" for v in column], False
        if kind is LiteralKind.FOREIGN:
            return [b"NULL" if v is None else self._foreign(v, introducer) for v in column], False
        if kind is LiteralKind.TEXT:
            # One look at all values: text that needs escaping is rare, and a search in each value is expensive.
            present = [v for v in column if v is not None] if with_null else column
            text = b"".join(present)  # type: ignore[arg-type]
            if len(text.translate(None, _SPECIAL_BYTES)) < len(text):
                return [b"NULL" if v is None else self._text(v) for v in column], False
        if with_null:
            return [b"NULL" if v is None else b"'" + v + b"'" for v in column], False
        return column, True

    def _foreign(self, value: bytes, introducer: bytes) -> bytes:
        if value[:1] == TOO_LONG:
            raise ValueError(TOO_LONG_ERROR)
        if value == ODD:
            return b"0"
        return introducer + value[1:].hex().encode() + b"'" if value[:1] == ODD else self._text(value)

    def _text(self, value: bytes) -> bytes:
        return text_literal(value, backslash=self._backslash)
