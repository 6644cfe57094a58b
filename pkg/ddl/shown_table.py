"""The keys, CHECK constraints and partitions in a table's definition as a server shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pkg.ddl.rewrite import as_executed
from pkg.ddl.tokens import DEFAULT_DIALECT, Token, name_value, tokenize

_KEY_WORDS = frozenset({"PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "VECTOR"})
_SPECIAL = frozenset({"FULLTEXT", "SPATIAL", "VECTOR"})
_NOT_ENFORCED = ["NOT", "ENFORCED"]


@dataclass(frozen=True, slots=True)
class ShownKey:
    """``kind``: FULLTEXT, SPATIAL or VECTOR, '' for others. ``parts``: the text of each part. ``sql``: as ALTER TABLE
    … ADD takes it."""

    name: str
    kind: str
    parts: tuple[str, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """``name``: '' for a column's own in MariaDB. ``expression``: in parentheses."""

    name: str
    expression: str
    enforced: bool


@dataclass(frozen=True, slots=True)
class ShownTable:
    """``partitioning``: the clause PARTITION BY, '' for a table without partitions."""

    keys: tuple[ShownKey, ...] = ()
    checks: tuple[ShownCheck, ...] = ()
    partitioning: str = ""

    def key(self, name: str) -> ShownKey | None:
        return next((key for key in self.keys if key.name == name), None)


def shown_table(create: str) -> ShownTable:
    """From the answer to SHOW CREATE TABLE. Raises 36067 for text that is none."""
    text = as_executed(create, DEFAULT_DIALECT)
    tokens = tokenize(text, DEFAULT_DIALECT)[:-1]
    elements, behind = _elements(tokens)
    keys = [_key(text, element) for element in elements if element[0].word in _KEY_WORDS]
    checks = [check for element in elements for check in _checks(text, element)]
    by = next((at for at, (one, two) in enumerate(pairwise(behind)) if (one.word, two.word) == ("PARTITION", "BY")), -1)
    return ShownTable(tuple(keys), tuple(checks), _text(text, behind[by:]) if by >= 0 else "")


def _elements(tokens: Sequence[Token]) -> tuple[list[Sequence[Token]], Sequence[Token]]:
    """The elements in the table's parentheses, and what is behind them."""
    start = next((at for at, token in enumerate(tokens) if _is_op(token, "(")), len(tokens))
    found, end = _split(tokens, start)
    return [element for element in found if element], tokens[end + 1 :]


def _split(tokens: Sequence[Token], start: int) -> tuple[list[Sequence[Token]], int]:
    """What is between the commas in the parentheses that open at ``start``, and where they are closed."""
    found: list[Sequence[Token]] = []
    depth, first = 0, start + 1
    for at in range(start, len(tokens)):
        token = tokens[at]
        if token.kind != "op":
            continue
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if (depth == 1 and token.text == ",") or not depth:
            found.append(tokens[first:at])
            first = at + 1
        if not depth:
            return found, at
    return found, len(tokens)


def _key(text: str, element: Sequence[Token]) -> ShownKey:
    at = next(at for at, token in enumerate(element) if _is_op(token, "("))
    parts, _ = _split(element, at)
    name = next((name_value(token) for token in element[:at] if token.kind == "name"), "PRIMARY")
    kind = element[0].word if element[0].word in _SPECIAL else ""
    return ShownKey(name, kind, tuple(_text(text, part) for part in parts), _text(text, element))


def _checks(text: str, element: Sequence[Token]) -> Iterator[ShownCheck]:
    """The element's CHECK constraints: it is one itself, or a column with its own."""
    named = element[0].word == "CONSTRAINT"
    depth = 0
    for at, token in enumerate(element[:-1]):
        depth += (token.kind == "op") * {"(": 1, ")": -1}.get(token.text, 0)
        if not depth and token.word == "CHECK" and _is_op(element[at + 1], "("):
            _, end = _split(element, at + 1)
            words = [each.word for each in element[end + 1 : end + 3]]
            yield ShownCheck(
                name_value(element[1]) if named else "", _text(text, element[at + 1 : end + 1]), words != _NOT_ENFORCED
            )


def _text(text: str, tokens: Sequence[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end] if tokens else ""


def _is_op(token: Token, op: str) -> bool:
    return token.kind == "op" and token.text == op
