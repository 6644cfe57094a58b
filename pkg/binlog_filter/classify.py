"""From a parsed statement to the event types that filter rules name.

A statement has the types of its first part that has any, as DM classifies it; give the parts of an ALTER TABLE one by
one to have each decided about. The first type is the event's own; those after it name the same change in other words.
"""

from __future__ import annotations

import re

from pkg.ddl.statement import (
    Action,
    AddColumn,
    AddIndex,
    AlterColumn,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropIndex,
    NoStructure,
    RenameColumn,
    RenameIndex,
    RenameTable,
    SetOptions,
    Spec,
    Statement,
)
from pkg.mysql.schema import Column, TableInfo

Types = tuple[str, ...]
_ALTER_TABLE: Types = ("alter table",)
_TABLE_CHARSET: Types = ("modify table charset and collate", "modify charset", "modify collation")
_PARTITION_WORK = frozenset(
    {"add table partition", "drop table partition", "truncate table partition", "reorganize table partition"}
    | {"rebuild table partition", "coalesce table partition", "exchange table partition"}
    | {"alter table partitioning", "remove table partitioning", "alter index visibility"}
)
_BY_WORD = (
    (re.compile(r"COMMENT\b", re.IGNORECASE), "modify table comment"),
    (re.compile(r"AUTO_INCREMENT\b", re.IGNORECASE), "rebase auto id"),
)


def event_types(statement: Statement, before: TableInfo | None = None, after: TableInfo | None = None) -> Types:
    """The statement's event types, () for one that has no class (it needs nothing on the target).

    ``before`` and ``after`` are the table's structure around it. Without them a change of a column's type is a
    *modify column*, whatever it does to the values, and a unique key that goes is a *drop index* only.
    """
    if statement.kind == "skip":
        return ()
    if statement.kind == "drop index":
        return next((_action(action, before, after) for action in statement.actions), ("drop index",))
    if statement.kind != "alter table":
        return (statement.kind,)
    return next(
        (types for spec in statement.specs if (types := spec_types(statement, spec, before, after))), _ALTER_TABLE
    )


def spec_types(
    statement: Statement, spec: Spec, before: TableInfo | None = None, after: TableInfo | None = None
) -> Types:
    """The types of one part of ALTER TABLE, () when it has none of its own (such a part alone is an *alter table*)."""
    for action in spec.actions:
        if isinstance(action, SetOptions):
            types = _options(action, statement.sql[spec.start : spec.end])
        else:
            types = _action(action, before, after)
        if types:
            return types
    return ()


def _action(action: Action, before: TableInfo | None, after: TableInfo | None) -> Types:
    if isinstance(action, ChangeColumn):
        return _change(action, before, after)
    if isinstance(action, AddIndex):
        return _add_index(action)
    if isinstance(action, DropIndex):
        return _drop_index(action.name, before)
    if isinstance(action, DropConstraint):
        known = before is not None and any(index.name.lower() == action.name.lower() for index in before.indexes)
        return _drop_index(action.name, before) if known else ("drop foreign key", "modify constraint")
    if isinstance(action, AlterColumn):
        return ("set default value", "modify default value") if action.sets_default else ()
    if isinstance(action, NoStructure):
        return _no_structure(action)
    return next((types for kind, types in _SIMPLE.items() if isinstance(action, kind)), ())


_SIMPLE: dict[type, Types] = {
    AddColumn: ("add column",),
    DropColumn: ("drop column",),
    RenameColumn: ("rename column",),
    RenameIndex: ("rename index",),
    RenameTable: ("rename table",),
    DropForeignKey: ("drop foreign key",),
    ConvertCharset: _TABLE_CHARSET,
}


def _add_index(action: AddIndex) -> Types:
    special = {"primary": ("add primary key",), "foreign": ("add foreign key",), "check": ("modify constraint",)}
    return special.get(action.index.kind, ("create index",))


def _drop_index(name: str, before: TableInfo | None) -> Types:
    if name.upper() == "PRIMARY":
        return ("drop primary key",)
    unique = before is not None and any(key.name.lower() == name.lower() for key in before.unique_keys)
    return ("drop index", "drop unique key") if unique else ("drop index",)


def _no_structure(action: NoStructure) -> Types:
    if action.what in _PARTITION_WORK:
        return (action.what,)
    return ("modify constraint",) if action.what in ("drop check", "alter constraint") else ()


def _options(action: SetOptions, text: str) -> Types:
    if action.options.charset or action.options.collation:
        return _TABLE_CHARSET
    if action.options.engine:
        return ("modify storage engine",)
    return next(((name,) for pattern, name in _BY_WORD if pattern.match(text)), ())


def _change(action: ChangeColumn, before: TableInfo | None, after: TableInfo | None) -> Types:
    """MODIFY and CHANGE: the own type by what becomes of the values, then what else changes."""
    renamed = action.column.name.lower() != action.old_name.lower()
    others = ("rename column",) if renamed else ()
    if action.position is not None:
        others = (*others, "modify columns order")
    old = before.column(action.old_name) if before else None
    new = after.column(action.column.name) if after else None
    if old is None or new is None:
        return ("modify column", *others)
    if old.default != new.default:
        others = (*others, "modify default value", "set default value")
    if old.charset != new.charset:
        others = (*others, "modify charset")
    if old.collation != new.collation:
        others = (*others, "modify collation")
    if old.auto_increment and not new.auto_increment:
        others = (*others, "remove auto increment")
    return (_value_change(old, new), *others)


_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXT_LENGTHS = {"tiny": 255, "": 65535, "medium": 16777215, "long": 4294967295}
_ARGUMENTS = re.compile(r"\((\d+)(?:,(\d+))?\)")
_TIMES = frozenset({"time", "datetime", "timestamp"})
_FLOATS = {"float": 1, "double": 2}


def _value_change(old: Column, new: Column) -> str:
    """*value range decrease* or *precision decrease* when values may not fit any more, otherwise *modify column*."""
    if old.type_name in _INTEGER_BITS and new.type_name in _INTEGER_BITS:
        old_low, old_high = _integer_range(old)
        new_low, new_high = _integer_range(new)
        return "modify column" if new_low <= old_low and old_high <= new_high else "value range decrease"
    old_size, new_size = _text_length(old), _text_length(new)
    if old_size and new_size:
        return "value range decrease" if new_size < old_size else "modify column"
    if old.type_name == new.type_name and old.elements:
        return "modify column" if set(old.elements) <= set(new.elements) else "value range decrease"
    if old.type_name in _FLOATS and new.type_name in _FLOATS and _FLOATS[new.type_name] < _FLOATS[old.type_name]:
        return "precision decrease"
    if old.type_name == new.type_name and (old.type_name in _TIMES or old.type_name in {"decimal", *_FLOATS}):
        return _digits_change(_numbers(old), _numbers(new))
    return "modify column"


def _digits_change(old: tuple[int, int], new: tuple[int, int]) -> str:
    """For (precision, scale): fewer digits on either side of the point."""
    if new[1] < old[1] or new[0] - new[1] < old[0] - old[1]:
        return "precision decrease"
    return "modify column"


def _integer_range(column: Column) -> tuple[int, int]:
    bits = _INTEGER_BITS[column.type_name]
    return (0, (1 << bits) - 1) if column.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _text_length(column: Column) -> int:
    """The most characters or bytes; 0 for a type without such a limit."""
    name = column.type_name
    if name in ("char", "varchar", "binary", "varbinary", "bit"):
        return _numbers(column)[0] or 1
    for ending in ("text", "blob"):
        if name.endswith(ending):
            return _TEXT_LENGTHS.get(name.removesuffix(ending), 0)
    return 0


def _numbers(column: Column) -> tuple[int, int]:
    """The type's arguments. Of a time, (digits, digits): it has no others; a float without any has no limit."""
    found = _ARGUMENTS.search(column.column_type)
    first, second = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    if column.type_name in _TIMES:
        return first, first
    if column.type_name in _FLOATS and found is None:
        return 1 << 16, 1 << 8
    return first, second
