"""The result of parsing a statement: its kind, its names with their offsets, and its meaning. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pkg.ddl.tokens import DEFAULT_DIALECT, Dialect

DDLKind = Literal[
    "create database",
    "alter database",
    "drop database",
    "create table",
    "alter table",
    "drop table",
    "truncate table",
    "rename table",
    "create index",
    "drop index",
    "skip",
]

#: A statement's effect on temporary tables: its session has the named ones from then on, or no longer.
TemporaryEffect = Literal["", "made", "dropped"]


@dataclass(frozen=True, slots=True)
class TableRef:
    """A schema or table that the statement names.

    ``table`` is '' for a schema. ``start``/``end`` are the offsets of the whole name, with its schema if it has one;
    equal when the text omits the name (``ALTER DATABASE CHARACTER SET …``). ``role``: *subject* is the object of the
    statement, *target* a table's new name or swap partner, *reference* an object that it only mentions (foreign keys,
    LIKE).
    """

    schema: str
    table: str
    start: int
    end: int
    role: Literal["subject", "target", "reference"] = "subject"


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A data type as written: canonical upper-case ``name``, raw ``args`` (members of ENUM and SET unquoted).

    ``bare_charset`` is the offset after a charset without a collation, -1 when there is none; offsets do not count in
    comparisons.
    """

    name: str
    args: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False
    binary: bool = False
    charset: str = ""
    collation: str = ""
    compressed: bool = False
    bare_charset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column as written. ``nullable`` is None without NULL and NOT NULL.

    ``on_update``: ON UPDATE CURRENT_TIMESTAMP is present. ``end`` is the offset after the column's attributes.
    """

    name: str
    type: TypeSpec
    nullable: bool | None = None
    default: str | None = None
    auto_increment: bool = False
    generated: str = ""
    primary: bool = False
    unique: bool = False
    invisible: bool = False
    reference: TableRef | None = None
    on_update: bool = False
    end: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One part of an index; ``column`` is '' for an expression."""

    column: str
    length: int = 0


@dataclass(frozen=True, slots=True)
class IndexDef:
    """An index or constraint as written; ``name`` is '' when the server generates one.

    ``hashed``: with USING HASH. ``name_at``: the offset to insert a name, -1 where none is missing.
    """

    kind: Literal["primary", "unique", "index", "fulltext", "spatial", "foreign", "check"]
    name: str
    parts: tuple[KeyPart, ...] = ()
    reference: TableRef | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    hashed: bool = False
    name_at: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options that change a structure; '' where not given. ``bare_charset`` is as in :class:`TypeSpec`."""

    charset: str = ""
    collation: str = ""
    engine: str = ""
    bare_charset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnPlacement:
    """A column's new position: ``after`` a column, or first when ``after`` is ''."""

    after: str = ""


@dataclass(frozen=True, slots=True)
class AddColumn:
    column: ColumnDef
    position: ColumnPlacement | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """MODIFY (``old_name`` is the column's name) and CHANGE."""

    old_name: str
    column: ColumnDef
    position: ColumnPlacement | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    old_name: str
    new_name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """SET DEFAULT, DROP DEFAULT (``default`` None, ``sets_default``), SET VISIBLE or INVISIBLE."""

    name: str
    sets_default: bool = False
    default: str | None = None
    invisible: bool | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddIndex:
    index: IndexDef


@dataclass(frozen=True, slots=True)
class DropIndex:
    """``name`` is PRIMARY for the primary key."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameIndex:
    old_name: str
    new_name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropForeignKey:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """In MySQL and MariaDB it names any kind of constraint: a key, a foreign key or a check."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ConvertCharset:
    """CONVERT TO CHARACTER SET; ``charset`` '' means DEFAULT. ``bare_charset`` is as in :class:`TypeSpec`."""

    charset: str
    collation: str = ""
    bare_charset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SetOptions:
    """One table option; ``word`` is its first keyword, for those that change nothing in ``options``."""

    options: TableOptions
    word: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class AddPeriod:
    """PERIOD FOR a name (``start``, ``end``): the two columns become NOT NULL."""

    start: str
    end: str


@dataclass(frozen=True, slots=True)
class RenameTable:
    target: TableRef


@dataclass(frozen=True, slots=True)
class NoStructure:
    """A part of ALTER TABLE that changes neither columns nor keys: partitions, ENABLE KEYS, ALGORITHM, FORCE …

    ``modifier`` marks those that control the execution (ALGORITHM, LOCK), not the result.
    """

    what: str
    modifier: bool = False


AlterAction = (
    AddColumn
    | ChangeColumn
    | RenameColumn
    | DropColumn
    | AlterColumn
    | AddIndex
    | AddPeriod
    | DropIndex
    | RenameIndex
    | DropForeignKey
    | DropConstraint
    | ConvertCharset
    | SetOptions
    | RenameTable
    | NoStructure
)


@dataclass(frozen=True, slots=True)
class AlterSpec:
    """One comma-separated part of ALTER TABLE with its offsets. Table options without commas are one part.

    ``ADD (a, b)`` gives several actions, and its ``elements``: for each, the text before it when it is a separate part,
    and its offsets.
    """

    start: int
    end: int
    actions: tuple[AlterAction, ...]
    elements: tuple[tuple[str, int, int], ...] = ()

    @property
    def modifier(self) -> bool:
        return all(isinstance(action, NoStructure) and action.modifier for action in self.actions)


@dataclass(frozen=True, slots=True)
class TableBody:
    """The new table in CREATE TABLE; ``like`` for CREATE TABLE … LIKE.

    ``options_at`` is the offset where table options may begin, -1 for LIKE.
    """

    columns: tuple[ColumnDef, ...] = ()
    indexes: tuple[IndexDef, ...] = ()
    options: TableOptions = TableOptions()
    like: TableRef | None = None
    options_at: int = -1
    periods: tuple[AddPeriod, ...] = ()


Wording = Literal[
    "or replace",
    "online",
    "wait",
    "if exists",
    "storage",
    "schema option",
    "visibility",
    "generated kind",
    "index visibility",
    "any constraint",
    "attribute key",
    "plural",
    "comma",
    "part guard",
    "generated nullability",
    "bare default",
    "current time",
    "type name",
    "column format",
    "not enforced",
    "enforced",
    "drop check",
    "column check",
    "table check",
    "column reference",
    "validation",
]


@dataclass(frozen=True, slots=True)
class Mark:
    """Keywords of the text that only some families of servers know. ``word``: the first of them, in upper case."""

    what: Wording
    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DDLStatement:
    """A parsed statement.

    ``refs`` are in the order of the text (RENAME TABLE: subject, target, subject, target …). ``guard`` is the offset
    where IF EXISTS or IF NOT EXISTS is missing, -1 when it is present or not possible. ``items`` are the spans that can
    be separate statements (the tables of DROP TABLE, the pairs of RENAME TABLE), ``cuts`` those that are not for the
    target. ``marks`` are the keywords that not all families of servers know. ``temporary``: ``refs`` are temporary
    tables.
    """

    sql: str
    kind: DDLKind
    refs: tuple[TableRef, ...] = ()
    guard: int = -1
    items: tuple[tuple[int, int], ...] = ()
    cuts: tuple[tuple[int, int], ...] = ()
    marks: tuple[Mark, ...] = field(default=(), compare=False)
    body: TableBody | None = None
    specs: tuple[AlterSpec, ...] = ()
    options: TableOptions = TableOptions()
    if_exists: bool = False
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: TemporaryEffect = ""
    default_schema: str = ""
    dialect: Dialect = DEFAULT_DIALECT

    @property
    def tables(self) -> tuple[tuple[str, str], ...]:
        """The tables that it changes or creates, with their upstream names; table '' for a schema."""
        return tuple(dict.fromkeys((ref.schema, ref.table) for ref in self.refs if ref.role != "reference"))

    @property
    def renamed(self) -> tuple[tuple[str, str], tuple[str, str]] | None:
        """The old and the new name, of one pair of RENAME TABLE and for ALTER TABLE … RENAME; None for others."""
        refs = self.refs
        if self.kind == "rename table":
            return (refs[0].schema, refs[0].table), (refs[1].schema, refs[1].table)
        target = next((action.target for action in self.actions if isinstance(action, RenameTable)), None)
        return None if target is None else ((refs[0].schema, refs[0].table), (target.schema, target.table))

    @property
    def actions(self) -> tuple[AlterAction, ...]:
        """All actions of an ALTER TABLE, CREATE INDEX or DROP INDEX, in order."""
        return tuple(action for spec in self.specs for action in spec.actions)
