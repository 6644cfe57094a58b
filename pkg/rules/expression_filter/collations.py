"""Collations that are reproduced exactly: binary ones, utf8mb4_general_ci and its equivalents, latin1_swedish_ci, and
utf8mb4_0900_ai_ci. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from pkg.binlog.charsets import same_charset
from pkg.rules.expression_filter.case_maps import (
    GENERAL_WEIGHTS,
    LATIN1_LOWER,
    LATIN1_UPPER,
    LATIN1_WEIGHTS,
    LOWER,
    UPPER,
)
from pkg.rules.expression_filter.syntax import EvaluationError, ExpressionError
from pkg.rules.expression_filter.types import EXPLICIT, IMPLICIT, LITERAL, TypedExpression, ValueType, made
from pkg.rules.expression_filter.uca_900 import LETTERS, WEIGHTS

#: MySQL 8's default.
_UCA_900 = "utf8mb4_0900_ai_ci"
_UNICODE = ("utf8mb4", "utf8mb3", "utf8")
#: Collation → whether it ignores case.
_KNOWN = {
    **dict.fromkeys((f"{charset}_bin" for charset in (*_UNICODE, "latin1", "ascii")), False),
    **dict.fromkeys((f"{charset}_general_ci" for charset in (*_UNICODE, "ascii")), True),
    "latin1_swedish_ci": True,
    "utf8mb4_0900_bin": False,
    _UCA_900: True,
}
_HOW = "Supported exactly: " + ", ".join(sorted(_KNOWN)) + ". Add COLLATE with one of them, or BINARY"
#: Collations with case maps of later Unicode versions: about 300 characters differ.
_NEWER_CASES = re.compile("_520_|_0900_|_uca1400_")
#: In these and in MariaDB's nopad collations 'a' and 'a ' differ.
_NO_PAD = frozenset({"utf8mb4_0900_bin", _UCA_900})


def _latin1(text: str) -> str:
    """Characters numbered by their bytes."""
    try:
        return text.encode("cp1252").decode("latin-1")
    except UnicodeEncodeError:
        pairs = (c if ord(c) in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else c.encode("cp1252").decode("latin-1") for c in text)
        return "".join(pairs)


def _unlatin1(text: str) -> str:
    return "".join(
        c if ord(c) in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else c.encode("latin-1").decode("cp1252") for c in text
    )


def encode(text: str, charset: str) -> bytes:
    """The string's bytes in its charset."""
    return _latin1(text).encode("latin-1") if charset == "latin1" else text.encode()


def decode(raw: bytes, charset: str) -> str:
    """Text of a column. Raises :class:`EvaluationError` for invalid bytes."""
    try:
        return _unlatin1(raw.decode("latin-1")) if charset == "latin1" else raw.decode()
    except UnicodeDecodeError:
        raise EvaluationError(f"bytes {raw[:40].hex()} are not text in {charset}") from None


def weights(collation: str) -> Callable[[str], str]:
    """A function from text to a string that compares as the collation does."""
    return (lambda text: text.translate(WEIGHTS)) if collation == _UCA_900 else letters(collation)


def letters(collation: str) -> Callable[[str], str]:
    """A function from text to a string with one character for each of the text's, the same for equal ones."""
    if collation == _UCA_900:
        return lambda text: text.translate(LETTERS)
    latin1 = collation.startswith("latin1_")
    if collation.endswith("_bin"):
        return _latin1 if latin1 else str
    if latin1:
        return lambda text: _latin1(text).translate(LATIN1_WEIGHTS)
    return lambda text: text.translate(GENERAL_WEIGHTS)


def pads(collation: str) -> bool:
    """Whether comparisons pad the shorter string with blanks."""
    return collation not in _NO_PAD


def changed_case(text: str, charset: str, upper: bool) -> str:
    if charset == "latin1":
        return _unlatin1(_latin1(text).translate(LATIN1_UPPER if upper else LATIN1_LOWER))
    return text.translate(UPPER if upper else LOWER)


def check_case(collation: str, at: int) -> None:
    """Raises :class:`ExpressionError` if LOWER and UPPER follow a Unicode version other than ours."""
    if _NEWER_CASES.search(collation):
        raise ExpressionError(at, f"letters' case in collation {collation} cannot be reproduced exactly. {_HOW}")


def check_known(collation: str, at: int) -> None:
    if collation not in _KNOWN:
        raise ExpressionError(at, f"collation {collation or '(unknown)'} cannot be reproduced exactly. {_HOW}")


def check_pieces(collation: str, at: int) -> None:
    """Raises :class:`ExpressionError` if substrings are compared in a way that we do not reproduce."""
    if collation == _UCA_900:
        raise ExpressionError(at, f"a search in text of collation {collation} cannot be reproduced exactly. {_HOW}")


def aggregate(args: Sequence[TypedExpression], at: int, *, compare: bool) -> tuple[ValueType, list[TypedExpression]]:
    """The common string type of ``args`` (text, binary or null), and the arguments converted to it.

    With ``compare``, the collation must also be exact. Raises :class:`ExpressionError` otherwise, and for collations
    that the servers call an illegal mix.
    """
    real = [arg for arg in args if arg.kind != "null"]
    if any(arg.kind == "binary" for arg in real):
        _check_binary(real)
        return ValueType("binary"), [_as_bytes(arg) for arg in args]
    best = ValueType("text")
    for arg in real:
        best = _stronger(best, arg, at)
    for arg in real:
        charset = arg.type.charset
        if arg.type.derivation != LITERAL and not same_charset(charset, best.charset):
            raise ExpressionError(at, f"text in {charset} next to text in {best.charset} is not supported")
        if arg.constant and arg.type.derivation == LITERAL:
            _check_fits(arg, best.charset)
    if compare:
        check_known(best.collation, at)
    return best, list(args)


def _check_binary(args: Sequence[TypedExpression]) -> None:
    """Binary strings override text, except binary literals, and except text with COLLATE."""
    if all(arg.kind == "binary" for arg in args):
        return
    for arg in args:
        if arg.kind == "binary" and arg.constant:
            raise arg.refuse("a hex literal next to text is not supported; write the text in quotes")
        if arg.kind == "text" and arg.type.derivation == EXPLICIT:
            raise arg.refuse("COLLATE next to a binary string is not supported")


def _stronger(best: ValueType, arg: TypedExpression, at: int) -> ValueType:
    one, other = best, arg.type
    if other.derivation != one.derivation:
        return other if other.derivation < one.derivation else one
    if other.collation == one.collation:
        return one
    binary = one.collation.endswith("_bin")
    if one.derivation == IMPLICIT and one.charset == other.charset and binary != other.collation.endswith("_bin"):
        return one if binary else other
    raise ExpressionError(at, f"collations {one.collation} and {other.collation} cannot be combined. Add COLLATE")


def _check_fits(arg: TypedExpression, charset: str) -> None:
    value = arg.get(())
    if value is None or charset == "utf8mb4":
        return
    try:
        encode(value, charset)
    except UnicodeEncodeError:
        raise arg.refuse(f"this text cannot be written in {charset}") from None
    limit = {"ascii": 0x7F, "latin1": 0xFFFF}.get(charset, 0xFFFF)
    if any(ord(char) > limit for char in value):
        raise arg.refuse(f"this text cannot be written in {charset}")


def _as_bytes(arg: TypedExpression) -> TypedExpression:
    if arg.kind != "text":
        return arg
    charset = arg.type.charset
    if arg.type.derivation == LITERAL and arg.constant and not (arg.get(()) or "").isascii():
        raise arg.refuse("text next to binary strings may contain only ASCII characters; write the bytes as x'…'")
    return made(ValueType("binary"), lambda text: encode(text, charset), arg, at=arg.at)


def as_bytes(arg: TypedExpression) -> TypedExpression:
    """The bytes of text in its charset."""
    return _as_bytes(arg)


def collated(arg: TypedExpression, collation: str, at: int) -> TypedExpression:
    """``arg COLLATE collation``."""
    check_known(collation, at)
    if arg.kind != "text" or not same_charset(arg.type.charset, collation.partition("_")[0]):
        raise ExpressionError(at, f"COLLATE {collation} needs text in the character set {collation.partition('_')[0]}")
    return replace(arg, type=replace(arg.type, collation=collation, derivation=EXPLICIT), column=False)


def position(text: str, part: str, start: int, collation: str) -> int:
    """The index of ``part`` in ``text`` from character ``start`` on, −1 if there is none.

    Servers compare it with substrings of as many bytes.
    """
    weigh = weights(collation)
    if collation.endswith("_bin") or collation.startswith("latin1_") or (text.isascii() and part.isascii()):
        return weigh(text).find(weigh(part), start)
    wanted, size = weigh(part), len(part.encode())
    for at in range(start, len(text) + 1):
        raw = text[at : at + size].encode()[:size]
        piece = raw.decode(errors="ignore")
        if len(raw) == size == len(piece.encode()) and weigh(piece) == wanted:
            return at
    return -1
