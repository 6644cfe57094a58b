"""AUTO_INCREMENT columns that may be NULL: SHOW CREATE TABLE leaves NULL out, and without it they may not. Pure."""

from __future__ import annotations

import re

#: A column's line up to AUTO_INCREMENT, without NOT NULL; no other attribute of it stands before.
_MAY_BE_NULL = re.compile(
    r"^( +`(?:[^`]|``)+` \w+(?:\([\d,]+\))?(?: unsigned)?(?: zerofill)?"
    r"(?: INVISIBLE| /\*!80023 INVISIBLE \*/)? AUTO_INCREMENT)\b",
    re.MULTILINE,
)


def with_nullable_counters(shown: str) -> str:
    """The text of SHOW CREATE TABLE with NULL where it was said. Before AUTO_INCREMENT it has no effect."""
    return _MAY_BE_NULL.sub(r"\1 NULL", shown) if "AUTO_INCREMENT" in shown else shown
