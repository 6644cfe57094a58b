"""Functions over text and binary strings. Text is counted in characters, binary strings in bytes. Pure."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from pkg.rules.expression_filter import collations
from pkg.rules.expression_filter.syntax import ExpressionError, ExpressionNode
from pkg.rules.expression_filter.types import (
    IMPLICIT,
    INT,
    SESSION_COLLATION,
    TypedExpression,
    ValueType,
    as_exact,
    as_text,
    made,
)
from pkg.rules.expression_filter.wildcards import wildcards

_PLAIN_REGEXP = re.compile(r"(?:[^\\\[\](){}]|\[\^?[^\\\[\]&|~-]+(?:-[^\\\[\]&|~-]+)*\]|[()]|\{\d+(?:,\d*)?\})*")


def strings(
    node: ExpressionNode, args: Sequence[TypedExpression], *, compare: bool
) -> tuple[ValueType, list[TypedExpression]]:
    """``args`` as strings of their common type."""
    return collations.aggregate([as_text(arg) for arg in args], node.at, compare=compare)


def _one(node: ExpressionNode, arg: TypedExpression) -> tuple[ValueType, TypedExpression]:
    type_, (text,) = strings(node, [arg], compare=False)
    return type_, text


def _bytes(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    return collations.as_bytes(_one(node, arg)[1])


def length(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """LENGTH: in bytes of the column's charset."""
    return made(INT, len, _bytes(node, arg), at=node.at)


def char_length(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    return made(INT, len, _one(node, arg)[1], at=node.at)


def crc32(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    return made(ValueType("int", unsigned=True, digits=10), zlib.crc32, _bytes(node, arg), at=node.at)


def md5(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    digest: Callable[[bytes], str] = lambda raw: hashlib.md5(raw, usedforsecurity=False).hexdigest()  # noqa: E731
    return made(ValueType("text"), digest, _bytes(node, arg), at=node.at)


def change_case(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """LOWER and UPPER; binary strings stay unchanged."""
    type_, text = _one(node, arg)
    if type_.kind == "binary":
        return text
    collations.check_case(type_.collation, node.at)
    charset, upper = type_.charset, node.op == "UPPER"
    return made(type_, lambda value: collations.changed_case(value, charset, upper), text, at=node.at)


def concat(node: ExpressionNode, *args: TypedExpression) -> TypedExpression:
    type_, texts = strings(node, args, compare=False)
    empty: Any = b"" if type_.kind == "binary" else ""
    return made(type_, lambda *values: empty.join(values), *texts, at=node.at)


def concat_ws(node: ExpressionNode, *args: TypedExpression) -> TypedExpression:
    """CONCAT_WS: skips NULL arguments."""
    type_, texts = strings(node, args, compare=False)
    first, *rest = [text.get for text in texts]

    def join(row: Sequence[bytes]) -> Any:
        separator = first(row)
        return None if separator is None else separator.join(v for get in rest if (v := get(row)) is not None)

    return TypedExpression(type_, join, node.at, constant=all(text.constant for text in texts))


def _whole(arg: TypedExpression) -> TypedExpression:
    arg = as_exact(arg)
    if arg.kind == "decimal":
        raise arg.refuse("a whole number is needed here")
    return arg


def substring(
    node: ExpressionNode, arg: TypedExpression, start: TypedExpression, count: TypedExpression | None
) -> TypedExpression:
    """SUBSTRING: the first character is 1, and −1 the last."""

    def cut(text: Any, begin: int, many: int | None = None) -> Any:
        at = begin - 1 if begin > 0 else len(text) + begin
        if begin == 0 or at < 0 or (many is not None and many <= 0):
            return text[:0]
        return text[at:] if many is None else text[at : at + many]

    type_, text = _one(node, arg)
    numbers = [_whole(number) for number in (start, count) if number is not None]
    return made(type_, cut, text, *numbers, at=node.at)


def ends(node: ExpressionNode, arg: TypedExpression, count: TypedExpression) -> TypedExpression:
    """LEFT and RIGHT."""
    type_, text = _one(node, arg)
    if node.op == "LEFT":
        return made(type_, lambda value, many: value[: max(0, many)], text, _whole(count), at=node.at)
    return made(type_, lambda value, many: value[max(0, len(value) - max(0, many)) :], text, _whole(count), at=node.at)


def trim(node: ExpressionNode, arg: TypedExpression, what: TypedExpression | None) -> TypedExpression:
    """TRIM, LTRIM, RTRIM: removes whole copies of ``what`` (a blank), compared byte by byte."""
    type_, texts = strings(node, [arg] if what is None else [arg, what], compare=False)
    blank: Any = b" " if type_.kind == "binary" else " "
    side = {"LTRIM": "LEADING", "RTRIM": "TRAILING"}.get(node.op, node.text)

    def cut(text: Any, copy: Any = blank) -> Any:
        while copy and side != "TRAILING" and text.startswith(copy):
            text = text[len(copy) :]
        while copy and side != "LEADING" and text.endswith(copy):
            text = text[: -len(copy)]
        return text

    return made(type_, cut, *texts, at=node.at)


def replace(node: ExpressionNode, *args: TypedExpression) -> TypedExpression:
    """REPLACE, which distinguishes upper and lower case."""
    for arg in args[1:]:
        if not arg.constant or arg.get(()) is None:
            raise arg.refuse("REPLACE needs literals as its second and third argument")
    type_, texts = strings(node, args, compare=False)
    return made(type_, lambda text, old, new: text.replace(old, new) if old else text, *texts, at=node.at)


def reverse(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    type_, text = _one(node, arg)
    return made(type_, lambda value: value[::-1], text, at=node.at)


def position(
    node: ExpressionNode, arg: TypedExpression, part: TypedExpression, start: TypedExpression | None
) -> TypedExpression:
    """INSTR and LOCATE, in the order of INSTR's arguments; 0 when it is not found."""
    type_, texts = strings(node, [arg, part], compare=True)
    collations.check_pieces(type_.collation, node.at)

    def find(text: Any, piece: Any, begin: int = 1) -> int:
        if begin < 1 or begin - 1 > len(text):
            return 0
        if isinstance(text, bytes):
            return text.find(piece, begin - 1) + 1
        return collations.position(text, piece, begin - 1, type_.collation) + 1

    return made(INT, find, *texts, *([] if start is None else [_whole(start)]), at=node.at)


def find_in_set(node: ExpressionNode, part: TypedExpression, arg: TypedExpression) -> TypedExpression:
    """FIND_IN_SET: the number of the first equal element, with significant blanks.

    A list of fewer bytes than the searched string has no match, even if the letters are equal: 'Ä' in 'a', not in
    'a,b'.
    """
    type_, texts = strings(node, [part, arg], compare=True)
    if type_.kind == "binary":
        return made(INT, lambda piece, text: _place(piece, text.split(b",")) if text else 0, *texts, at=node.at)
    weigh, charset = collations.weights(type_.collation), type_.charset

    def find(piece: str, text: str) -> int:
        if not text or len(collations.encode(text, charset)) < len(collations.encode(piece, charset)):
            return 0
        return _place(weigh(piece), [weigh(element) for element in text.split(",")])

    return made(INT, find, *texts, at=node.at)


def _place(wanted: Any, elements: list[Any]) -> int:
    return elements.index(wanted) + 1 if wanted in elements else 0


def like(
    node: ExpressionNode, arg: TypedExpression, pattern: TypedExpression, escape: TypedExpression | None
) -> TypedExpression:
    """LIKE: character by character, with significant trailing blanks."""
    if arg.kind in ("real", "bit") or pattern.kind in ("real", "bit"):
        raise arg.refuse("LIKE over a floating point number or bits is not supported")
    char = "\\"
    if escape is not None:
        char = escape.get(()) if escape.constant and escape.kind == "text" else "no literal"
        if len(char) > 1:
            raise escape.refuse("ESCAPE needs one character as a literal")
    type_, texts = strings(node, [arg, pattern], compare=True)
    if type_.kind == "binary":

        def match_bytes(raw: bytes, wanted: bytes) -> bool:
            return wildcards(wanted.decode("latin-1"), char, str).matches(raw.decode("latin-1"))

        return made(INT, match_bytes, *texts, at=node.at)
    weigh = collations.letters(type_.collation)

    def match(text: str, wanted: str) -> bool:
        return wildcards(wanted, char, weigh).matches(weigh(text))

    return made(INT, match, *texts, at=node.at)


def regexp(node: ExpressionNode, arg: TypedExpression, pattern: TypedExpression, flavor: str) -> TypedExpression:
    """REGEXP, for patterns with the same meaning in all engines.

    '.' and '$' use the line ends of PCRE (mariadb) or ICU (mysql 8).
    """
    if pattern.kind != "text" or not pattern.constant:
        raise pattern.refuse("REGEXP needs its pattern as a literal")
    type_, texts = strings(node, [arg, pattern], compare=True)
    if type_.kind == "binary":
        raise arg.refuse("REGEXP over binary strings is not supported")
    text = pattern.get(())
    if text is None:
        return TypedExpression(ValueType("null"), lambda _: None, node.at, constant=True)
    compiled = _regexp(text, pattern, not type_.collation.endswith("_bin"), flavor)
    return made(INT, lambda value: compiled.search(value) is not None, texts[0], at=node.at)


def _regexp(text: str, pattern: TypedExpression, ignore_case: bool, flavor: str) -> re.Pattern[str]:
    if not text or not text.isascii() or "(?" in text or "+?" in text or not _PLAIN_REGEXP.fullmatch(text):
        raise pattern.refuse(
            "this REGEXP pattern is not supported: use ASCII literals, . ^ $ | ( ) [ ] * + ? {n,m}, without backslashes"
        )
    # A repeated group could run forever.
    if re.search(r"\)[*+{]|[*+?}][*+?{]|^[*+?{]|[(|^][*+?{]", text):
        raise pattern.refuse("this REGEXP pattern repeats a group, a repetition, or nothing")
    ends = r"\n" if flavor == "mariadb" else r"\n\v\f\r\x85\u2028\u2029"
    parts = re.split(r"(\[\^?\]?[^\]]*\])", text)
    for i in range(0, len(parts), 2):
        parts[i] = parts[i].replace("$", rf"(?=(?:\r\n|[{ends}])?\Z)").replace(".", f"[^{ends}]")
    try:
        return re.compile("".join(parts), re.IGNORECASE if ignore_case else 0)
    except re.error as exc:
        raise pattern.refuse(f"this REGEXP pattern is not valid: {exc}") from exc


def cast(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """CAST to CHAR and BINARY."""
    if len(node.numbers) > 1:
        raise ExpressionError(node.at, f"{node.text} takes one length")
    text = as_text(arg)
    if node.text == "BINARY":
        if node.numbers:
            raise ExpressionError(node.at, "BINARY with a length is not supported")
        return collations.as_bytes(text)
    if text.kind == "binary":
        raise arg.refuse("text of binary strings is not supported")
    most = node.numbers[0] if node.numbers else None
    type_ = ValueType("text", collation=SESSION_COLLATION, derivation=IMPLICIT)
    return made(type_, lambda value: value[:most], text, at=node.at)
