"""TiDB's own description of a table (its ``TableInfo`` as JSON, which DM stores in its checkpoints) → structure. Pure.

TiDB's tracker created it from the upstream's statements. So names, order and types are the upstream's. Charsets and
collations that a statement did not name are TiDB's defaults, whatever the upstream's are.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pkg.ddl.statement import ColumnDef, TypeSpec
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo, in_order
from pkg.schema_tracker.server import Charset, ServerDefaults
from pkg.schema_tracker.types import resolve_column

_Json: TypeAlias = Mapping[str, Any]

#: TiDB's charset for a table whose statement names none.
TIDB_CHARSET = "utf8mb4"

_NUMBERS = {1: "TINYINT", 2: "SMALLINT", 3: "INT", 8: "BIGINT", 9: "MEDIUMINT"}
_FLOATS = {4: "FLOAT", 5: "DOUBLE"}
_TIMES = {7: "TIMESTAMP", 11: "TIME", 12: "DATETIME"}
_PLAIN = {10: "DATE", 13: "YEAR", 14: "DATE", 245: "JSON"}
_MEMBERS = {247: "ENUM", 248: "SET"}
#: As text, and in the charset ``binary``.
_SIZED = {15: ("VARCHAR", "VARBINARY"), 253: ("VARCHAR", "VARBINARY"), 254: ("CHAR", "BINARY")}
_LARGE = {
    249: ("TINYTEXT", "TINYBLOB"),
    250: ("MEDIUMTEXT", "MEDIUMBLOB"),
    251: ("LONGTEXT", "LONGBLOB"),
    252: ("TEXT", "BLOB"),
}
_BIT, _DECIMAL = 16, 246
_NOT_NULL, _PRIMARY, _UNSIGNED, _ZEROFILL, _AUTO_INCREMENT = 1 << 0, 1 << 1, 1 << 5, 1 << 6, 1 << 9
#: Columns and indexes in any other state are part of an unfinished change.
_PUBLIC = 5
_BINARY = "binary"


def table_of_tidb_model(data: Any, schema: str, name: str, server: ServerDefaults) -> TableInfo:
    """The structure of the upstream table ``schema``.``name``, as ``server`` shows types.

    Raises ``ValueError`` for an invalid description, or one of something other than a plain table.
    """
    try:
        return _table(data, schema, name, server)
    except (KeyError, TypeError, AttributeError, IndexError) as exc:
        raise ValueError(f"{exc!r}") from exc


def _table(data: _Json, schema: str, name: str, server: ServerDefaults) -> TableInfo:
    if data.get("view") or data.get("sequence"):
        raise ValueError("it describes a view or a sequence")
    shown = data["cols"] or ()
    if not shown:
        raise ValueError("it has no columns")
    around = server.resolve(str(data["charset"] or ""), str(data["collate"] or ""), None)
    columns = tuple(_column(column, around, server) for column in shown if not column.get("hidden"))
    return TableInfo(
        schema=schema,
        name=name,
        columns=columns,
        indexes=in_order([*_row_id_key(data), *(_index(index, shown) for index in data["index_info"] or ())]),
        charset=around.name,
        collation=around.collation,
        foreign_keys=tuple(sorted({_referenced(key, schema) for key in data["fk_info"] or ()})),
    )


def _text(name: _Json) -> str:
    """A name as it was written; TiDB stores the lower-case form next to it."""
    return str(name["O"])


def _ensure_public(what: _Json, name: str) -> None:
    if what["state"] != _PUBLIC:
        raise ValueError(f"{name} is in the middle of a change (state {what['state']})")


def _column(data: _Json, around: Charset, server: ServerDefaults) -> Column:
    name, kind = _text(data["name"]), data["type"]
    _ensure_public(data, name)
    flags = int(kind["Flag"])
    stored = "STORED" if data["generated_stored"] else "VIRTUAL"
    return resolve_column(
        ColumnDef(
            name=name,
            type=_type(kind, flags),
            nullable=not flags & _NOT_NULL,
            default=_default(data),
            auto_increment=bool(flags & _AUTO_INCREMENT),
            generated=stored if data["generated_expr_string"] else "",
        ),
        around,
        server,
    )


def _type(kind: _Json, flags: int) -> TypeSpec:
    number, length, decimals = int(kind["Tp"]), int(kind["Flen"]), int(kind["Decimal"])
    unsigned, zerofill = bool(flags & _UNSIGNED), bool(flags & _ZEROFILL)
    if number in _NUMBERS:
        return TypeSpec(_NUMBERS[number], (str(length),) if length > 0 else (), unsigned, zerofill)
    if number in _FLOATS:
        return TypeSpec(_FLOATS[number], (str(length), str(decimals)) if decimals >= 0 else (), unsigned, zerofill)
    if number == _DECIMAL:
        return TypeSpec("DECIMAL", (str(length), str(max(decimals, 0))), unsigned, zerofill)
    if number in _TIMES:
        return TypeSpec(_TIMES[number], (str(decimals),) if decimals > 0 else ())
    if number in _PLAIN:
        return TypeSpec(_PLAIN[number])
    if number == _BIT:
        return TypeSpec("BIT", (str(length),))
    return _text_type(kind, number, length)


def _text_type(kind: _Json, number: int, length: int) -> TypeSpec:
    charset, collation = str(kind["Charset"]), str(kind["Collate"])
    if number in _MEMBERS:
        return TypeSpec(_MEMBERS[number], tuple(map(str, kind["Elems"])), charset=charset, collation=collation)
    names = _SIZED.get(number) or _LARGE.get(number)
    if names is None:
        raise ValueError(f"type {number} is not known")
    args = (str(length),) if number in _SIZED else ()
    if charset == _BINARY:
        return TypeSpec(names[1], args)
    return TypeSpec(names[0], args, charset=charset, collation=collation)


def _default(data: _Json) -> str | None:
    """The DEFAULT clause as SQL text."""
    if data.get("default_bit") and int(data["type"]["Tp"]) == _BIT:
        return f"b'{int.from_bytes(base64.b64decode(data['default_bit'])):b}'"
    value = data["default"]
    if value is None or data["generated_expr_string"]:
        return None
    text, kind = str(value), data["type"]
    if data.get("default_is_expr"):
        return f"({text})"
    if int(kind["Tp"]) in _TIMES and text.upper() == "CURRENT_TIMESTAMP":
        return f"{text}({kind['Decimal']})" if int(kind["Decimal"]) > 0 else text
    if int(kind["Tp"]) in (*_NUMBERS, *_FLOATS, _DECIMAL):
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _row_id_key(data: _Json) -> list[Index]:
    """The primary key that TiDB uses as the row's number: it is in no index."""
    if not data["pk_is_handle"]:
        return []
    names = [_text(column["name"]) for column in data["cols"] if int(column["type"]["Flag"]) & _PRIMARY]
    return [Index("PRIMARY", tuple(map(IndexPart, names)), unique=True)]


def _index(data: _Json, columns: Sequence[_Json]) -> Index:
    name = _text(data["idx_name"])
    _ensure_public(data, name)
    parts = tuple(_part(part, columns) for part in data["idx_cols"])
    if data["is_primary"]:
        return Index("PRIMARY", parts, unique=True)
    return Index(name, parts, unique=bool(data["is_unique"]))


def _part(data: _Json, columns: Sequence[_Json]) -> IndexPart:
    """An expression is a hidden column in TiDB. A part whose column was renamed has the former name."""
    column = columns[int(data["offset"])]
    if column.get("hidden"):
        return IndexPart("")
    return IndexPart(_text(column["name"]), max(int(data["length"]), 0))


def _referenced(key: _Json, schema: str) -> tuple[str, str]:
    """Earlier versions do not store the schema."""
    other = key.get("ref_schema") or {}
    return str(other.get("O") or schema), _text(key["ref_table"])
