"""ALTER TABLE on a structure, in the server's order of execution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pkg.ddl.statement import (
    AddColumn,
    AddIndex,
    AddPeriod,
    AlterAction,
    AlterColumn,
    ChangeColumn,
    ColumnPlacement,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropIndex,
    NoStructure,
    RenameColumn,
    RenameIndex,
    SetOptions,
    TableOptions,
)
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo, in_order
from pkg.schema_tracker.indexes import add_index, find_index, normalised, without_nulls
from pkg.schema_tracker.server import Charset, ServerDefaults
from pkg.schema_tracker.structure import referenced_tables, table_charset
from pkg.schema_tracker.types import convert_column, resolve_column


def changes_structure(actions: Iterable[AlterAction]) -> bool:
    return any(not isinstance(action, NoStructure) for action in actions)


def altered(
    table: TableInfo,
    actions: Sequence[AlterAction],
    schema_charset: Charset,
    selected_charset: Charset,
    server: ServerDefaults,
) -> TableInfo:
    """The structure after one ALTER TABLE (without a rename of the table). Raises ``ValueError`` if it can't apply.

    ``schema_charset`` is the default of the table's schema, ``selected_charset`` that of the session's.
    """
    actions = _effective(table, actions)
    if not server.mariadb:
        # In MySQL, CONVERT TO CHARACTER SET DEFAULT means the charset of the selected schema, not of the table's.
        actions = [_naming(action, selected_charset) for action in actions]
    charset, converted = _charsets(table, actions, schema_charset, server)
    columns, names = _columns(table, actions, charset, server)
    columns = _redefaulted(columns, names, actions)
    if converted is not None:
        columns = [convert_column(column, converted, server) for column in columns]
        if tuple(columns) == table.columns and _passed_over(actions, server):
            return table
    indexes = _indexes(table, actions, columns, names)
    engines = [action.options.engine for action in actions if isinstance(action, SetOptions)]
    added = tuple(action.index for action in actions if isinstance(action, AddIndex))
    # The parent of a dropped foreign key is unknown here; keeping the pair only costs parallelism.
    foreign_keys = sorted({*table.foreign_keys, *referenced_tables(added)})
    return TableInfo(
        schema=table.schema,
        name=table.name,
        columns=without_nulls(columns, indexes, (a for a in actions if isinstance(a, AddPeriod))),
        indexes=in_order(indexes),
        charset=charset.name,
        collation=charset.collation,
        foreign_keys=tuple(foreign_keys),
        engine=next((engine for engine in reversed(engines) if engine), table.engine),
        keys_certain=table.keys_certain,
    )


def _naming(action: AlterAction, default: Charset) -> AlterAction:
    if not isinstance(action, ConvertCharset) or action.charset:
        return action
    return ConvertCharset(default.name, action.collation or default.collation)


def _passed_over(actions: Iterable[AlterAction], server: ServerDefaults) -> bool:
    """Whether the server ignores a CONVERT TO that changes no column, with the table's default charset."""
    if server.mariadb or server.version >= (5, 7, 0):
        return False
    return all(
        isinstance(action, ConvertCharset)
        or (isinstance(action, NoStructure) and action.modifier and action.what != "copy")
        for action in actions
    )


def _effective(table: TableInfo, actions: Sequence[AlterAction]) -> list[AlterAction]:
    """The actions except those without effect, each column added once."""
    result: list[AlterAction] = []
    for action in actions:
        if _void(table, action):
            continue
        earlier = _added_before(table, action, result) if isinstance(action, AddColumn | ChangeColumn) else None
        if earlier is None:
            result.append(action)
        elif isinstance(action, ChangeColumn):
            # MariaDB accepts MODIFY and CHANGE of a column that the same statement adds.
            result.remove(earlier)
            result.append(AddColumn(action.column, action.position))
        elif isinstance(action, AddColumn) and not action.if_not_exists:
            result.append(action)
    return result


def _added_before(table: TableInfo, action: AddColumn | ChangeColumn, earlier: list[AlterAction]) -> AddColumn | None:
    """The part before ``action`` that adds the column of ``action``."""
    name = action.column.name.lower()
    # MariaDB looks for the new name when the table has no column with the old name.
    if isinstance(action, ChangeColumn) and table.column(action.old_name):
        return None
    return next((a for a in earlier if isinstance(a, AddColumn) and a.column.name.lower() == name), None)


def _void(table: TableInfo, action: AlterAction) -> bool:
    """Whether the action has no effect because of IF EXISTS or IF NOT EXISTS, or because its object is already gone."""
    if isinstance(action, AddColumn):
        return action.if_not_exists and table.column(action.column.name) is not None
    if isinstance(action, ChangeColumn | RenameColumn):
        return action.if_exists and table.column(action.old_name) is None
    if isinstance(action, AlterColumn):
        return action.if_exists and table.column(action.name) is None
    if isinstance(action, DropColumn):
        return table.column(action.name) is None
    if isinstance(action, DropIndex):
        return find_index(table.indexes, action.name) is None
    if isinstance(action, RenameIndex):
        return action.if_exists and find_index(table.indexes, action.old_name) is None
    if isinstance(action, DropConstraint):
        index = find_index(table.indexes, action.name)
        return index is None or not index.unique
    return False


def _charsets(
    table: TableInfo, actions: Sequence[AlterAction], schema_charset: Charset, server: ServerDefaults
) -> tuple[Charset, Charset | None]:
    """The table's default charset afterwards, and the charset to which CONVERT TO converts its columns.

    In MySQL the last option determines the default; in MariaDB an option overrides CONVERT TO at any position.
    """
    converted: Charset | None = None
    options = TableOptions()
    for action in actions:
        if isinstance(action, ConvertCharset):
            given = TableOptions(action.charset or "default", action.collation)
            converted = table_charset(given, schema_charset, server)
            options = options if server.mariadb else given
        elif isinstance(action, SetOptions):
            options = _merged(options, action.options, server)
    current = server.resolve(table.charset, table.collation, schema_charset)
    if options == TableOptions():
        return converted or current, converted
    inherited = schema_charset if options.charset.lower() == "default" else current
    return table_charset(options, inherited, server), converted


def _merged(before: TableOptions, option: TableOptions, server: ServerDefaults) -> TableOptions:
    """``CHARACTER SET x COLLATE y`` are two options; in MySQL the charset cancels a collation before it."""
    if option.charset and not server.mariadb:
        return TableOptions(option.charset, option.collation)
    return TableOptions(option.charset or before.charset, option.collation or before.collation)


@dataclass(slots=True)
class _Placed:
    """A new or changed column that is not yet at its position."""

    column: Column
    position: ColumnPlacement | None


def _columns(
    table: TableInfo, actions: Sequence[AlterAction], charset: Charset, server: ServerDefaults
) -> tuple[list[Column], dict[str, str]]:
    """The columns afterwards, and the new names of the old ones ('' for dropped ones), by old name in lower case."""
    changes = {a.old_name.lower(): a for a in actions if isinstance(a, ChangeColumn | RenameColumn)}
    drops = {action.name.lower() for action in actions if isinstance(action, DropColumn)}
    added = {action.column.name.lower() for action in actions if isinstance(action, AddColumn)}
    _require(table, [*changes, *drops])
    result: list[Column] = []
    names: dict[str, str] = {}
    placed: list[_Placed] = []
    for column in table.columns:
        key = column.name.lower()
        change = changes.get(key)
        if key in drops:
            # The server finds a key's columns by name: a column added in the same statement joins the key.
            names[key] = column.name if key in added else ""
            continue
        if isinstance(change, RenameColumn):
            column = replace(column, name=change.new_name)
        elif change is not None:
            column = resolve_column(change.column, charset, server)
            if change.position is not None:
                placed.append(_Placed(column, change.position))
        names[key] = column.name
        result.append(column)
    placed = _in_statement_order(placed, actions, charset, server)
    for item in placed:
        # A column that moves keeps its old position until its turn: others may be put after it before that.
        result = [column for column in result if column is not item.column]
        _place(result, item)
    _unambiguous(result)
    return result, names


def _in_statement_order(
    changed: list[_Placed], actions: Sequence[AlterAction], charset: Charset, server: ServerDefaults
) -> list[_Placed]:
    """Moved and added columns in the order of the statement."""
    moved = {item.column.name.lower(): item for item in changed}
    result: list[_Placed] = []
    for action in actions:
        if isinstance(action, AddColumn):
            result.append(_Placed(resolve_column(action.column, charset, server), action.position))
        elif isinstance(action, ChangeColumn) and action.position is not None:
            result.append(moved[action.column.name.lower()])
    return result


def _redefaulted(columns: Sequence[Column], names: dict[str, str], actions: Sequence[AlterAction]) -> list[Column]:
    """The columns after the ALTER COLUMN parts, which may refer to a column that the same statement adds."""
    by_name = {column.name.lower(): column for column in columns}
    for action in actions:
        if isinstance(action, AlterColumn):
            key = names.get(action.name.lower(), action.name).lower()
            column = by_name.get(key)
            if column is None:
                raise ValueError(f"the column {action.name!r} does not exist")
            if action.sets_default:
                column = replace(column, default=action.default)
            if action.invisible is not None:
                column = replace(column, invisible=action.invisible)
            by_name[key] = column
    return list(by_name.values())


def _place(columns: list[Column], item: _Placed) -> None:
    if item.position is None:
        columns.append(item.column)
    elif not item.position.after:
        columns.insert(0, item.column)
    else:
        after = item.position.after.lower()
        at = next((i for i, column in enumerate(columns) if column.name.lower() == after), -1)
        if at < 0:
            raise ValueError(f"the column {item.position.after!r} does not exist")
        columns.insert(at + 1, item.column)


def _require(table: TableInfo, names: Iterable[str]) -> None:
    for name in names:
        if table.column(name) is None:
            raise ValueError(f"the column {name!r} does not exist")


def _unambiguous(columns: Sequence[Column]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ValueError(f"the column {column.name!r} exists already")
        seen.add(column.name.lower())


def _indexes(
    table: TableInfo, actions: Sequence[AlterAction], columns: Sequence[Column], names: dict[str, str]
) -> list[Index]:
    indexes = _kept_indexes(table, actions)
    indexes = [index for index in (_followed(index, columns, names) for index in indexes) if index.parts]
    definitions = [action.index for action in actions if isinstance(action, AddIndex)]
    for definition in sorted(definitions, key=lambda d: d.kind == "foreign"):
        add_index(indexes, definition, columns, certain=table.keys_certain)
    return indexes


def _kept_indexes(table: TableInfo, actions: Sequence[AlterAction]) -> list[Index]:
    """The old indexes after the DROP INDEX and RENAME INDEX parts."""
    indexes = list(table.indexes)
    for action in actions:
        if isinstance(action, DropIndex | DropConstraint):
            indexes = [index for index in indexes if index.name.upper() != action.name.upper()]
        elif isinstance(action, RenameIndex):
            index = find_index(indexes, action.old_name)
            if index is None and table.keys_certain:
                raise ValueError(f"the key {action.old_name!r} does not exist")
            if index is None:
                continue
            indexes[indexes.index(index)] = replace(index, name=action.new_name)
    return indexes


def _followed(index: Index, columns: Sequence[Column], names: dict[str, str]) -> Index:
    """An index after its columns were renamed, changed or dropped."""
    by_name = {column.name.lower(): column for column in columns}
    parts: list[IndexPart] = []
    for part in index.parts:
        name = names.get(part.column.lower(), part.column)
        if name:
            parts.append(normalised(IndexPart(name, part.length), by_name[name.lower()]))
        elif not part.column:
            parts.append(part)
    return replace(index, parts=tuple(parts))
