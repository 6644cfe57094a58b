"""An ALTER TABLE for a target that executes its parts one at a time: in an order with the same result. Pure.

The server executes all parts at once: drops, changes and renames refer to the table before the statement, and new
indexes may use the columns of every other part. So the parts can't run one by one in the order of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pkg.ddl.parser import parse_dialect
from pkg.ddl.rewrite import edited, split_alter
from pkg.ddl.statement import (
    AddColumn,
    AddIndex,
    AddPeriod,
    AlterAction,
    AlterColumn,
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
from pkg.ddl.token_cursor import TokenCursor
from pkg.mysql.names import quote

#: Prefix of a column's or index's temporary name while two names are swapped.
_ASIDE = "dm_aside_"
_NAME_LENGTH = 64
_DROPS_CONSTRAINTS = ("drop check", "drop period")
_MOVES_ROWS = ("partition", "partitioning")


@dataclass(frozen=True, slots=True)
class _AlterPart:
    """A part as a separate statement; ``action`` is its first action, ``at`` its offset in the text."""

    statement: DDLStatement
    action: AlterAction
    at: int

    @classmethod
    def of(cls, statement: DDLStatement, at: int) -> _AlterPart:
        return cls(statement, statement.actions[0], at)

    def spelt(self, spec: str) -> _AlterPart:
        """The statement with another text for its part."""
        one = self.statement.specs[0]
        sql = edited(self.statement.sql, [(one.start, one.end, spec)])
        return _AlterPart.of(parse_dialect(sql, self.statement.dialect, self.statement.default_schema), self.at)

    @property
    def spec(self) -> str:
        one = self.statement.specs[0]
        return self.statement.sql[one.start : one.end]


def serial_parts(statement: DDLStatement) -> list[DDLStatement]:
    """The parts of an ALTER TABLE, each as a separate statement with the original's ALGORITHM and LOCK.

    Drops come first: constraints, indexes, columns. Then columns get their new names and types, new columns are added
    in the order of the text, then indexes on them. The rename of the table is last. Where names change in a cycle, one
    of them gets a temporary name. There may be more parts than in the text: a column with a new name and a new position
    gets one after the other.
    """
    steps = [_AlterPart.of(part, at) for at, part in enumerate(split_alter(statement)) if part.actions]
    if not steps:
        return [statement]
    names = _AlteredNames.of(steps)
    phases: list[list[_AlterPart]] = [[] for _ in range(_LAST + 1)]
    for step in steps:
        for part in _taken_apart(step, names):
            phases[_phase(part, names)].append(part)
    phases[_COLUMN_NAMES] = list(_one_after_the_other(phases[_COLUMN_NAMES], _column_names))
    phases[_INDEX_NAMES] = list(_one_after_the_other(phases[_INDEX_NAMES], _index_names))
    return [step.statement for phase in phases for step in phase]


# The phases, in their order.
(
    _CHARSET,
    _CONSTRAINTS_GO,
    _INDEXES_INSTEAD,
    _INDEXES_GO,
    _INDEX_NAMES,
    _COLUMNS_GO,
    _COLUMN_NAMES,
    _COLUMNS,
    _DEFAULTS,
    _CONVERSION,
    _INDEXES,
    _FOREIGN_KEYS,
    _OPTIONS,
    _PARTITIONS,
    _TABLE_NAME,
) = range(15)
_LAST = _TABLE_NAME


@dataclass(frozen=True, slots=True)
class _AlteredNames:
    """A statement's use of names, all in lower case. ``columns``: new by old; ``late_charset``: the index of the last
    CONVERT TO, -1 without one."""

    added: frozenset[str]
    dropped: frozenset[str]
    columns: dict[str, str]
    indexes: frozenset[str]
    drops_primary: bool
    conversion: int

    @classmethod
    def of(cls, steps: Sequence[_AlterPart]) -> _AlteredNames:
        actions = [action for step in steps for action in step.statement.actions]
        changes = (a for a in actions if isinstance(a, ChangeColumn | RenameColumn))
        indexes = {a.name.lower() for a in actions if isinstance(a, DropIndex | DropConstraint)}
        for action in actions:
            if isinstance(action, RenameIndex):
                indexes |= {action.old_name.lower(), action.new_name.lower()}
        return cls(
            frozenset(a.column.name.lower() for a in actions if isinstance(a, AddColumn)),
            frozenset(a.name.lower() for a in actions if isinstance(a, DropColumn)),
            {old.lower(): new for old, new in map(_column_names, changes)},
            frozenset(indexes),
            any(isinstance(a, DropIndex) for a in actions),
            max((step.at for step in steps if isinstance(step.action, ConvertCharset)), default=-1),
        )

    def adds(self, name: str) -> bool:
        """Whether the statement itself adds a column that it changes."""
        return name.lower() in self.added - self.dropped

    @property
    def touched(self) -> frozenset[str]:
        """The columns that must be changed or added before an index can use them."""
        return self.added | {old.lower() for old in self.columns} | {new.lower() for new in self.columns.values()}


def _taken_apart(step: _AlterPart, names: _AlteredNames) -> Iterator[_AlterPart]:
    """The part, or its statements in several phases."""
    action = step.action
    if isinstance(action, AddColumn | ChangeColumn) and action.column.unique and not action.column.auto_increment:
        without, key = _with_key_apart(step, action.column.name)
        yield from _taken_apart(without, names)
        yield key
    elif isinstance(action, ChangeColumn) and action.position is not None and not names.adds(action.column.name):
        if action.old_name.lower() != action.column.name.lower():
            yield step.spelt(f"RENAME COLUMN {quote(action.old_name)} TO {quote(action.column.name)}")
        yield step.spelt(f"MODIFY COLUMN {quote(action.column.name)} {_definition(step)}")
    elif isinstance(action, AlterColumn) and names.columns.get(action.name.lower(), action.name) != action.name:
        yield step.spelt(_on_column(step, names.columns[action.name.lower()]))
    else:
        yield step


def _with_key_apart(step: _AlterPart, column: str) -> tuple[_AlterPart, _AlterPart]:
    """A new or changed column with UNIQUE among its attributes: first the column, then the index."""
    spec = step.statement.specs[0]
    keys = [mark for mark in step.statement.marks if mark.what == "attribute key"]
    edits = [(mark.start - spec.start, mark.end - spec.start, "") for mark in keys]
    return step.spelt(edited(step.spec, edits)), step.spelt(f"ADD UNIQUE ({quote(column)})")


def _phase(step: _AlterPart, names: _AlteredNames) -> int:
    action = step.action
    if isinstance(action, ChangeColumn):
        # A column that keeps its position and name may be moved to a new column.
        return _COLUMNS if action.position is not None or names.adds(action.column.name) else _COLUMN_NAMES
    if isinstance(action, AddIndex):
        return _of_index(action, names)
    if isinstance(action, SetOptions):
        return _of_options(step, names)
    if isinstance(action, NoStructure):
        return _of_the_rest(action)
    return next(phase for kind, phase in _PHASES if isinstance(action, kind))


_PHASES: tuple[tuple[type, int], ...] = (
    (DropForeignKey, _CONSTRAINTS_GO),
    (DropConstraint, _CONSTRAINTS_GO),
    (DropIndex, _INDEXES_GO),
    (RenameIndex, _INDEX_NAMES),
    (DropColumn, _COLUMNS_GO),
    (RenameColumn, _COLUMN_NAMES),
    (AddColumn, _COLUMNS),
    (AlterColumn, _DEFAULTS),
    (ConvertCharset, _CONVERSION),
    (AddPeriod, _INDEXES),
    (RenameTable, _TABLE_NAME),
)


def _of_index(action: AddIndex, names: _AlteredNames) -> int:
    index = action.index
    if index.kind == "foreign":
        return _FOREIGN_KEYS
    columns = {part.column.lower() for part in index.parts}
    ready = columns and "" not in columns and not columns & (names.touched | names.dropped) and names.conversion < 0
    # It may have to replace a dropped one: for a foreign key, or for an AUTO_INCREMENT.
    instead = names.drops_primary and index.kind in ("index", "unique") and index.name.lower() not in names.indexes
    return _INDEXES_INSTEAD if ready and instead and index.name else _INDEXES


def _of_options(step: _AlterPart, names: _AlteredNames) -> int:
    options = [action.options for action in step.statement.actions if isinstance(action, SetOptions)]
    if not any(option.charset or option.collation for option in options):
        return _OPTIONS
    # The default of new columns, unless all columns are converted; in MariaDB it overrides a conversion.
    if names.conversion < 0 or (step.statement.dialect.flavor == "mysql" and step.at < names.conversion):
        return _CHARSET
    return _OPTIONS


def _of_the_rest(action: NoStructure) -> int:
    if action.what in _DROPS_CONSTRAINTS:
        return _CONSTRAINTS_GO
    return _PARTITIONS if action.what.endswith(_MOVES_ROWS) else _OPTIONS


# -- swapped names -----------------------------------------------------------------------------------


def _column_names(action: AlterAction) -> tuple[str, str]:
    assert isinstance(action, ChangeColumn | RenameColumn)
    return action.old_name, action.column.name if isinstance(action, ChangeColumn) else action.new_name


def _index_names(action: AlterAction) -> tuple[str, str]:
    assert isinstance(action, RenameIndex)
    return action.old_name, action.new_name


def _one_after_the_other(
    steps: Iterable[_AlterPart], names: Callable[[AlterAction], tuple[str, str]]
) -> Iterator[_AlterPart]:
    """The steps in an order in which each name is free when it is used; in a cycle, the first gets a temporary name."""
    waiting = list(steps)
    while waiting:
        taken = {names(step.action)[0].lower() for step in waiting}
        for step in waiting:
            old, new = (name.lower() for name in names(step.action))
            if old == new or new not in taken:
                break
        else:
            first = waiting[0]
            old, _ = names(first.action)
            aside = f"{_ASIDE}{old}"[:_NAME_LENGTH]
            yield first.spelt(f"{_renaming(first)} {quote(old)} TO {quote(aside)}")
            waiting[0] = first.spelt(_from(first, aside))
            continue
        waiting.remove(step)
        yield step


def _renaming(step: _AlterPart) -> str:
    return "RENAME INDEX" if isinstance(step.action, RenameIndex) else "RENAME COLUMN"


def _from(step: _AlterPart, name: str) -> str:
    """The rename of an object that has the temporary name ``name``."""
    action = step.action
    if isinstance(action, ChangeColumn):
        return f"CHANGE COLUMN {quote(name)} {quote(action.column.name)} {_definition(step)}"
    assert isinstance(action, RenameColumn | RenameIndex)
    return f"{_renaming(step)} {quote(name)} TO {quote(action.new_name)}"


# -- the text of parts ------------------------------------------------------------------------------------------


def _definition(step: _AlterPart) -> str:
    """The text after the column's name in MODIFY or CHANGE."""
    cursor = TokenCursor(step.spec, step.statement.dialect, "")
    renames = not cursor.accept("MODIFY")
    if renames:
        cursor.expect("CHANGE")
    cursor.optional("COLUMN")
    cursor.if_exists()
    cursor.column()
    if renames:
        cursor.column()
    return step.spec[cursor.token.start :]


def _on_column(step: _AlterPart, name: str) -> str:
    """ALTER COLUMN of a column that has been renamed before."""
    cursor = TokenCursor(step.spec, step.statement.dialect, "")
    cursor.expect("ALTER")
    cursor.optional("COLUMN")
    cursor.if_exists()
    cursor.name()
    return f"ALTER COLUMN {quote(name)}{step.spec[cursor.last_end :]}"
