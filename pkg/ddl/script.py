"""Several statements in one text."""

from __future__ import annotations

from pkg.ddl.tokens import BLANKS, DEFAULT_DIALECT, tokenize


def separate(text: str) -> list[str]:
    """The statements of a text, parted at semicolons outside of quotes and comments; those without a word are left out.

    Raises 36067 for a quote or comment that does not end.
    """
    found: list[str] = []
    start = 0
    empty = True
    for token in tokenize(text, DEFAULT_DIALECT):
        if token.kind != "end" and not (token.kind == "op" and token.text == ";"):
            empty = False
            continue
        if not empty:
            found.append(text[start : token.start].strip(BLANKS))
        start, empty = token.end, True
    return found
