"""Codecs in the form that the compiled kernel reads: one plain tuple a column. See ``pkg/native/rows/literals.h``."""

from __future__ import annotations

import struct
from binascii import hexlify
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from pkg.binlog.rows.derived_literals import Derived
from pkg.binlog.rows.literals import Codec, float_literal


class ColumnOp(IntEnum):
    """How a value becomes text; ``CALL`` calls the codec's ``render``."""

    CALL = 0
    INT = 1
    UINT = 2
    UINT_BE = 3
    WIDE_SET = 4
    YEAR = 5
    FLOAT = 6
    DOUBLE = 7
    DECIMAL = 8
    DATE = 9
    OLD_TIME = 10
    OLD_DATETIME = 11
    OLD_TIMESTAMP = 12
    TIME = 13
    DATETIME = 14
    TIMESTAMP = 15
    TEXT = 16
    HEX = 17
    PADDED_HEX = 18
    FOREIGN = 19
    TRANSLATED = 20


#: op, prefix, raw ('s', 'i', 'u', 'f', 'd'), form has %d, nullable, size, parameter a, parameter b, render, head, tail,
#: text.
ColumnProgram = tuple[int, int, str, bool, bool, int, int, int, Callable[[Any], Any] | None, bytes, bytes, bytes]


def programs(codecs: Sequence[Codec], nullable: Sequence[bool]) -> tuple[ColumnProgram, ...]:
    """The columns of a table, for ``Readers`` of the kernel."""
    return tuple(_program(codec, null) for codec, null in zip(codecs, nullable, strict=True))


#: source, base, limit, text, change.
DerivedProgram = tuple[int, int, int, bytes, Callable[[bytes], bytes] | None]


def derived_programs(derived: Sequence[Derived]) -> tuple[DerivedProgram, ...]:
    """The derived literals, for ``Readers`` of the kernel."""
    return tuple((one.source, one.base, one.limit, one.text, one.literal) for one in derived)


def _program(codec: Codec, nullable: bool) -> ColumnProgram:
    op, a, b, text = _op(codec)
    number = b"%d" in codec.form
    head, tail = codec.form.split(b"%d" if number else b"%b")
    raw = codec.fixed[-1] if codec.fixed[-1:] in ("s", "f", "d") else "s"
    if codec.fixed in ("b", "h", "i", "q"):
        raw = "i"
    elif codec.fixed in ("B", "H", "I", "Q"):
        raw = "u"
    size = struct.calcsize("<" + codec.fixed) if codec.fixed else 0
    return (op, codec.prefix, raw, number, nullable, size, a, b, codec.render, head, tail, text)


def _op(codec: Codec) -> tuple[ColumnOp, int, int, bytes]:
    """The op with its parameters; from the codec's ``native`` description where that is complete."""
    if codec.native:
        name, a, b, text = codec.native
        return ColumnOp[name], a, b, text
    plain = ColumnOp.CALL
    if codec.render is None and codec.form == b"%d" and codec.fixed:
        plain = ColumnOp.INT if codec.fixed.islower() else ColumnOp.UINT
    elif codec.escape and codec.form == b"'%b'":
        plain = ColumnOp.TEXT
    elif codec.render is hexlify and codec.form.endswith(b"%b'"):
        plain = ColumnOp.HEX
    elif codec.render is float_literal:
        plain = ColumnOp.FLOAT if codec.fixed == "f" else ColumnOp.DOUBLE
    return plain, 0, 0, b""
