"""From a parsed statement to the event types in filter rules.

The first type is the event's class, which is DM's. The types after it describe the change more exactly, with names of
DM's list that DM gives to no such event (``add column``): a rule with one of these names matches it. Groups use the
class.

A statement has the class of its first part with a class of its own; pass the parts of an ALTER TABLE one by one to get
a decision for each.
"""

from __future__ import annotations

from pkg.ddl.statement import (
    AddColumn,
    AddIndex,
    AlterAction,
    AlterColumn,
    AlterSpec,
    ChangeColumn,
    ConvertCharset,
    DDLStatement,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropIndex,
    NoStructure,
    RenameColumn,
    RenameIndex,
    RenameTable,
    SetOptions,
)
from pkg.mysql.schema import TableInfo
from pkg.rules.binlog_filter.column_change import change_class

EventTypes = tuple[str, ...]
#: The class of an ALTER TABLE without a class of its own.
_PLAIN = "alter table"
_TABLE_CHARSET = "modify table charset and collate"
_PARTITION_CLASSES = frozenset(
    {"drop table partition", "truncate table partition", "reorganize table partition", "rebuild table partition"}
    | {"coalesce table partition", "exchange table partition"}
)
_PLAIN_WORK = frozenset(
    {"add table partition", "alter table partitioning", "remove table partitioning", "alter index visibility"}
)
_PLAIN_OPTIONS = {"COMMENT": "modify table comment", "AUTO_INCREMENT": "rebase auto id"}
_SIMPLE: dict[type, EventTypes] = {
    AddColumn: (_PLAIN, "add column"),
    DropColumn: ("drop column",),
    RenameColumn: ("rename column",),
    RenameIndex: ("rename index",),
    RenameTable: ("rename table",),
    DropForeignKey: (_PLAIN, "drop foreign key"),
    DropConstraint: (_PLAIN,),
    ConvertCharset: ("modify charset", _TABLE_CHARSET),
}


def event_types(statement: DDLStatement, before: TableInfo | None = None, after: TableInfo | None = None) -> EventTypes:
    """The statement's event types, () for one without a class (it needs nothing on the target).

    ``before`` and ``after`` are the table's structure around it. Without them a change of a column's type is a *modify
    column*, even when it changes values, and a dropped unique key is only a *drop index*.
    """
    if statement.kind == "skip":
        return ()
    if statement.kind == "alter database" and (statement.options.charset or statement.options.collation):
        return ("alter database", "modify schema charset and collate")
    if statement.kind == "drop index":
        return next((_action(action, before, after) for action in statement.actions), ("drop index",))
    if statement.kind != "alter table":
        return (statement.kind,)
    return _deciding([spec_types(statement, spec, before, after) for spec in statement.specs])


def spec_types(
    statement: DDLStatement, spec: AlterSpec, before: TableInfo | None = None, after: TableInfo | None = None
) -> EventTypes:
    """The types of one part of ALTER TABLE."""
    if any(isinstance(action, AddColumn) for action in spec.actions):
        # Keys within or after the column definitions belong to the columns.
        return _SIMPLE[AddColumn]
    return _deciding([_action(action, before, after) for action in spec.actions])


def _deciding(found: list[EventTypes]) -> EventTypes:
    """The first with a class of its own; if there is none, a plain one with the other types of all parts."""
    own = next((types for types in found if types[0] != _PLAIN), None)
    return own or (_PLAIN, *dict.fromkeys(name for types in found for name in types[1:]))


def _action(action: AlterAction, before: TableInfo | None, after: TableInfo | None) -> EventTypes:
    if isinstance(action, ChangeColumn):
        return (change_class(action, before, after),)
    if isinstance(action, AddIndex):
        return _add_index(action)
    if isinstance(action, DropIndex):
        return _drop_index(action.name, before)
    if isinstance(action, AlterColumn):
        return ("modify default value", "set default value") if action.sets_default else (_PLAIN,)
    if isinstance(action, SetOptions):
        return _option(action)
    if isinstance(action, NoStructure):
        return _no_structure(action)
    return next((types for kind, types in _SIMPLE.items() if isinstance(action, kind)), (_PLAIN,))


def _add_index(action: AddIndex) -> EventTypes:
    names: dict[str, EventTypes] = {"primary": ("add primary key",), "foreign": ("add foreign key",)}
    return ("modify constraint", *names.get(action.index.kind, ()))


def _drop_index(name: str, before: TableInfo | None) -> EventTypes:
    if name.upper() == "PRIMARY":
        return ("drop primary key",)
    unique = before is not None and any(key.name.lower() == name.lower() for key in before.unique_keys)
    return ("drop index", "drop unique key") if unique else ("drop index",)


def _no_structure(action: NoStructure) -> EventTypes:
    if action.what in _PARTITION_CLASSES:
        return (action.what,)
    return (_PLAIN, action.what) if action.what in _PLAIN_WORK else (_PLAIN,)


def _option(action: SetOptions) -> EventTypes:
    if action.options.charset:
        return ("modify charset", _TABLE_CHARSET)
    if action.options.collation:
        return ("modify collation", _TABLE_CHARSET)
    if action.options.engine:
        return ("modify storage engine",)
    name = _PLAIN_OPTIONS.get(action.word)
    return (_PLAIN, name) if name else (_PLAIN,)
