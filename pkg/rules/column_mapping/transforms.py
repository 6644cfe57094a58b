"""The expressions of column mapping, each for one column of one table: value → value and SQL literal → SQL literal.

NULL stays NULL under every expression: it is not a key value, so it needs no change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pkg import errors
from pkg.binlog.charsets import encode_text
from pkg.errors import ErrorKind

#: Values in the form of the row decoder and of drivers.
MappedValue = int | str | bytes | None

VALUE_BITS = 44
#: ``partition id`` accepts values from 0 to below it.
VALUE_LIMIT = 1 << VALUE_BITS

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_HEX = re.compile(rb"(?:_([0-9A-Za-z]+) ?)?(?:[xX]'([0-9A-Fa-f]*)'|0x([0-9A-Fa-f]+))")
_SHOWN = 64


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """The context of an error: the upstream table, the column, and the kind of the error."""

    schema: str
    table: str
    column: str
    error: ErrorKind

    def failure(self, value: MappedValue, why: str) -> errors.DMError:
        """The error for one value."""
        shown = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
        text = repr(shown)
        return errors.new(
            self.error,
            f"column mapping of `{self.schema}`.`{self.table}`: column `{self.column}` has the value "
            f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}, {why}",
            workaround="Correct the row on the upstream, or remove the table from the column mapping rule.",
        )


@dataclass(frozen=True, slots=True)
class PartitionId:
    """``partition id``: ``base`` (instance, schema and table id in the high bits) with the value in the low 44.

    ``source`` and ``target`` are indexes of the table's columns. A number gives a number, text gives text.
    """

    source: int
    target: int
    base: int
    place: MappedColumn

    @property
    def largest(self) -> int:
        """The largest result; the target's column must be able to store it."""
        return self.base | VALUE_LIMIT - 1

    def value(self, value: MappedValue) -> MappedValue:
        """Raises the column's error for text that is not a number, and for numbers out of range."""
        if value is None:
            return None
        if isinstance(value, int):
            return self._number(value, value)
        text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
        number = str(self._number(self._parse(text, value), value))
        return number.encode() if isinstance(value, bytes) else number

    def literal(self, literal: bytes) -> bytes:
        """As :meth:`value`, for the SQL text of the value."""
        # Nearly every literal is a plain number.
        if literal.isdigit():
            return b"%d" % self._number(int(literal), literal)
        if literal == b"NULL":
            return literal
        if literal[:1] == b"'" == literal[-1:] and len(literal) > 1:
            return b"'%d'" % self._number(self._parse(literal[1:-1].decode("ascii", "replace"), literal), literal)
        form = _HEX.fullmatch(literal)
        if form:
            head, raw = _hex_parts(form)
            return _hex_literal(head, b"%d" % self._number(self._parse(raw.decode("ascii", "replace"), raw), literal))
        return b"%d" % self._number(self._parse(literal.decode("ascii", "replace"), literal), literal)

    def _parse(self, text: str, value: MappedValue) -> int:
        if not _NUMBER.fullmatch(text):
            raise self.place.failure(value, "which is not a whole number, as `partition id` needs")
        return int(text)

    def _number(self, number: int, value: MappedValue) -> int:
        if not 0 <= number < VALUE_LIMIT:
            raise self.place.failure(
                value, f"which does not fit `partition id`: it accepts values from 0 to {VALUE_LIMIT - 1} (44 bits)"
            )
        return self.base | number


@dataclass(frozen=True, slots=True)
class Affix:
    """``add prefix`` and ``add suffix``. ``charset`` is the column's, in which :meth:`value` receives bytes."""

    source: int
    target: int
    prefix: str
    suffix: str
    charset: str
    place: MappedColumn

    def value(self, value: MappedValue) -> MappedValue:
        """Raises the column's error for a number, and 11054 when the column's charset lacks a character."""
        if value is None:
            return None
        if isinstance(value, str):
            return self.prefix + value + self.suffix
        if isinstance(value, bytes):
            return self._around(value, self.charset)
        raise self.place.failure(value, "which is not text, as `add prefix` and `add suffix` need")

    def literal(self, literal: bytes) -> bytes:
        """As :meth:`value`, for the SQL text of the value in a session with charset utf8mb4."""
        if literal == b"NULL":
            return literal
        form = _HEX.fullmatch(literal)
        if form:
            head, raw = _hex_parts(form)
            return _hex_literal(head, self._around(raw, head[1:].decode() or "binary"))
        if len(literal) < 2 or not literal[:1] == b"'" == literal[-1:]:
            raise self.place.failure(literal, "which is not text, as `add prefix` and `add suffix` need")
        inner = literal[1:-1]
        if b"\\" not in inner and ("\\" in self.prefix or "\\" in self.suffix):
            # The string may be for a session without backslash escapes; hex is valid in both kinds.
            return _hex_literal(b"_utf8mb4", self._around(inner.replace(b"''", b"'"), "utf8mb4"))
        return b"'%b%b%b'" % (_quoted(self.prefix), inner, _quoted(self.suffix))

    def _around(self, raw: bytes, charset: str) -> bytes:
        return encode_text(self.prefix, charset) + raw + encode_text(self.suffix, charset)


Transform = PartitionId | Affix


def _quoted(text: str) -> bytes:
    return text.replace("\\", "\\\\").replace("'", "''").encode()


def _hex_parts(form: re.Match[bytes]) -> tuple[bytes, bytes]:
    """The introducer (with its underscore, or empty) and the bytes of a hexadecimal literal."""
    digits = form[2] if form[2] is not None else form[3]
    head = b"_" + form[1] if form[1] else b""
    return head, bytes.fromhex((digits if len(digits) % 2 == 0 else b"0" + digits).decode())


def _hex_literal(head: bytes, raw: bytes) -> bytes:
    return b"%b x'%b'" % (head, raw.hex().encode()) if head else b"x'%b'" % raw.hex().encode()
