"""A uniform text for expressions as servers show them: the same for what differs only in spelling. Pure.

MySQL shows each operator in parentheses and each string with its charset; MariaDB shows neither. Names, functions and
keywords may be in either case, and quoted or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pkg.ddl.tokens import DEFAULT_DIALECT, Token, name_value, string_value, tokenize
from pkg.errors import DMError
from pkg.rules.expression_filter.parser import parse_tree
from pkg.rules.expression_filter.syntax import ExpressionError, ExpressionNode

#: Charsets that a server names before a string in the charset of the statement, or in one that has the same characters.
_OF_TEXT = frozenset({"_UTF8MB4", "_UTF8MB3", "_UTF8", "_LATIN1", "_ASCII"})


def meaning(expression: str) -> str:
    """Equal texts have the same meaning; different ones may have it too. What can't be parsed (a list, CAST of a type
    that filters do not have) keeps its words and parentheses."""
    try:
        plain = without_charsets(expression)
    except DMError:
        return expression
    try:
        return _spelt(parse_tree(plain, any_function=True))
    except ExpressionError:
        return " ".join(map(_plain, tokenize(plain, DEFAULT_DIALECT)[:-1]))


def without_charsets(expression: str) -> str:
    """The expression with blanks for the charsets that MySQL shows before strings. Raises 36067 for an open quote."""
    text = list(expression)
    for token, following in pairwise(tokenize(expression, DEFAULT_DIALECT)):
        if following.kind == "string" and token.word in _OF_TEXT:
            text[token.start : token.end] = " " * len(token.text)
    return "".join(text)


def _plain(token: Token) -> str:
    if token.kind in ("word", "name"):
        return name_value(token).lower()
    return repr(string_value(token, DEFAULT_DIALECT)) if token.kind == "string" else token.text


def _spelt(node: ExpressionNode) -> str:
    if node.op == "COLUMN":
        return f"`{node.text.lower()}`"
    if node.op == "LITERAL":
        return f"{node.text}{node.value!r}"
    args = node.args if node.op not in ("AND", "OR") else tuple(_operands(node, node.op))
    more = " ".join(map(str, filter(None, (node.text, *node.numbers))))
    return f"{node.op}[{more}]({', '.join(map(_spelt, args))})"


def _operands(node: ExpressionNode, op: str) -> Iterator[ExpressionNode]:
    """AND and OR group their operands in any way."""
    for arg in node.args:
        if arg.op == op:
            yield from _operands(arg, op)
        else:
            yield arg
