"""Foreign keys as SHOW CREATE TABLE tells them. MariaDB's information_schema hides them from who may only SELECT."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pymysql.connections import Connection

from pkg.mysql.introspect import show_create_if_there
from pkg.mysql.schema import ForeignKey

_NAME = r'(?:`(?:[^`]|``)*`|"(?:[^"]|"")*")'
_NAMES = rf"\(({_NAME}(?:, ?{_NAME})*)\)"
_ACTION = r"(RESTRICT|CASCADE|SET NULL|SET DEFAULT|NO ACTION)"
_KEY = re.compile(
    rf"^\s*CONSTRAINT {_NAME} FOREIGN KEY {_NAMES} REFERENCES (?:({_NAME})\.)?({_NAME}) {_NAMES}"
    rf"(?: ON DELETE {_ACTION})?(?: ON UPDATE {_ACTION})?",
    re.MULTILINE,
)


def shown_foreign_keys(conn: Connection[Any], tables: Iterable[tuple[str, str]]) -> list[ForeignKey]:
    """The foreign keys of those of ``tables`` that are there. Raises pymysql.Error."""
    return [key for table in tables for key in keys_in(table, show_create_if_there(conn, *table))]


def keys_in(child: tuple[str, str], create: str) -> list[ForeignKey]:
    """The foreign keys in a table's definition as servers write it. Pure."""
    found = []
    for columns, schema, table, parent_columns, on_delete, on_update in _KEY.findall(create):
        actions = tuple("" if action in ("RESTRICT", "NO ACTION") else action for action in (on_delete, on_update))
        found.append(
            ForeignKey(
                child=child,
                columns=_unquoted(columns),
                parent=(_unquoted(schema)[0] if schema else child[0], _unquoted(table)[0]),
                parent_columns=_unquoted(parent_columns),
                acts=any(actions),
                actions=(actions[0], actions[1]),
            )
        )
    return found


def _unquoted(names: str) -> tuple[str, ...]:
    return tuple(name[1:-1].replace(name[0] * 2, name[0]) for name in re.findall(_NAME, names))
