"""Reads a text without parsing it: its statements, and the schemas that it may refer to."""

from __future__ import annotations

from itertools import pairwise

from pkg.ddl.tokens import BLANKS, DEFAULT_DIALECT, Dialect, name_value, tokenize
from pkg.errors import DMError

#: Other verbs may change rows anywhere, through triggers or functions.
_VERBS = frozenset({"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"})
#: Keywords before a schema's name without a dot after it.
_BARE = frozenset({"DATABASE", "DATABASES", "SCHEMA", "SCHEMAS"})
_UNKNOWN = "\ufffd"


def named_schemas(sql: str, *, sql_mode: str = "", default_schema: str = "", flavor: str = "") -> frozenset[str] | None:
    """All schemas whose tables the statement may define, change or drop; None when unknown.

    A table is either qualified, its schema before a dot, or in the session's default schema. Table names before their
    columns look the same: the result may have more names than there are schemas, never fewer. U+FFFD represents unknown
    characters of the text.
    """
    try:
        tokens = tokenize(sql, Dialect.of(sql_mode, flavor))
    except DMError:
        return None
    if tokens[0].word not in _VERBS or any(token.word in _BARE for token in tokens):
        return None
    found = {default_schema} if default_schema else set()
    for before, token in pairwise(tokens):
        if token.kind == "op" and token.text == ".":
            if before.kind not in ("word", "name"):
                return None
            found.add(name_value(before))
    return None if any(_UNKNOWN in name for name in found) else frozenset(found)


def separate(text: str) -> list[str]:
    """The statements of a text, split at semicolons outside of quotes and comments; empty ones are left out.

    Raises 36067 for an unclosed quote or comment.
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
