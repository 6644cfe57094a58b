"""A table's structure, for the tracker, the row decoder and the appliers. Pure data, no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, TypeVar

_T = TypeVar("_T")

#: Types of geometries; MySQL 8 has the short name of the last one.
GEOMETRIES = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    }
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column, in the order of the table.

    ``type_name`` is the bare lower-case type as information_schema's DATA_TYPE gives it (``int``, ``enum``);
    ``column_type`` the whole of COLUMN_TYPE (``int(10) unsigned``, ``enum('a','b')``).
    ``charset``/``collation`` are empty for types without one. ``generated`` is '', 'VIRTUAL' or 'STORED'.
    ``default`` is the DEFAULT clause as SQL text, or None when there is none.
    """

    name: str
    type_name: str
    column_type: str
    nullable: bool = True
    unsigned: bool = False
    charset: str = ""
    collation: str = ""
    generated: str = ""
    auto_increment: bool = False
    invisible: bool = False
    default: str | None = None

    @property
    def elements(self) -> tuple[str, ...]:
        """The members of an ENUM or SET, unquoted, in order; empty for other types."""
        return parse_elements(self.column_type) if self.type_name in ("enum", "set") else ()


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One column of an index; ``length`` is the prefix length in characters, 0 for the whole column."""

    column: str
    length: int = 0


@dataclass(frozen=True, slots=True)
class Index:
    """An index; ``name`` is ``PRIMARY`` for the primary key.

    ``hashed``: it was declared as a hash, or the server shows it as one. Not part of an index's identity: a statement
    may leave the choice to the server.
    ``without_overlaps``: the last two parts are the end and the start of a period. Rows with equal other parts collide
    when their periods overlap (MariaDB). Known only for structures read from a server.
    """

    name: str
    parts: tuple[IndexPart, ...]
    unique: bool = False
    hashed: bool = field(default=False, compare=False)
    without_overlaps: bool = field(default=False, compare=False)

    @property
    def primary(self) -> bool:
        return self.name == "PRIMARY"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(part.column for part in self.parts)


def in_order(indexes: Iterable[Index]) -> tuple[Index, ...]:
    """By name. Servers sort indexes by their own collations, and the choice of a row key must not depend on that."""
    return tuple(sorted(indexes, key=lambda index: index.name.upper()))


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key; tables are (schema, name). ``parent_columns`` belong to ``columns``.

    ``acts``: the server itself changes the child's rows (CASCADE, SET NULL, SET DEFAULT). ``actions``: its actions when
    the parent's row is deleted and when its key changes, '' for none. ``name``: '' where that does not matter.
    """

    child: tuple[str, str]
    columns: tuple[str, ...]
    parent: tuple[str, str]
    parent_columns: tuple[str, ...]
    acts: bool = False
    actions: tuple[str, str] = ("", "")
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TableInfo:
    """The structure of one table. ``foreign_keys`` are the tables (schema, name) that it references.

    ``keys_certain``: False where the indexes are of a later time; rows prove only columns.
    ``expressions``: pairs of a generated column and its expression as the server writes it. Known only for structures
    read from a server, if it shows expressions.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    charset: str = ""
    collation: str = ""
    foreign_keys: tuple[tuple[str, str], ...] = ()
    engine: str = ""
    keys_certain: bool = True
    expressions: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    _by_name: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", _positions(self.columns))

    def index_of(self, column: str) -> int:
        """The column's index, names compared without case; -1 when there is none."""
        return self._by_name.get(column.lower(), -1)

    def column(self, name: str) -> Column | None:
        i = self.index_of(name)
        return None if i < 0 else self.columns[i]

    @property
    def primary_key(self) -> Index | None:
        return next((index for index in self.indexes if index.primary), None)

    @property
    def unique_keys(self) -> tuple[Index, ...]:
        """Every unique index, the primary key first."""
        unique = [index for index in self.indexes if index.unique or index.primary]
        return tuple(sorted(unique, key=lambda index: not index.primary))

    def row_key(self) -> Index | None:
        """The index that identifies a row: the primary key, else the first unique key over whole NOT NULL columns."""
        for index in self.unique_keys:
            columns = [self.column(name) for name in index.columns]
            if index.primary or all(c is not None and not c.nullable for c in columns):
                return index
        return None

    def expression_of(self, column: str) -> str | None:
        """The expression of a generated column; None when it is not known."""
        return next((text for name, text in self.expressions if name.lower() == column.lower()), None)

    def renamed(self, schema: str, name: str) -> TableInfo:
        return replace(self, schema=schema, name=name)

    def to_json(self) -> str:
        data = {name: getattr(self, name) for name in _TABLE_FIELDS}
        if self.keys_certain:
            del data["keys_certain"]
        data["columns"] = [{name: getattr(column, name) for name in _COLUMN_FIELDS} for column in self.columns]
        data["indexes"] = [
            {
                "name": index.name,
                "parts": [{"column": part.column, "length": part.length} for part in index.parts],
                "unique": index.unique,
                **({"hashed": True} if index.hashed else {}),
            }
            for index in self.indexes
        ]
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> TableInfo:
        """Raises ``ValueError``, ``KeyError`` or ``TypeError`` for text that :meth:`to_json` did not write."""
        return cls.from_data(json.loads(text))

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> TableInfo:
        """From parsed output of :meth:`to_json`. Equal parts of many tables share one object: shards are alike."""
        return cls(
            schema=data["schema"],
            name=data["name"],
            columns=_shared_tuple(tuple(_shared_column(**column) for column in data["columns"])),
            indexes=_shared_indexes(
                tuple(
                    (
                        index["name"],
                        tuple((part["column"], part["length"]) for part in index["parts"]),
                        index["unique"],
                        index.get("hashed", False),
                    )
                    for index in data["indexes"]
                )
            ),
            charset=data["charset"],
            collation=data["collation"],
            foreign_keys=tuple((schema, name) for schema, name in data["foreign_keys"]),
            engine=data["engine"],
            keys_certain=data.get("keys_certain", True),
        )


_COLUMN_FIELDS = tuple(each.name for each in fields(Column))
_TABLE_FIELDS = tuple(each.name for each in fields(TableInfo) if each.init and each.compare)
#: Limited, as the cache stays in memory: some MB of columns, some tens of MB of wide tables.
_shared_column = lru_cache(1 << 14)(Column)


@lru_cache(1 << 12)
def _shared_tuple(value: _T) -> _T:
    return value


@lru_cache(1 << 12)
def _positions(columns: tuple[Column, ...]) -> dict[str, int]:
    return {column.name.lower(): i for i, column in enumerate(columns)}


def parse_elements(column_type: str) -> tuple[str, ...]:
    """``enum('a','it''s')`` → ``('a', "it's")``. Raises ``ValueError`` for text that is not such a list."""
    start = column_type.index("(") + 1
    end = column_type.rindex(")")
    members: list[str] = []
    current: list[str] | None = None
    i = start
    while i < end:
        char = column_type[i]
        if current is None:
            if char == "'":
                current = []
        elif char == "'":
            if column_type[i + 1 : i + 2] == "'" and i + 1 < end:
                current.append("'")
                i += 1
            else:
                members.append("".join(current))
                current = None
        else:
            current.append(char)
        i += 1
    return tuple(members)


@lru_cache(1 << 12)
def _shared_indexes(described: tuple[tuple[str, tuple[tuple[str, int], ...], bool, bool], ...]) -> tuple[Index, ...]:
    return tuple(
        Index(name, tuple(IndexPart(*part) for part in parts), unique, hashed)
        for name, parts, unique, hashed in described
    )
