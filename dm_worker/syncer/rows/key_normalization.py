"""Canonical values: what the target's unique indexes call equal has equal bytes. Pure.

A row is placed by its canonical key, and rows are tied by canonical values. Equal for the index ⇒ equal bytes must
hold without exception; the reverse need not: different values with equal bytes only meet in one bucket.

The canonical form is that of the value *as the target's column stores it*, so that it does not depend on which of
several upstream tables a row comes from. For most types it is the literal that an upstream column of the very type
of the target's would have.

=============  =====================================================================================================
``EXACT``      the literal itself
``BLOCK``      a whole number without its last three digits: a thousand neighbours in an index have equal bytes
``ANY``        nothing: the values can't be compared here, so that all of them count as equal
``DECIMAL``    the number rounded to ``size`` decimal places
``FLOAT``      the number as a float of ``size`` bytes; -0 is 0
``FRACTION``   a time with ``size`` digits behind its seconds
``BINARY``     bytes, padded with zeros to ``size``, cut to ``prefix`` bytes when that is not 0
``MEMBERS``    the number of an ENUM's member in ``members``, which stands in the literal by its name or own number
``TEXT``       the weights of the first ``prefix`` characters (of all when 0) by ``folding``, without those of trailing
               spaces; without a ``folding`` the characters themselves, in UTF-8, without trailing spaces
=============  =====================================================================================================
"""

from __future__ import annotations

import re
import struct
from binascii import unhexlify
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

from pkg.binlog.charsets import UTF8
from pkg.binlog.literals import MembersByName
from pkg.mysql.collation_weights import NEAR, TAGS, CollationWeights, weights
from pkg.mysql.schema import Column

EXACT, BLOCK, ANY, DECIMAL, FLOAT, FRACTION, BINARY, MEMBERS, TEXT = (
    *("exact", "block", "any", "decimal", "float"),
    *("fraction", "binary", "members", "text"),
)
NULL = b"NULL"

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_FLOATS = {"float": 4, "double": 8}
_SAME_IS_EXACT = frozenset({"date", "year", "uuid", "inet4", "inet6"})
_TIMES = frozenset({"time", "datetime", "timestamp"})
_BYTES = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
#: Charsets beside UTF-8's that Python's codecs read exactly as the servers do.
_CODECS = {"utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "ucs2": "utf-16-be"}
_DIGITS = Context(prec=130, rounding=ROUND_HALF_UP)
_NUMBERS = re.compile(r"\(([\d,]+)\)")
_WITHIN_BLOCK = re.compile(rb"[0-9]{0,3}\Z")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
#: One literal of several that commas join: text may hold commas between its quotes.
_LITERAL = re.compile(rb"(?:[^,']|'(?:[^'\\]|\\.)*')+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Canon:
    """How a literal becomes canonical. ``charset`` and ``characters`` (256, for a single-byte one) are those of the
    upstream's text."""

    kind: str
    size: int = 0
    prefix: int = 0
    members: tuple[str, ...] = ()
    charset: str = ""
    characters: str = ""
    folding: CollationWeights | None = None


@dataclass(frozen=True, slots=True)
class Charsets:
    """What the target tells about texts. ``foldings`` by collation, None for one that can't be folded;
    ``characters`` by single-byte charset."""

    foldings: Callable[[str, str], CollationWeights | None]
    characters: Callable[[str], str | None]


#: A target that tells nothing: texts are compared by no collation but ``_bin``.
SILENT = Charsets(lambda *_: None, lambda _: None)


def canon_of(here: Column, there: Column, prefix: int, charsets: Charsets) -> Canon:
    """The form for values of the upstream's column ``here`` in an index of the target's column ``there``.

    ``prefix`` is the index's prefix length in characters or bytes, 0 for none. ``here`` is the column that literals
    are made for: its ENUM and SET values stand as :class:`MembersByName` says. ``ANY`` when equality can't be told.
    """
    if there.generated or here.generated:
        return Canon(ANY)
    rule = _RULES.get(there.type_name)
    return rule(here, there, prefix, charsets) if rule is not None else Canon(ANY)


def by_block(canons: Sequence[Canon], last: Column) -> tuple[Canon, ...] | None:
    """The forms of a key by blocks of neighbours; None when ``last``, the upstream's column that is last in the key,
    is no whole number in the target's index."""
    whole = canons[-1].kind == EXACT and last.type_name in _INTEGERS
    return (*canons[:-1], Canon(BLOCK)) if whole else None


def _integer(here: Column, _: Column, __: int, ___: Charsets) -> Canon:
    return Canon(EXACT if here.type_name in _INTEGERS else ANY)


def _same(here: Column, there: Column, _: int, __: Charsets) -> Canon:
    return Canon(EXACT if here.type_name == there.type_name else ANY)


def _decimal(here: Column, there: Column, _: int, __: Charsets) -> Canon:
    if here.type_name not in _INTEGERS and here.type_name != "decimal":
        return Canon(ANY)
    return Canon(EXACT) if _shape(here) == _shape(there) else Canon(DECIMAL, _numbers(there, 10, 0)[1])


def _float(here: Column, there: Column, _: int, __: Charsets) -> Canon:
    # FLOAT(7,2) rounds in decimal, which only the server does exactly alike.
    rounds = _NUMBERS.search(there.column_type) is not None
    if here.type_name not in _FLOATS or (rounds and _shape(here) != _shape(there)):
        return Canon(ANY)
    return Canon(FLOAT, _FLOATS[there.type_name])


def _time(here: Column, there: Column, _: int, __: Charsets) -> Canon:
    digits, wanted = (_numbers(column, 0)[0] for column in (here, there))
    if here.type_name != there.type_name or digits > wanted:
        # Fewer digits: some servers round, others cut.
        return Canon(ANY)
    return Canon(EXACT) if digits == wanted else Canon(FRACTION, wanted)


def _enum(here: Column, there: Column, _: int, __: Charsets) -> Canon:
    if here.type_name != "enum" or not set(here.elements) <= set(there.elements):
        return Canon(ANY)
    return Canon(MEMBERS, members=there.elements) if isinstance(here, MembersByName) else Canon(EXACT)


def _set(here: Column, there: Column, _: int, __: Charsets) -> Canon:
    by_number = here.type_name == "set" and not isinstance(here, MembersByName)
    return Canon(EXACT if by_number and here.elements == there.elements else ANY)


def _bytes(here: Column, there: Column, prefix: int, _: Charsets) -> Canon:
    if here.type_name not in _BYTES and here.type_name != "binary":
        return Canon(ANY)
    size = _numbers(there, 1)[0] if there.type_name == "binary" else 0
    if not prefix and (not size or _shape(here) == _shape(there)):
        return Canon(EXACT)
    return Canon(BINARY, size, prefix)


def _text(here: Column, there: Column, prefix: int, charsets: Charsets) -> Canon:
    if here.type_name not in _TEXTS or not there.collation:
        return Canon(ANY)
    characters = ""
    if here.charset not in UTF8 and here.charset not in _CODECS:
        characters = charsets.characters(here.charset) or ""
        if not characters:
            return Canon(ANY)
    charset = "utf8" if here.charset in UTF8 else here.charset
    folding = None
    if not there.collation.endswith("_bin"):
        folding = charsets.foldings(there.charset, there.collation)
        if folding is None:
            return Canon(ANY)
    return Canon(TEXT, 0, prefix, (), charset, characters, folding)


_Rule = Callable[[Column, Column, int, Charsets], Canon]
_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys((*_SAME_IS_EXACT, "bit"), _same),
    "decimal": _decimal,
    **dict.fromkeys(_FLOATS, _float),
    **dict.fromkeys(_TIMES, _time),
    "enum": _enum,
    "set": _set,
    **dict.fromkeys((*_BYTES, "binary"), _bytes),
    **dict.fromkeys(_TEXTS, _text),
}


def _shape(column: Column) -> tuple[str, str]:
    return column.type_name, column.column_type.lower()


def _numbers(column: Column, *default: int) -> tuple[int, ...]:
    """The numbers in the parentheses of a type, ``default`` for those that it leaves out."""
    found = _NUMBERS.search(column.column_type)
    given = tuple(int(part) for part in found[1].split(",")) if found else ()
    return given + default[len(given) :]


# -- values ---------------------------------------------------------------------------------------------------------

Make = Callable[[bytes], bytes]


def split_literals(joined: bytes) -> list[bytes]:
    """The literals that commas join."""
    return _LITERAL.findall(joined)


@lru_cache(maxsize=1024)
def maker(canon: Canon) -> Make:
    """The function from a literal to its canonical bytes."""
    return _MAKERS[canon.kind](canon)


def _make_exact(_: Canon) -> Make:
    return lambda literal: literal


def _make_block(_: Canon) -> Make:
    return without_last_digits


def without_last_digits(literal: bytes) -> bytes:
    """A whole number, or literals that end with one, as ``BLOCK`` has it."""
    return _WITHIN_BLOCK.sub(b"", literal, count=1)


def _make_any(_: Canon) -> Make:
    return lambda _: b""


def _make_decimal(canon: Canon) -> Make:
    unit = Decimal(1).scaleb(-canon.size)

    def make(literal: bytes) -> bytes:
        value = Decimal(literal.decode()).quantize(unit, context=_DIGITS)
        return b"%b" % format(value if value else abs(value), "f").encode()

    return make


def _make_float(canon: Canon) -> Make:
    code = "<f" if canon.size == 4 else "<d"

    def make(literal: bytes) -> bytes:
        try:
            # Adding 0 turns -0 into 0.
            return struct.pack(code, float(literal) + 0.0)
        except OverflowError:
            # The target refuses it, or takes the largest float there is.
            return b"out of range"

    return make


def _make_fraction(canon: Canon) -> Make:
    def make(literal: bytes) -> bytes:
        whole, _, fraction = literal[1:-1].partition(b".")
        return b"'%b.%b'" % (whole, fraction.ljust(canon.size, b"0"))

    return make


def _make_binary(canon: Canon) -> Make:
    def make(literal: bytes) -> bytes:
        digits = literal[2:-1].ljust(2 * canon.size, b"0")
        return b"x'%b'" % (digits[: 2 * canon.prefix] if canon.prefix else digits)

    return make


def _make_members(canon: Canon) -> Make:
    numbers = {name: number for number, name in enumerate(("", *canon.members))}

    def make(literal: bytes) -> bytes:
        return b"%d" % numbers[_ESCAPED.sub(rb"\1", literal[1:-1]).decode()]

    return make


def _make_text(canon: Canon) -> Make:
    cut = canon.prefix or None
    if canon.folding is None:
        return lambda literal: _characters(canon, literal)[:cut].rstrip(" ").encode("utf-8", "surrogatepass")
    table, far = weights(canon.folding), canon.folding.far
    # Decoded as Latin-1, weights can be put in place of characters by one call.
    by_point = [weight.decode("latin-1") for weight in table]
    space = by_point[0x20]
    near, most = min(len(by_point), NEAR), chr(min(len(by_point), NEAR))

    def make(literal: bytes) -> bytes:
        text = _characters(canon, literal)[:cut]
        if text and max(text) >= most:
            folded = "".join([by_point[ord(c)] if ord(c) < near else _far(ord(c)) for c in text])
        else:
            folded = text.translate(by_point)  # type: ignore[arg-type]
        while space and folded.endswith(space):
            folded = folded.removesuffix(space)
        return folded.encode("latin-1")

    def _far(point: int) -> str:
        if point in TAGS and len(by_point) > NEAR:
            return by_point[NEAR + point - TAGS.start]
        return (far or b"\0" + point.to_bytes(3, "big")).decode("latin-1")

    return make


def _characters(canon: Canon, literal: bytes) -> str:
    """The text of a literal: ``'…'``, or ``_charset x'…'``."""
    if literal[:1] == b"'":
        body = literal[1:-1]
        return (_ESCAPED.sub(rb"\1", body) if b"\\" in body else body).decode("utf-8", "replace")
    raw = unhexlify(literal[literal.index(b"'") + 1 : -1])
    if canon.characters:
        return raw.decode("latin-1").translate(canon.characters)  # type: ignore[arg-type]
    return raw.decode(_CODECS[canon.charset], "replace")


_MAKERS: Mapping[str, Callable[[Canon], Make]] = {
    EXACT: _make_exact,
    BLOCK: _make_block,
    ANY: _make_any,
    DECIMAL: _make_decimal,
    FLOAT: _make_float,
    FRACTION: _make_fraction,
    BINARY: _make_binary,
    MEMBERS: _make_members,
    TEXT: _make_text,
}
