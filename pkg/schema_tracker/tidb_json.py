"""Structure → TiDB's own description of a table, as DM stores it in its checkpoints. Pure.

The reverse of :mod:`tidb_model`. Not tracked, and therefore omitted: the expressions of generated columns and of
indexes (NULL instead), foreign keys, comments, ON UPDATE clauses and partitions. DM needs only the rest to decode rows.
"""

from __future__ import annotations

import base64
import re
from typing import Any, TypeAlias

from pkg import ddl
from pkg.ddl.columns import bytes_of, unescaped
from pkg.ddl.statement import TypeSpec
from pkg.errors import DMError
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

_Model: TypeAlias = "dict[str, Any]"

#: Type → (TiDB's number, the length if the type has none).
_NUMBERS = {
    "tinyint": (1, (4, 3)),
    "smallint": (2, (6, 5)),
    "mediumint": (9, (9, 8)),
    "int": (3, (11, 10)),
    "bigint": (8, (20, 20)),
}
_REALS = {"float": (4, 12), "double": (5, 22), "decimal": (246, 10)}
_TIMES = {"timestamp": (7, 19), "time": (11, 10), "datetime": (12, 19)}
_TEXTS = {
    "varchar": (15, 0), "varbinary": (15, 0), "char": (254, 1), "binary": (254, 1),
    "tinytext": (249, 255), "tinyblob": (249, 255), "text": (252, 65535), "blob": (252, 65535),
    "mediumtext": (250, 16777215), "mediumblob": (250, 16777215),
    "longtext": (251, 4294967295), "longblob": (251, 4294967295),
}  # fmt: skip
_MEMBERS = {"enum": 247, "set": 248}
_PLAIN = {"date": (10, 10), "year": (13, 4), "json": (245, 4294967295)}
_BIT = 16
_NOT_NULL, _PRIMARY, _UNIQUE, _SEVERAL, _UNSIGNED, _ZEROFILL, _BINARY, _AUTO_INCREMENT, _NO_DEFAULT = (
    1, 2, 4, 8, 32, 64, 128, 512, 4096,
)  # fmt: skip
_BITS = re.compile(r"(?i)(0[xb][0-9a-f]+|[xb]'[0-9a-f]*')$")
_PUBLIC = 5
_BTREE = 1
#: Versions of TiDB's descriptions of a table and of a column.
_TABLE_VERSION, _COLUMN_VERSION = 5, 2


def tidb_model_of(info: TableInfo) -> _Model:
    """The description, for output as JSON. Raises ``ValueError`` for a type that TiDB does not have."""
    columns = [_column(info, column, offset) for offset, column in enumerate(info.columns)]
    indexes = [_index(index, number, info, columns) for number, index in enumerate(info.indexes, 1)]
    return {
        "id": 0,
        "name": _name(info.name),
        "charset": _of_tidb(info.charset),
        "collate": _of_tidb(info.collation),
        "cols": columns,
        "index_info": indexes or None,
        "fk_info": None,
        "state": 0,
        "pk_is_handle": False,
        "is_common_handle": False,
        "comment": "",
        "auto_inc_id": 0,
        "max_col_id": len(columns),
        "max_idx_id": len(indexes),
        "partition": None,
        "view": None,
        "sequence": None,
        "version": _TABLE_VERSION,
    }


def _name(name: str) -> _Model:
    return {"O": name, "L": name.lower()}


def _of_tidb(name: str) -> str:
    """TiDB uses the older name of the three-byte utf8."""
    return f"utf8{name[len('utf8mb3') :]}" if name.startswith("utf8mb3") else name


def _column(info: TableInfo, column: Column, offset: int) -> _Model:
    kind = _type(column)
    kind["Flag"] |= _flags(info, column)
    default, bits, expression = _default(column)
    return _described(
        column.name,
        offset,
        kind,
        default=default,
        default_bit=bits,
        default_is_expr=expression,
        generated_expr_string="NULL" if column.generated else "",
        generated_stored=column.generated == "STORED",
        dependences={} if column.generated else None,
    )


def _described(name: str, offset: int, kind: _Model, **more: Any) -> _Model:
    return {
        "id": offset + 1,
        "name": _name(name),
        "offset": offset,
        "origin_default": None,
        "origin_default_bit": None,
        "default": None,
        "default_bit": None,
        "default_is_expr": False,
        "type": kind,
        "state": _PUBLIC,
        "comment": "",
        "hidden": False,
        "change_state_info": None,
        "version": _COLUMN_VERSION,
        **more,
    }


def _flags(info: TableInfo, column: Column) -> int:
    flags = 0
    primary = info.primary_key
    if primary is not None and column.name.lower() in map(str.lower, primary.columns):
        flags |= _PRIMARY | _NOT_NULL
    if not column.nullable:
        flags |= _NOT_NULL
    if column.auto_increment:
        flags |= _AUTO_INCREMENT
    elif flags & _NOT_NULL and column.default is None:
        flags |= _NO_DEFAULT
    for index in info.indexes:
        if index.primary or not index.columns or index.columns[0].lower() != column.name.lower():
            continue
        flags |= _UNIQUE if index.unique and len(index.columns) == 1 else _SEVERAL
    return flags


def _type(column: Column) -> _Model:
    spec = _spec(column)
    kind, args = column.type_name, spec.args
    flags = _UNSIGNED * spec.unsigned | _ZEROFILL * spec.zerofill | _UNSIGNED * spec.zerofill
    if kind in _NUMBERS:
        number, widths = _NUMBERS[kind]
        return _kind(number, int(args[0]) if args else widths[bool(flags & _UNSIGNED)], 0, flags)
    if kind in _REALS:
        number, length = _REALS[kind]
        decimals = int(args[1]) if len(args) > 1 else 0 if kind == "decimal" else -1
        return _kind(number, int(args[0]) if args else length, decimals, flags)
    if kind in _TIMES:
        number, length = _TIMES[kind]
        decimals = int(args[0]) if args else 0
        return _kind(number, length + 1 + decimals if decimals else length, decimals, _BINARY)
    if kind in _PLAIN:
        number, length = _PLAIN[kind]
        return _kind(number, length, 0, _UNSIGNED | _ZEROFILL if kind == "year" else _BINARY)
    if kind == "bit":
        return _kind(_BIT, int(args[0]) if args else 1, 0, _UNSIGNED)
    return _text_type(column, args)


def _text_type(column: Column, args: tuple[str, ...]) -> _Model:
    charset = (_of_tidb(column.charset), _of_tidb(column.collation)) if column.charset else ("binary", "binary")
    if column.type_name in _MEMBERS:
        members = list(column.elements)
        lengths = [len(one.encode()) for one in members]
        length = max(lengths) if column.type_name == "enum" else sum(lengths) + len(lengths) - 1
        return _kind(_MEMBERS[column.type_name], length, 0, 0, charset, members)
    if column.type_name not in _TEXTS:
        raise ValueError(f"column {column.name} has type {column.column_type}, which TiDB (and so DM) does not have")
    number, length = _TEXTS[column.type_name]
    return _kind(number, int(args[0]) if args else length, 0, 0 if column.charset else _BINARY, charset)


def _kind(
    number: int,
    length: int,
    decimals: int,
    flags: int,
    charset: tuple[str, str] = ("binary", "binary"),
    members: list[str] | None = None,
) -> _Model:
    return {
        "Tp": number,
        "Flag": flags,
        "Flen": length,
        "Decimal": decimals,
        "Charset": charset[0],
        "Collate": charset[1],
        "Elems": members,
    }


def _spec(column: Column) -> TypeSpec:
    try:
        body = ddl.parse(f"CREATE TABLE s.t (c {column.column_type})", default_schema="s").body
    except DMError as exc:
        raise ValueError(f"column {column.name} has type {column.column_type}, which is not understood") from exc
    if body is None:
        raise ValueError(f"column {column.name} has type {column.column_type}, which is not understood")
    return body.columns[0].type


def _default(column: Column) -> tuple[str | None, str | None, bool]:
    """TiDB's text of the default, its bytes for BIT, and whether it is an expression."""
    text = column.default
    if text is None or column.generated or text.upper() == "NULL":
        return None, None, False
    data = bytes_of(text) if _BITS.match(text) else unescaped(text)
    if column.type_name == "bit" and data is not None:
        return data.decode("latin-1"), base64.b64encode(data).decode(), False
    if text[:1] == "'":
        return text[1:-1].replace("''", "'").replace("\\\\", "\\"), None, False
    if text[:1] == "(":
        return text[1:-1], None, True
    if text.upper().startswith("CURRENT_TIMESTAMP"):
        return "CURRENT_TIMESTAMP", None, False
    return text, None, False


def _index(index: Index, number: int, info: TableInfo, columns: list[_Model]) -> _Model:
    """An expression is a hidden column; adds it to ``columns``."""
    parts = [_part(index, place, part, info, columns) for place, part in enumerate(index.parts)]
    return {
        "id": number,
        "idx_name": _name(index.name),
        "tbl_name": _name(""),
        "idx_cols": parts,
        "state": _PUBLIC,
        "comment": "",
        "index_type": _BTREE,
        "is_unique": index.unique or index.primary,
        "is_primary": index.primary,
        "is_invisible": False,
    }


def _part(index: Index, place: int, part: IndexPart, info: TableInfo, columns: list[_Model]) -> _Model:
    offset = info.index_of(part.column) if part.column else len(columns)
    if not part.column:
        hidden = _described(
            f"_V$_{index.name.lower()}_{place}",
            offset,
            _kind(_NUMBERS["bigint"][0], 20, 0, _BINARY),
            generated_expr_string="NULL",
            generated_stored=False,
            dependences={},
            hidden=True,
        )
        columns.append(hidden)
    elif offset < 0:
        raise ValueError(f"index {index.name} names the column {part.column}, which the table does not have")
    return {"name": columns[offset]["name"], "offset": offset, "length": part.length or -1}
