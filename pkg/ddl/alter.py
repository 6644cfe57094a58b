"""ALTER TABLE: its comma-separated specifications."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pkg.ddl.columns import accept_charset, column_after_name, column_definition, default_value
from pkg.ddl.failure import unsupported
from pkg.ddl.statement import (
    AddColumn,
    AddIndex,
    AlterAction,
    AlterColumn,
    AlterSpec,
    ChangeColumn,
    ColumnDef,
    ColumnPlacement,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropIndex,
    IndexDef,
    NoStructure,
    RenameColumn,
    RenameIndex,
    RenameTable,
    SetOptions,
    TableOptions,
)
from pkg.ddl.table import accept_visibility, inline_indexes, table_element, table_option
from pkg.ddl.token_cursor import TokenCursor

_PARTITION_WORK = ("COALESCE", "REORGANIZE", "TRUNCATE", "ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR")


def specifications(cursor: TokenCursor, schema: str) -> tuple[AlterSpec, ...]:
    """All specifications of ``ALTER TABLE t …``; ``schema`` is the table's."""
    specs: list[AlterSpec] = []
    while not cursor.at_end and not cursor.at_op(";"):
        start = cursor.token.start
        spec = replace(_specification(cursor, schema), start=start)
        specs.append(spec)
        # Table options may follow each other without a comma; PARTITION BY may follow anything.
        if cursor.accept_op(","):
            if cursor.at_end:
                raise cursor.error("expected another part of ALTER TABLE")
        elif not isinstance(spec.actions[-1], SetOptions) and not _partition_next(cursor):
            break
    return tuple(specs)


def keeps_rows(action: AlterAction) -> bool:
    """Whether this part of ALTER IGNORE TABLE can neither remove an existing row nor change an existing value."""
    if isinstance(action, AddColumn):
        return not (action.column.unique or action.column.primary)
    if isinstance(action, AddIndex):
        return action.index.kind in ("index", "fulltext", "spatial")
    if isinstance(action, NoStructure):
        return action.modifier
    return isinstance(action, AlterColumn | RenameColumn | RenameTable | DropForeignKey | DropIndex | RenameIndex)


def _partition_next(cursor: TokenCursor) -> bool:
    return cursor.at_words("PARTITION", "BY") or cursor.at_words("REMOVE", "PARTITIONING")


def _specification(cursor: TokenCursor, schema: str) -> AlterSpec:
    """The next specification; the caller sets the start."""
    if cursor.accept("ADD"):
        added = _add(cursor, schema)
        if isinstance(added, AlterSpec):
            return added
        actions = added
    else:
        actions = _actions(cursor, schema)
    return AlterSpec(cursor.last_end, cursor.last_end, tuple(actions))


def _actions(cursor: TokenCursor, schema: str) -> list[AlterAction]:
    if cursor.accept("MODIFY"):
        return _change(cursor, schema, renames=False)
    if cursor.accept("CHANGE"):
        return _change(cursor, schema, renames=True)
    for read in (_drop, _rename, _alter, _convert, _partition, _no_structure):
        action = read(cursor)
        if action is not None:
            return [action]
    options = list(_options(cursor))
    if not options:
        raise cursor.error("an unknown part of ALTER TABLE")
    return options


def _options(cursor: TokenCursor) -> Iterator[AlterAction]:
    """Table options up to a comma, one action each."""
    while True:
        word = cursor.token.word
        options = table_option(cursor, TableOptions())
        if options is None:
            return
        yield SetOptions(options, word)


def _add(cursor: TokenCursor, schema: str) -> list[AlterAction] | AlterSpec:
    if cursor.accept("PARTITION"):
        cursor.rest()
        return [NoStructure("add table partition")]
    if cursor.at_words("SYSTEM", "VERSIONING"):
        raise cursor.error("system-versioned tables are not supported")
    if not cursor.at_any("COLUMN"):
        element = table_element(cursor, schema)
        if element is not None:
            return [AddIndex(element) if isinstance(element, IndexDef) else element]
    cursor.optional("COLUMN")
    if_not_exists = cursor.if_not_exists()
    if cursor.at_op("("):
        return _add_list(cursor, schema, if_not_exists)
    column = column_definition(cursor, schema)
    return _added(cursor, column, _position(cursor), if_not_exists)


def _add_list(cursor: TokenCursor, schema: str, if_not_exists: bool) -> AlterSpec:
    """``( element, … )`` after ADD; the caller sets the start."""
    cursor.expect_op("(")
    actions: list[AlterAction] = []
    elements: list[tuple[str, int, int]] = []
    column_head = "ADD COLUMN IF NOT EXISTS" if if_not_exists else "ADD COLUMN"
    while True:
        start = cursor.token.start
        element = table_element(cursor, schema)
        if element is None:
            actions.extend(_added(cursor, column_definition(cursor, schema), None, if_not_exists))
        else:
            actions.append(AddIndex(element) if isinstance(element, IndexDef) else element)
        elements.append((column_head if element is None else "ADD", start, cursor.last_end))
        if cursor.accept_op(")"):
            return AlterSpec(start, cursor.last_end, tuple(actions), tuple(elements))
        cursor.expect_op(",")


def _added(
    cursor: TokenCursor, column: ColumnDef, position: ColumnPlacement | None, if_not_exists: bool
) -> list[AlterAction]:
    # MariaDB adds the keys even of a column that IF NOT EXISTS skips.
    return [
        AddColumn(column, position, if_not_exists),
        *(AddIndex(index) for index in inline_indexes(column, cursor.dialect)),
    ]


def _position(cursor: TokenCursor) -> ColumnPlacement | None:
    if cursor.accept("FIRST"):
        return ColumnPlacement()
    if cursor.accept("AFTER"):
        return ColumnPlacement(cursor.name())
    return None


def _change(cursor: TokenCursor, schema: str, *, renames: bool) -> list[AlterAction]:
    cursor.optional("COLUMN")
    if_exists = cursor.if_exists()
    old_name = cursor.column()
    column = column_after_name(cursor, cursor.column() if renames else old_name, schema)
    action = ChangeColumn(old_name, column, _position(cursor), if_exists)
    return [action, *(AddIndex(index) for index in inline_indexes(column, cursor.dialect))]


def _drop(cursor: TokenCursor) -> AlterAction | None:
    if not cursor.accept("DROP"):
        return None
    if cursor.at_words("CONSTRAINT", "PRIMARY", "KEY"):
        cursor.accept_marked("storage", "CONSTRAINT")
    if cursor.accept("PRIMARY", "KEY"):
        return DropIndex("PRIMARY")
    if cursor.accept_any("INDEX", "KEY"):
        if_exists = cursor.if_exists()
        return DropIndex(cursor.name(), if_exists)
    if cursor.accept("FOREIGN", "KEY"):
        if_exists = cursor.if_exists(rare=True)
        return DropForeignKey(cursor.name(), if_exists)
    if cursor.accept_marked("any constraint", "CONSTRAINT"):
        if_exists = cursor.if_exists(rare=True)
        return DropConstraint(cursor.name(), if_exists)
    if cursor.accept_marked("drop check", "CHECK"):
        cursor.name()
        return NoStructure("drop check")
    if cursor.accept("PARTITION"):
        cursor.rest()
        return NoStructure("drop table partition")
    if cursor.at_words("SYSTEM", "VERSIONING"):
        raise cursor.error("system-versioned tables are not supported")
    if cursor.accept("PERIOD", "FOR") or cursor.accept("PERIOD", "IF", "EXISTS", "FOR"):
        cursor.name()
        return NoStructure("drop period")
    cursor.optional("COLUMN")
    if_exists = cursor.if_exists()
    action = DropColumn(cursor.column(), if_exists)
    cursor.accept_any("RESTRICT", "CASCADE")
    return action


def _rename(cursor: TokenCursor) -> AlterAction | None:
    if not cursor.accept("RENAME"):
        return None
    if cursor.accept("COLUMN"):
        if_exists = cursor.if_exists(rare=True)
        old_name = cursor.name()
        cursor.expect("TO")
        return RenameColumn(old_name, cursor.name(), if_exists)
    if cursor.accept_any("INDEX", "KEY"):
        if_exists = cursor.if_exists(rare=True)
        old_name = cursor.name()
        cursor.expect("TO")
        return RenameIndex(old_name, cursor.name(), if_exists)
    _ = cursor.accept_any("TO", "AS") or cursor.accept_op("=")
    return RenameTable(cursor.table("target"))


def _alter(cursor: TokenCursor) -> AlterAction | None:
    if not cursor.accept("ALTER"):
        return None
    if cursor.accept_any("INDEX", "KEY"):
        cursor.if_exists(rare=True)
        cursor.name()
        if not accept_visibility(cursor):
            raise cursor.error("expected VISIBLE, INVISIBLE, IGNORED or NOT IGNORED")
        return NoStructure("alter index visibility")
    if cursor.accept_any("CHECK", "CONSTRAINT"):
        cursor.name()
        cursor.accept("NOT")
        cursor.expect("ENFORCED")
        return NoStructure("alter constraint")
    return _alter_column(cursor)


def _alter_column(cursor: TokenCursor) -> AlterAction:
    cursor.optional("COLUMN")
    if_exists = cursor.if_exists(rare=True)
    name = cursor.name()
    if cursor.accept("DROP", "DEFAULT"):
        return AlterColumn(name, sets_default=True, if_exists=if_exists)
    cursor.expect("SET")
    if cursor.accept("DEFAULT"):
        return AlterColumn(name, sets_default=True, default=default_value(cursor), if_exists=if_exists)
    word = cursor.accept_any("VISIBLE", "INVISIBLE")
    if not word:
        raise cursor.error("expected DEFAULT, VISIBLE or INVISIBLE")
    return AlterColumn(name, invisible=word == "INVISIBLE", if_exists=if_exists)


def _convert(cursor: TokenCursor) -> AlterAction | None:
    if not cursor.accept("CONVERT"):
        return None
    if cursor.at_any("PARTITION", "TABLE"):
        raise unsupported(cursor.sql, "CONVERT PARTITION and CONVERT TABLE move rows between tables")
    cursor.expect("TO")
    charset = accept_charset(cursor)
    if not charset:
        raise cursor.error("expected CHARACTER SET")
    end = cursor.last_end
    named = cursor.name_or_string() if cursor.accept("COLLATE") else ""
    collation = named or cursor.dialect.session.collation_of(charset)
    return ConvertCharset("" if charset.upper() == "DEFAULT" else charset, collation, -1 if named else end)


def _partition(cursor: TokenCursor) -> AlterAction | None:
    if cursor.accept("REMOVE", "PARTITIONING"):
        return NoStructure("remove table partitioning")
    if cursor.at_words("PARTITION", "BY"):
        cursor.rest()
        return NoStructure("alter table partitioning")
    if cursor.accept("EXCHANGE", "PARTITION"):
        cursor.name()
        cursor.expect("WITH", "TABLE")
        cursor.table("target")
        _ = cursor.accept_marked("validation", "WITH", "VALIDATION") or cursor.accept_marked(
            "validation", "WITHOUT", "VALIDATION"
        )
        return NoStructure("exchange table partition")
    work = cursor.token.word
    if work in _PARTITION_WORK and cursor.ahead(1).word == "PARTITION":
        cursor.rest()
        return NoStructure(f"{work.lower()} table partition")
    if cursor.at_any("DISCARD", "IMPORT"):
        raise unsupported(cursor.sql, "DISCARD and IMPORT exchange a table's files, which the binlog does not carry")
    return None


def _no_structure(cursor: TokenCursor) -> AlterAction | None:
    if cursor.accept("FORCE"):
        return NoStructure("force")
    if cursor.accept_any("ENABLE", "DISABLE"):
        cursor.expect("KEYS")
        return NoStructure("keys")
    if cursor.accept_any("ALGORITHM", "LOCK"):
        cursor.accept_op("=")
        return NoStructure("copy" if cursor.setting().upper() == "COPY" else "algorithm and lock", modifier=True)
    if cursor.accept("WITH", "VALIDATION") or cursor.accept("WITHOUT", "VALIDATION"):
        return NoStructure("validation", modifier=True)
    if cursor.accept("ORDER", "BY"):
        _order(cursor)
        return NoStructure("order")
    if cursor.accept_any("SECONDARY_LOAD", "SECONDARY_UNLOAD"):
        return NoStructure("secondary engine")
    return None


def _order(cursor: TokenCursor) -> None:
    """``ORDER BY a [ASC|DESC], b``: after a comma columns continue unless another specification starts."""
    while True:
        cursor.column()
        cursor.accept_any("ASC", "DESC")
        if not cursor.at_op(",") or not _is_order(cursor):
            return
        cursor.advance()


def _is_order(cursor: TokenCursor) -> bool:
    """Whether only a column follows the comma."""
    at = 2
    while cursor.ahead(at).text == ".":
        at += 2
    after = cursor.ahead(at)
    return after.kind == "end" or after.text in (",", ";") or after.word in ("ASC", "DESC")
