"""The class of a MODIFY or CHANGE, which depends on the previous column."""

from __future__ import annotations

import re

from pkg.ddl.statement import ChangeColumn
from pkg.mysql.schema import Column, TableInfo

#: Least to most.
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_SIZES = ("tiny", "", "medium", "long")
#: Types that differ only in their charset.
_TEXT_OF = {"binary": "char", "varbinary": "varchar", "blob": "text"}
_TEXT_OF.update({f"{size}blob": f"{size}text" for size in _SIZES})
_TEXTS = tuple(f"{size}text" for size in _SIZES)
_ARGUMENTS = re.compile(r"\((\d+)(?:,(\d+))?\)")
_QUOTE = "'"
_LITERAL = re.compile(r"'(.*)'", re.DOTALL)
_NOW = re.compile(r"(?:now|current_timestamp|localtime|localtimestamp)(?:\s*\(\s*(\d*)\s*\))?", re.IGNORECASE)
#: The length and decimals of a float without a limit.
_NO_LIMIT = (1 << 16, 1 << 8)


def change_class(action: ChangeColumn, before: TableInfo | None, after: TableInfo | None) -> str:
    """The class, by the effect on values, otherwise by the first other change; *alter table* for no change.

    Without the structures around the change it is a *modify column*.
    """
    old = before.column(action.old_name) if before else None
    new = after.column(action.column.name) if after else None
    if before is None or old is None or new is None:
        return "modify column"
    return _type_change(old, new) or _key_change(action, before, old, new) or _other_change(action, old, new)


def _type_change(old: Column, new: Column) -> str:
    """'' when every value stays unchanged."""
    old_type, new_type = _TEXT_OF.get(old.type_name, old.type_name), _TEXT_OF.get(new.type_name, new.type_name)
    if old_type == new_type:
        return _same_type(old, new)
    if old_type in _TEXTS and new_type in _TEXTS:
        return "modify column" if _TEXTS.index(new_type) < _TEXTS.index(old_type) else ""
    if old_type in _INTEGERS and new_type in _INTEGERS:
        smaller = _INTEGERS.index(new_type) < _INTEGERS.index(old_type)
        return "value range decrease" if smaller or old.unsigned is not new.unsigned else ""
    return "modify column"


def _same_type(old: Column, new: Column) -> str:
    signs_differ = old.unsigned is not new.unsigned
    if old.type_name in _INTEGERS:
        return "precision decrease" if signs_differ else ""
    if old.type_name == "decimal":
        return "precision decrease" if signs_differ or _numbers(old) != _numbers(new) else ""
    if old.type_name == "binary" and _numbers(old) != _numbers(new):
        return "precision decrease"
    if old.type_name in ("enum", "set"):
        return "" if new.elements[: len(old.elements)] == old.elements else "value range decrease"
    fewer = any(after < before for before, after in zip(_numbers(old), _numbers(new), strict=True))
    return "value range decrease" if fewer or signs_differ else ""


def _key_change(action: ChangeColumn, before: TableInfo, old: Column, new: Column) -> str:
    """The key that the definition no longer names; the server keeps it, but DM's class counts it as dropped."""
    if old.auto_increment and not new.auto_increment:
        return "remove auto increment"
    name = old.name.lower()
    keys = [tuple(column.lower() for column in key.columns) for key in before.unique_keys if not key.primary]
    primary = before.primary_key
    if primary is not None and name in map(str.lower, primary.columns) and not action.column.primary:
        return "drop primary key"
    unique = action.column.unique or action.column.type.name == "SERIAL"
    return "drop unique key" if (name,) in keys and not unique else ""


def _other_change(action: ChangeColumn, old: Column, new: Column) -> str:
    if _default(old) != _default(new):
        return "modify default value"
    if old.charset != new.charset:
        return "modify charset"
    if old.collation != new.collation:
        return "modify collation"
    if action.position is not None:
        return "modify columns order"
    return "rename column" if action.column.name.lower() != action.old_name.lower() else "alter table"


def _default(column: Column) -> str:
    """A uniform spelling of the default; '' for none, which also means NULL."""
    text = (column.default or "NULL").strip()
    if text.upper() == "NULL":
        return ""
    now = _NOW.fullmatch(text)
    if now:
        return f"now({int(now[1] or 0)})"
    # As written, or as a server shows it: MySQL without quotes, MariaDB with quotes.
    quoted = _LITERAL.fullmatch(text)
    return f"={quoted[1].replace(_QUOTE * 2, _QUOTE) if quoted else text.removeprefix('+')}"


def _numbers(column: Column) -> tuple[int, int]:
    """Length and decimals, as far as the type has them. For a time, the digits of its fraction."""
    found = _ARGUMENTS.search(column.column_type)
    if found is None and column.type_name in ("float", "double"):
        return _NO_LIMIT
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)
