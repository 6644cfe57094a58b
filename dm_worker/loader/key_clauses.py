"""Which keys of a new table can be created after its rows, with the same result. Pure.

Creating a key from all rows at once costs a fraction of adding each row to it. A key is created later only if the rows
do not depend on it (not unique, not of an AUTO_INCREMENT or generated column, not of a table with foreign keys), and
if it then gets its old place: servers show keys in the order of their creation.
"""

from __future__ import annotations

import re

from pkg.mysql.foreign_key_introspect import keys_in
from pkg.mysql.names import quote
from pkg.mysql.schema import TableInfo

_NAME = r"`(?:[^`]|``)*`"
_PART = rf"{_NAME}(?:\(\d+\))?(?: ASC| DESC)?"
#: A key in the output of SHOW CREATE TABLE; its options follow.
_PLAIN = re.compile(rf"KEY ({_NAME}) \({_PART}(?:,{_PART})*\)(?: .*)?")
_ANY_KEY = re.compile(r"(?:(\w+) )?KEY ")
#: Kinds that servers show before or after the plain keys, whatever their order.
_APART = frozenset({"PRIMARY", "UNIQUE", "FULLTEXT"})


def later_keys(create: str, info: TableInfo) -> dict[str, str]:
    """The keys that can be created after the rows: name → clause, in their order. ``create``: from SHOW CREATE TABLE.

    Empty for a table that must have all of its keys.
    """
    if info.engine.lower() != "innodb" or keys_in((info.schema, info.name), create) or "SYSTEM VERSIONING" in create:
        return {}
    needed = {column.name.lower() for column in info.columns if column.generated or column.auto_increment}
    free = {
        quote(index.name): index.name
        for index in info.indexes
        if not index.unique and not index.hashed and needed.isdisjoint(name.lower() for name in index.columns)
    }
    found: dict[str, str] = {}
    for line in create.split("\n")[1:]:
        text = line.strip().removesuffix(",")
        kind = _ANY_KEY.match(text)
        if kind is None or kind[1] in _APART:
            continue
        plain = _PLAIN.fullmatch(text)
        if plain is not None and plain[1] in free:
            found[free[plain[1]]] = text
        else:
            # It stays, so the keys before it must stay as well.
            found.clear()
    return found


def dropping(table: str, keys: dict[str, str]) -> str:
    """The statement that removes the keys."""
    return f"ALTER TABLE {table} " + ", ".join(f"DROP KEY {quote(name)}" for name in keys)


def adding(table: str, keys: dict[str, str]) -> str:
    """The statement that creates the keys in their order, reading the rows once. Writers of other sources wait."""
    return f"ALTER TABLE {table} " + ", ".join(f"ADD {clause}" for clause in keys.values()) + ", LOCK=SHARED"


def missing(keys: dict[str, str], info: TableInfo) -> dict[str, str]:
    """Those of ``keys`` that the table lacks."""
    there = {index.name.lower() for index in info.indexes}
    return {name: clause for name, clause in keys.items() if name.lower() not in there}
