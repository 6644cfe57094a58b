"""What stands between an INSERT's table and its rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = rb"`(?:[^`]|``)+`|[\w$\x80-\xff]+"
#: Group 1 is the list of columns, when there is one.
BEFORE_ROWS = re.compile(rb"\s*(?:\(((?:\s*(?:%b)\s*,?)+)\)\s*)?VALUES?\s*(?=\()" % _NAME, re.IGNORECASE)
_COLUMN = re.compile(_NAME)


def column_names(listed: bytes) -> list[str]:
    """The names in a list of columns, unquoted."""
    names = (name.decode("utf-8", "replace") for name in _COLUMN.findall(listed))
    return [name[1:-1].replace("``", "`") if name[0] == "`" else name for name in names]


def column_list(names: Iterable[str]) -> bytes:
    """The names as a list of columns."""
    return b",".join(b"`%b`" % name.replace("`", "``").encode() for name in names)
