"""The names that MySQL and MariaDB give to unnamed foreign keys: the table's name, ``_ibfk_`` and a number. Pure.

Both count from the highest number in the table, even when the statement drops that key, and both rename these keys with
their table. A target with other rules needs the names, so that a later DROP FOREIGN KEY refers to the same key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pkg.ddl.parser import parse_dialect
from pkg.ddl.rewrite import edited, rewrite
from pkg.ddl.statement import AddIndex, DDLStatement, DropConstraint, DropForeignKey, IndexDef, TableBody
from pkg.ddl.tokens import DEFAULT_DIALECT, Dialect
from pkg.mysql.names import TableId, qualified, quote

_WORD = "_ibfk_"
_NUMBER = re.compile(r"[1-9]\d*")
#: A name that some server generated: TiDB, or MySQL and MariaDB (of any table).
_OF_TIDB = re.compile(r"fk_\d+", re.IGNORECASE)
_FOUND = re.compile(r"(?:.*_ib)?fk_\d+", re.IGNORECASE | re.DOTALL)
#: A foreign key in SHOW CREATE TABLE, on its own line.
_SHOWN = re.compile(r"^ *CONSTRAINT `((?:[^`]|``)*)` (FOREIGN KEY .*?),?$", re.MULTILINE)
_NAME_LENGTH = 64


def definitions(statement: DDLStatement) -> Iterator[IndexDef]:
    """All keys and constraints that the statement creates, in the order of the text."""
    if statement.body is not None:
        yield from statement.body.indexes
    yield from (action.index for action in statement.actions if isinstance(action, AddIndex))


def foreign_key_names(statement: DDLStatement, table: TableBody | None, whole: DDLStatement) -> dict[int, str]:
    """The names for the foreign keys that the text leaves unnamed, by their offsets.

    None if TiDB has generated key names in the table: their upstream numbers are unknown. ``whole`` is the statement of
    which this one may be a part that runs after others.
    """
    new = [definition for definition in definitions(statement) if definition.kind == "foreign"]
    if not any(definition.name_at >= 0 for definition in new):
        return {}
    own = statement.refs[0].table
    known = [] if table is None else [definition.name for definition in table.indexes if definition.kind == "foreign"]
    if any(map(_OF_TIDB.fullmatch, known)):
        return {}
    dropped = [action.name for action in whole.actions if isinstance(action, DropForeignKey | DropConstraint)]
    number = max((_number(name, own) for name in (*known, *dropped)), default=0)
    found: dict[int, str] = {}
    for definition in new:
        inline = definition.name_at < 0
        if definition.name or (inline and statement.dialect.flavor != "mariadb"):
            continue  # MySQL creates no key for a column's own REFERENCES
        number += 1
        if not inline:
            found[definition.name_at] = f"{own}{_WORD}{number}"
    return found


def by_copying(sql: str, dialect: Dialect) -> str:
    """Converts an ALTER TABLE that ran with foreign key checks for a MariaDB session without them.

    Without checks MariaDB alters the table in place. It then counts the names of new keys from one again if parts other
    than keys need a new table, and refuses an existing name (1823). The upstream has copied the table, too.
    """
    statement = parse_dialect(sql, replace(dialect, flavor="mariadb", version=0), "")
    found = any(definition.kind == "foreign" and not definition.name for definition in definitions(statement))
    only_keys = all(isinstance(action, AddIndex) for action in statement.actions)
    if statement.kind != "alter table" or not found or only_keys or any(spec.modifier for spec in statement.specs):
        return sql
    end = statement.specs[-1].end
    return edited(sql, [(end, end, ", ALGORITHM=COPY")])


def _number(name: str, table: str) -> int:
    """The number in a generated name of this table's key; 0 for other names."""
    number = name.removeprefix(f"{table}{_WORD}")
    return int(number) if number != name and _NUMBER.fullmatch(number) else 0


def missing_foreign_key(statement: DDLStatement, shown: str) -> tuple[str, list[str]] | None:
    """A foreign key that the statement drops and the table does not have, although one of the table's foreign keys may
    be the intended one; with the names of those.

    ``shown`` is the table's SHOW CREATE. None where every name exists, or where no key can be intended: a name chosen
    by a person is the same on both servers, so its key is already gone. Only pt-online-schema-change changes its
    underscores.
    """
    dropped = [
        action.name
        for action in statement.actions
        if isinstance(action, DropForeignKey | DropConstraint) and _names_foreign_key(action)
    ]
    if not dropped:
        return None
    present = [name.replace("``", "`") for name, _ in _SHOWN.findall(shown)]
    known = {name.lower() for name in present}
    for name in dropped:
        chosen = not _FOUND.fullmatch(name)
        plain = name.lower().lstrip("_")
        meant = [o for o in present if not chosen or _FOUND.fullmatch(o) or o.lower().lstrip("_") == plain]
        if name.lower() not in known and meant:
            return name, meant
    return None


def _names_foreign_key(action: DropForeignKey | DropConstraint) -> bool:
    # A constraint may be a check, which the target may not have.
    kind_is_known = isinstance(action, DropForeignKey) or _WORD in action.name.lower()
    return kind_is_known and not action.if_exists


def renamed_with_table(shown: str, table: TableId, old: str, new: str) -> Iterator[tuple[str, str]]:
    """For a table that was renamed from ``old`` to ``new``: the name of each foreign key that still contains the old
    name, and the statement that renames it.

    ``table`` is its current name at the target, ``shown`` the target's SHOW CREATE.
    """
    for quoted, definition in _SHOWN.findall(shown):
        name = quoted.replace("``", "`")
        number = _number(name, old)
        if not number or old == new:
            continue
        other = f"{new}{_WORD}{number}"
        if len(other) > _NAME_LENGTH:
            continue  # only MariaDB has such names; a statement that drops it stops the task
        sql = (
            f"ALTER TABLE {qualified(*table)} ADD CONSTRAINT {quote(other)} {definition}, "
            f"DROP FOREIGN KEY {quote(name)}"
        )
        yield name, rewrite(parse_dialect(sql, DEFAULT_DIALECT, table[0]), lambda schema, name: (schema, name))
