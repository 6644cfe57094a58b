"""Key normalization: values that are equal in the target's unique indexes get equal bytes. Pure.

The normalized key decides a row's bucket, and normalized values show conflicts. Equal for the index ⇒ equal bytes must
hold without exception; the reverse need not: different values with equal bytes only share a bucket.

The normalized form is that of the value *as the target's column stores it*, so that it does not depend on which of
several upstream tables a row comes from. For most types it is the literal of an upstream column with exactly the
target's type.

================  ==================================================================================================
``EXACT``         the literal itself
``BLOCK``         a whole number without its last three digits: a thousand neighbours in an index have equal bytes
``INCOMPARABLE``  nothing: the values can't be compared here, so that all of them count as equal
``DECIMAL``       the number rounded to ``size`` decimal places
``FLOAT``         the number as a float of ``size`` bytes; -0 is 0
``FRACTION``      a time with ``size`` digits after its seconds
``BINARY``        bytes, padded with zeros to ``size``, cut to ``prefix`` bytes when that is not 0
``MEMBERS``       the number of an ENUM's member in ``members``, which stands in the literal by its name or own number
``TEXT``          the weights of the first ``prefix`` characters (of all when 0) by ``collation_weights``, without those
                  of trailing spaces; without ``collation_weights`` the characters themselves, in UTF-8, without
                  trailing spaces
================  ==================================================================================================
"""

from __future__ import annotations

import re
import struct
from binascii import unhexlify
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache, lru_cache

from pkg.binlog.charsets import UTF8
from pkg.binlog.rows.literals import MembersByName, literal_charset
from pkg.mysql.collation_weights import NEAR, TAGS, CollationWeights, weights
from pkg.mysql.schema import Column

EXACT, BLOCK, INCOMPARABLE, DECIMAL, FLOAT, FRACTION, BINARY, MEMBERS, TEXT = (
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
#: Charsets other than UTF-8's that Python's codecs decode exactly as the servers do.
_CODECS = {"utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "ucs2": "utf-16-be"}
_DIGITS = Context(prec=130, rounding=ROUND_HALF_UP)
_NUMBERS = re.compile(r"\(([\d,]+)\)")
_WITHIN_BLOCK = re.compile(rb"[0-9]{0,3}\Z")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
#: One of several literals joined by commas: text may contain commas between its quotes.
_LITERAL = re.compile(rb"(?:[^,']|'(?:[^'\\]|\\.)*')+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class KeyNormalizer:
    """How a literal is normalized. ``charset`` and ``characters`` (256, for a single-byte one) are those of the
    text in literals."""

    kind: str
    size: int = 0
    prefix: int = 0
    members: tuple[str, ...] = ()
    charset: str = ""
    characters: str = ""
    collation_weights: CollationWeights | None = None


@dataclass(frozen=True, slots=True)
class TargetCharsets:
    """The known facts about text at the target. ``weights_of`` a collation, None for one without usable weights;
    ``characters`` by single-byte charset."""

    weights_of: Callable[[str, str], CollationWeights | None]
    characters: Callable[[str], str | None]


#: Nothing is known of the target's collations: text is comparable only by ``_bin``.
UNKNOWN_CHARSETS = TargetCharsets(lambda *_: None, lambda _: None)


def normalizer_of(here: Column, there: Column, prefix: int, charsets: TargetCharsets) -> KeyNormalizer:
    """The form for values of the upstream's column ``here`` in an index of the target's column ``there``.

    ``prefix`` is the index's prefix length in characters or bytes, 0 for none. ``here`` is the column of the
    literals: its ENUM and SET values are in the form of :class:`MembersByName`.
    ``INCOMPARABLE`` when equality can't be decided.
    """
    if there.generated or here.generated:
        return KeyNormalizer(INCOMPARABLE)
    rule = _RULES.get(there.type_name)
    return rule(here, there, prefix, charsets) if rule is not None else KeyNormalizer(INCOMPARABLE)


def by_block(normalizers: Sequence[KeyNormalizer], last: Column) -> tuple[KeyNormalizer, ...] | None:
    """The forms of a key by blocks of neighbours; None when ``last``, the upstream's last column in the key, is not an
    integer in the target's index."""
    whole = normalizers[-1].kind == EXACT and last.type_name in _INTEGERS
    return (*normalizers[:-1], KeyNormalizer(BLOCK)) if whole else None


def _integer(here: Column, _: Column, __: int, ___: TargetCharsets) -> KeyNormalizer:
    return KeyNormalizer(EXACT if here.type_name in _INTEGERS else INCOMPARABLE)


def _same(here: Column, there: Column, _: int, __: TargetCharsets) -> KeyNormalizer:
    return KeyNormalizer(EXACT if here.type_name == there.type_name else INCOMPARABLE)


def _decimal(here: Column, there: Column, _: int, __: TargetCharsets) -> KeyNormalizer:
    if here.type_name not in _INTEGERS and here.type_name != "decimal":
        return KeyNormalizer(INCOMPARABLE)
    return KeyNormalizer(EXACT) if _shape(here) == _shape(there) else KeyNormalizer(DECIMAL, _numbers(there, 10, 0)[1])


def _float(here: Column, there: Column, _: int, __: TargetCharsets) -> KeyNormalizer:
    # FLOAT(7,2) rounds in decimal, which only the server does exactly.
    rounds = _NUMBERS.search(there.column_type) is not None
    if here.type_name not in _FLOATS or (rounds and _shape(here) != _shape(there)):
        return KeyNormalizer(INCOMPARABLE)
    return KeyNormalizer(FLOAT, _FLOATS[there.type_name])


def _time(here: Column, there: Column, _: int, __: TargetCharsets) -> KeyNormalizer:
    digits, wanted = (_numbers(column, 0)[0] for column in (here, there))
    if here.type_name != there.type_name or digits > wanted:
        # Fewer digits: some servers round, others cut.
        return KeyNormalizer(INCOMPARABLE)
    return KeyNormalizer(EXACT) if digits == wanted else KeyNormalizer(FRACTION, wanted)


def _enum(here: Column, there: Column, _: int, __: TargetCharsets) -> KeyNormalizer:
    if here.type_name != "enum" or not set(here.elements) <= set(there.elements):
        return KeyNormalizer(INCOMPARABLE)
    return KeyNormalizer(MEMBERS, members=there.elements) if isinstance(here, MembersByName) else KeyNormalizer(EXACT)


def _set(here: Column, there: Column, _: int, __: TargetCharsets) -> KeyNormalizer:
    by_number = here.type_name == "set" and not isinstance(here, MembersByName)
    return KeyNormalizer(EXACT if by_number and here.elements == there.elements else INCOMPARABLE)


def _bytes(here: Column, there: Column, prefix: int, _: TargetCharsets) -> KeyNormalizer:
    if here.type_name not in _BYTES and here.type_name != "binary":
        return KeyNormalizer(INCOMPARABLE)
    size = _numbers(there, 1)[0] if there.type_name == "binary" else 0
    if not prefix and (not size or _shape(here) == _shape(there)):
        return KeyNormalizer(EXACT)
    return KeyNormalizer(BINARY, size, prefix)


def _text(here: Column, there: Column, prefix: int, charsets: TargetCharsets) -> KeyNormalizer:
    if here.type_name not in _TEXTS or not there.collation:
        return KeyNormalizer(INCOMPARABLE)
    charset, characters = literal_charset(here), ""
    if charset not in UTF8 and charset not in _CODECS:
        characters = charsets.characters(charset) or ""
        if not characters:
            return KeyNormalizer(INCOMPARABLE)
    charset = "utf8" if charset in UTF8 else charset
    collation_weights = None
    if not there.collation.endswith("_bin"):
        collation_weights = charsets.weights_of(there.charset, there.collation)
        if collation_weights is None:
            return KeyNormalizer(INCOMPARABLE)
    return KeyNormalizer(TEXT, 0, prefix, (), charset, characters, collation_weights)


_Rule = Callable[[Column, Column, int, TargetCharsets], KeyNormalizer]
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
    """The numbers in the parentheses of a type, ``default`` for missing ones."""
    found = _NUMBERS.search(column.column_type)
    given = tuple(int(part) for part in found[1].split(",")) if found else ()
    return given + default[len(given) :]


# -- values ---------------------------------------------------------------------------------------------------------

Normalize = Callable[[bytes], bytes]


def split_literals(joined: bytes) -> list[bytes]:
    """The literals, which are joined by commas."""
    return _LITERAL.findall(joined)


@lru_cache(maxsize=1024)
def normalize_function(normalizer: KeyNormalizer) -> Normalize:
    """The function from a literal to its normalized bytes."""
    return _FUNCTIONS[normalizer.kind](normalizer)


def _normalize_exact(_: KeyNormalizer) -> Normalize:
    return lambda literal: literal


def _normalize_block(_: KeyNormalizer) -> Normalize:
    return without_last_digits


def without_last_digits(literal: bytes) -> bytes:
    """An integer, or literals that end with one, in the form ``BLOCK``."""
    return _WITHIN_BLOCK.sub(b"", literal, count=1)


def _normalize_any(_: KeyNormalizer) -> Normalize:
    return lambda _: b""


def _normalize_decimal(normalizer: KeyNormalizer) -> Normalize:
    unit = Decimal(1).scaleb(-normalizer.size)

    def normalize(literal: bytes) -> bytes:
        value = Decimal(literal.decode()).quantize(unit, context=_DIGITS)
        return b"%b" % format(value if value else abs(value), "f").encode()

    return normalize


def _normalize_float(normalizer: KeyNormalizer) -> Normalize:
    code = "<f" if normalizer.size == 4 else "<d"

    def normalize(literal: bytes) -> bytes:
        try:
            # Adding 0 turns -0 into 0.
            return struct.pack(code, float(literal) + 0.0)
        except OverflowError:
            # The target refuses it, or stores the largest possible float.
            return b"out of range"

    return normalize


def _normalize_fraction(normalizer: KeyNormalizer) -> Normalize:
    def normalize(literal: bytes) -> bytes:
        whole, _, fraction = literal[1:-1].partition(b".")
        return b"'%b.%b'" % (whole, fraction.ljust(normalizer.size, b"0"))

    return normalize


def _normalize_binary(normalizer: KeyNormalizer) -> Normalize:
    def normalize(literal: bytes) -> bytes:
        digits = literal[2:-1].ljust(2 * normalizer.size, b"0")
        return b"x'%b'" % (digits[: 2 * normalizer.prefix] if normalizer.prefix else digits)

    return normalize


def _normalize_members(normalizer: KeyNormalizer) -> Normalize:
    numbers = {name: number for number, name in enumerate(("", *normalizer.members))}

    def normalize(literal: bytes) -> bytes:
        return literal if literal == b"0" else b"%d" % numbers[_ESCAPED.sub(rb"\1", literal[1:-1]).decode()]

    return normalize


def _normalize_text(normalizer: KeyNormalizer) -> Normalize:
    cut = normalizer.prefix or None
    if normalizer.collation_weights is None:
        return lambda literal: _characters(normalizer, literal)[:cut].rstrip(" ").encode("utf-8", "surrogatepass")
    folding = normalizer.collation_weights

    @cache
    def table() -> list[str]:
        """Decoded as Latin-1, so that one call can replace characters by weights. Made when it is needed: the compiled
        kernel has its own, and rarely asks."""
        return [weight.decode("latin-1") for weight in weights(folding)]

    def normalize(literal: bytes) -> bytes:
        by_point = table()
        near, space = min(len(by_point), NEAR), by_point[0x20]
        text = _characters(normalizer, literal)[:cut]
        if text and ord(max(text)) >= near:
            weighed = "".join([by_point[ord(c)] if ord(c) < near else _far(ord(c), by_point) for c in text])
        else:
            weighed = text.translate(by_point)  # type: ignore[arg-type]
        while space and weighed.endswith(space):
            weighed = weighed.removesuffix(space)
        return weighed.encode("latin-1")

    def _far(point: int, by_point: Sequence[str]) -> str:
        if point in TAGS and len(by_point) > NEAR:
            return by_point[NEAR + point - TAGS.start]
        return (folding.far or b"\0" + point.to_bytes(3, "big")).decode("latin-1")

    return normalize


def _characters(normalizer: KeyNormalizer, literal: bytes) -> str:
    """The text of a literal: ``'…'``, or ``_charset x'…'``."""
    if literal[:1] == b"'":
        body = literal[1:-1]
        return (_ESCAPED.sub(rb"\1", body) if b"\\" in body else body).decode("utf-8", "replace")
    raw = unhexlify(literal[literal.index(b"'") + 1 : -1])
    if normalizer.characters:
        return raw.decode("latin-1").translate(normalizer.characters)  # type: ignore[arg-type]
    return raw.decode(_CODECS[normalizer.charset], "replace")


_FUNCTIONS: Mapping[str, Callable[[KeyNormalizer], Normalize]] = {
    EXACT: _normalize_exact,
    BLOCK: _normalize_block,
    INCOMPARABLE: _normalize_any,
    DECIMAL: _normalize_decimal,
    FLOAT: _normalize_float,
    FRACTION: _normalize_fraction,
    BINARY: _normalize_binary,
    MEMBERS: _normalize_members,
    TEXT: _normalize_text,
}
