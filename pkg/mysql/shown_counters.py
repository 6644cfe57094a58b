"""Nullable AUTO_INCREMENT columns: SHOW CREATE TABLE omits NULL, and without it they are NOT NULL. Pure."""

from __future__ import annotations

import re

#: A column's line up to AUTO_INCREMENT, without NOT NULL; no other attribute comes before it.
_MAY_BE_NULL = re.compile(
    r"^( +`(?:[^`]|``)+` \w+(?:\([\d,]+\))?(?: unsigned)?(?: zerofill)?"
    r"(?: INVISIBLE| /\*!80023 INVISIBLE \*/)? AUTO_INCREMENT)\b",
    re.MULTILINE,
)


def with_nullable_counters(shown: str) -> str:
    """The output of SHOW CREATE TABLE with the omitted NULL. Before AUTO_INCREMENT it has no effect."""
    return _MAY_BE_NULL.sub(r"\1 NULL", shown) if "AUTO_INCREMENT" in shown else shown
