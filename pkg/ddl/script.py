"""Several statements in one text."""

from __future__ import annotations

from pkg.ddl.tokens import DEFAULT_DIALECT, tokenize


def separate(text: str) -> list[str]:
    """The statements of a text, parted at semicolons outside of quotes and comments; empty ones are left out.

    Raises 36067 for a quote or comment that does not end.
    """
    found: list[str] = []
    start = 0
    for token in tokenize(text, DEFAULT_DIALECT):
        if token.kind == "end" or (token.kind == "op" and token.text == ";"):
            found.append(text[start : token.start].strip())
            start = token.end
    return [statement for statement in found if statement]
