"""Replaces engines that can't roll back with InnoDB, for a target whose tables must be able to roll back."""

from __future__ import annotations

from collections.abc import Sequence

from pkg.ddl.rewrite import edited
from pkg.ddl.tokens import Dialect, Token, tokenize

#: Engines that store their rows, but can't roll back.
_REPLACED = frozenset({"myisam", "aria", "maria", "memory", "heap", "csv", "archive"})
#: Their row formats that InnoDB refuses.
_FORMATS = frozenset({"fixed", "static", "page"})
#: Precedes a column that has the option's name.
_OF_A_COLUMN = ("CHANGE", "COLUMN", "EXISTS")


def in_innodb(sql: str, dialect: Dialect) -> str:
    """The text of a CREATE TABLE or ALTER TABLE with InnoDB for engines such as MyISAM, Aria and MEMORY, and the
    default for row formats that only these have. The rest stays unchanged. Raises 36067 for an open quote."""
    edits: list[tuple[int, int, str]] = []
    tokens = list(tokenize(sql, dialect))
    for i, token in enumerate(tokens):
        if token.word not in ("ENGINE", "ROW_FORMAT") or (i and tokens[i - 1].word in _OF_A_COLUMN):
            continue
        value = _value(tokens[i + 1 : i + 3])
        if value is None:
            continue
        name = value.text.strip("'\"`").lower()
        if token.word == "ENGINE" and name in _REPLACED:
            edits.append((value.start, value.end, "InnoDB"))
        elif token.word == "ROW_FORMAT" and name in _FORMATS:
            edits.append((value.start, value.end, "DEFAULT"))
    return edited(sql, edits) if edits else sql


def _value(behind: Sequence[Token]) -> Token | None:
    """An option's value, with or without "=" before it."""
    if behind and behind[0].text == "=":
        behind = behind[1:]
    return behind[0] if behind and behind[0].kind in ("word", "name", "string") else None
