"""Reads a server's variables, version and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.mysql import driver
from pkg.mysql.connection import error_number
from pkg.mysql.names import SYSTEM_SCHEMAS, qualified, quote
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo, in_order
from pkg.mysql.shown_counters import with_nullable_counters
from pkg.mysql.shown_literals import as_text, doubtful_defaults

_UNKNOWN_COLUMN, _UNKNOWN_VARIABLE = 1054, 1193
_MISSING = frozenset({1049, 1146, 1051, 1008})
#: A schema is read as a whole when at least one in so many of its tables is requested.
_WHOLE_SCHEMA = 10
_COLUMNS = (
    "COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA, COLUMN_DEFAULT"
    " FROM information_schema.COLUMNS"
)
_INDEXES = "INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART, INDEX_TYPE FROM information_schema.STATISTICS"
#: For columns of these types, MySQL 8 takes a prefix of so many bytes as the length of the whole column.
_HIDDEN_PREFIX = 8
_LARGE = frozenset({"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"})
#: Types of the two ends of a period.
_PERIODS = frozenset({"date", "datetime", "timestamp"})
_WITHOUT_OVERLAPS = re.compile(r"^ *(?:PRIMARY KEY|UNIQUE KEY (`(?:[^`]|``)+`)) \(.* WITHOUT OVERLAPS\)", re.MULTILINE)
_FOREIGN_KEYS = "REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """``flavor`` is mysql, mariadb or tidb; ``gtid_on``: replication by GTID is possible."""

    flavor: str
    version: tuple[int, int, int]
    version_text: str
    server_id: int
    server_uuid: str
    gtid_on: bool

    @property
    def tells_json_types(self) -> bool:
        """Whether it keeps SQL types in JSON documents, and has JSON_TABLE to read them."""
        return self.flavor == "mysql" and self.version >= (8, 0, 4)


#: An SQL template and its values.
BoundStatement = tuple[str, tuple[Any, ...]]


def query(conn: Connection[Any], sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All rows of one statement."""
    with conn.cursor() as cursor:
        cursor.execute(sql, args or None)
        return list(cursor.fetchall())


def variable(conn: Connection[Any], name: str) -> str | None:
    """A global variable's value as text, None when this server has no such variable."""
    try:
        rows = query(conn, f"SELECT @@GLOBAL.{name}")
    except pymysql.Error as exc:
        if error_number(exc) == _UNKNOWN_VARIABLE:
            return None
        raise
    return None if rows[0][0] is None else str(rows[0][0])


def is_partitioned(conn: Connection[Any], schema: str, table: str) -> bool:
    """Whether a table has partitions. Raises ``pymysql.Error``."""
    found = query(
        conn,
        "SELECT COUNT(*) FROM information_schema.PARTITIONS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND PARTITION_NAME IS NOT NULL",
        (schema, table),
    )
    return bool(found[0][0])


def show_create(conn: Connection[Any], schema: str, table: str = "") -> str:
    """The statement that creates a table, or a schema without a table name. Reads defaults where the server does not
    show them exactly (:mod:`pkg.mysql.shown_literals`)."""
    what = f"TABLE {qualified(schema, table)}" if table else f"DATABASE {quote(schema)}"
    shown = _show_create(conn, what)
    if not table or b"?" not in shown:
        return with_nullable_counters(as_text(shown))
    # MySQL also shows it for bytes that are not in the connection's charset.
    query(conn, "SET character_set_results = NULL")
    shown = _show_create(conn, what)
    query(conn, f"SET character_set_results = {conn.charset}")
    return with_nullable_counters(as_text(shown, _defaults(conn, schema, table, doubtful_defaults(shown))))


def _show_create(conn: Connection[Any], what: str) -> bytes:
    with driver.texts_as_bytes(conn):
        return bytes(query(conn, f"SHOW CREATE {what}")[0][1])


def _defaults(conn: Connection[Any], schema: str, table: str, columns: Sequence[str]) -> dict[str, str]:
    """The defaults of text columns; without columns whose default is no text."""
    if not columns:
        return {}
    asked = ", ".join(f"CONVERT(DEFAULT({quote(name)}) USING utf8mb4)" for name in columns)
    # The table may be empty.
    (row,) = query(conn, f"SELECT {asked} FROM (SELECT 1) one LEFT JOIN {qualified(schema, table)} ON FALSE")
    return {name: value for name, value in zip(columns, row, strict=True) if value is not None}


def show_create_if_there(conn: Connection[Any], schema: str, table: str = "") -> str:
    """As :func:`show_create`; '' if it does not exist."""
    try:
        return show_create(conn, schema, table)
    except pymysql.Error as exc:
        if error_number(exc) not in _MISSING:
            raise
        return ""


#: InnoDB's list of tables, in newer and older servers.
_FILE_LISTS = ("INNODB_TABLES", "INNODB_SYS_TABLES")
_NO_SUCH_LIST = frozenset({1109, 1146})
_NO_PRIVILEGE = 1227


def fetch_file_ids(conn: Connection[Any], schema: str, table: str) -> tuple[int, ...]:
    """The numbers of InnoDB's files for a table or its partitions, sorted: they move with the rows. TiDB gives such
    numbers to the tables and partitions themselves.

    Empty without the PROCESS privilege, for other engines, and for names beyond ASCII.
    """
    if not f"{schema}{table}".isascii():
        return ()
    name = f"{_file_name(schema)}/{_file_name(table)}"
    for found in _FILE_LISTS:
        try:
            rows = query(
                conn, f"SELECT TABLE_ID, NAME FROM information_schema.{found} WHERE NAME LIKE %s", (f"{name}%",)
            )
        except pymysql.Error as exc:
            if error_number(exc) == _NO_PRIVILEGE:
                return ()
            if error_number(exc) not in _NO_SUCH_LIST:
                raise
            continue
        partition = f"{name}#p#".lower()
        return tuple(sorted(int(i) for i, n in rows if n == name or str(n).lower().startswith(partition)))
    return _tidb_ids(conn, schema, table)


def _tidb_ids(conn: Connection[Any], schema: str, table: str) -> tuple[int, ...]:
    """The numbers of a table or its partitions in TiDB; empty for a server without such numbers."""
    where = "TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    of_partitions = (
        f"SELECT TIDB_PARTITION_ID FROM information_schema.PARTITIONS WHERE {where} AND PARTITION_NAME <> ''"
    )
    of_table = f"SELECT TIDB_TABLE_ID FROM information_schema.TABLES WHERE {where}"
    try:
        rows = query(conn, of_partitions, (schema, table)) or query(conn, of_table, (schema, table))
    except pymysql.Error as exc:
        if error_number(exc) != _UNKNOWN_COLUMN:
            raise
        return ()
    return tuple(sorted(int(row[0]) for row in rows))


def _file_name(name: str) -> str:
    """An ASCII name in the form of a file name."""
    return re.sub(r"[^0-9A-Za-z_]", lambda found: f"@{ord(found[0]):04x}", name)


def server_info(conn: Connection[Any]) -> ServerInfo:
    text = str(query(conn, "SELECT VERSION()")[0][0])
    flavor = "mariadb" if "mariadb" in text.lower() else "tidb" if "tidb" in text.lower() else "mysql"
    # Replication-prefixed MariaDB versions read 5.5.5-10.11.6-MariaDB.
    numbers = re.findall(r"(\d+)\.(\d+)\.(\d+)", text)
    major, minor, patch = numbers[1] if flavor == "mariadb" and len(numbers) > 1 else numbers[0]
    gtid = True if flavor == "mariadb" else (variable(conn, "gtid_mode") or "OFF").upper() == "ON"
    return ServerInfo(
        flavor=flavor,
        version=(int(major), int(minor), int(patch)),
        version_text=text,
        server_id=int(variable(conn, "server_id") or 0),
        server_uuid=(variable(conn, "server_uuid") or "") if flavor != "mariadb" else "",
        gtid_on=gtid,
    )


def list_schemas(conn: Connection[Any]) -> list[str]:
    """The schemas that can be migrated, sorted."""
    names = [str(row[0]) for row in query(conn, "SHOW DATABASES")]
    return sorted(name for name in names if name.lower() not in SYSTEM_SCHEMAS)


def list_tables(conn: Connection[Any], schema: str) -> list[str]:
    """The base tables of ``schema`` (no views), sorted."""
    rows = query(
        conn,
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'",
        (schema,),
    )
    return sorted(str(row[0]) for row in rows)


def list_all_tables(conn: Connection[Any]) -> dict[str, list[str]]:
    """The schemas that can be migrated, each with its base tables (no views), all sorted."""
    found: dict[str, list[str]] = {schema: [] for schema in list_schemas(conn)}
    rows = query(conn, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'")
    for schema, table in sorted((str(schema), str(table)) for schema, table in rows):
        if schema in found:
            found[schema].append(table)
    return found


def is_base_table(conn: Connection[Any], schema: str, table: str) -> bool:
    """Whether such a table exists and can be migrated; the server reads only this one."""
    where = "TABLE_SCHEMA = %s AND TABLE_NAME = %s AND TABLE_TYPE = 'BASE TABLE'"
    return bool(query(conn, f"SELECT 1 FROM information_schema.TABLES WHERE {where}", (schema, table)))


def folds_names(conn: Connection[Any]) -> bool:
    """Whether the server treats table names that differ only in case as equal."""
    return (variable(conn, "lower_case_table_names") or "0") != "0"


#: Objects that hold data but can't be migrated, by the server's name for their kind. Views hold none.
NOT_MIGRATED = {"SYSTEM VERSIONED": "system-versioned table", "SEQUENCE": "sequence"}


def list_other_objects(conn: Connection[Any]) -> list[tuple[str, str, str]]:
    """The objects other than base tables: schema, name, and the server's kind (VIEW, SEQUENCE, …), sorted."""
    rows = query(
        conn,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_TYPE <> 'BASE TABLE'",
    )
    found = [(str(schema), str(name), str(kind)) for schema, name, kind in rows]
    return sorted(each for each in found if each[0].lower() not in SYSTEM_SCHEMAS)


def fetch_table_info(conn: Connection[Any], schema: str, table: str) -> TableInfo | None:
    """The current structure of a base table on the server; None when there is no such table."""
    found = _structures(conn, schema, table)
    # A server that folds names' case returns its own spelling.
    info = found.get(table) or next(iter(found.values()), None)
    return None if info is None else replace(info, schema=schema, name=table)


def tables_with_generated_columns(conn: Connection[Any], tables: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the tables (schema, name) that have generated columns, with one query per schema."""
    found = []
    for schema in sorted({schema for schema, _ in tables}):
        rows = query(
            conn,
            "SELECT DISTINCT TABLE_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND"
            " (EXTRA LIKE '%%VIRTUAL%%' OR EXTRA LIKE '%%STORED%%' OR EXTRA LIKE '%%PERSISTENT%%')",
            (schema,),
        )
        names = {str(row[0]).lower() for row in rows}
        found += sorted(table for table in tables if table[0] == schema and table[1].lower() in names)
    return found


def fetch_table_infos(conn: Connection[Any], schema: str, tables: Collection[str]) -> dict[str, TableInfo]:
    """The structures of the existing ``tables``, by the requested names.

    A schema is read as a whole, which takes a fraction of the time for thousands of tables; but not for a few tables of
    a large schema.
    """
    folds = folds_names(conn)
    real = {name.lower() if folds else name: name for name in list_tables(conn, schema)}
    there = {table: real[key] for table in tables if (key := table.lower() if folds else table) in real}
    if len(there) * _WHOLE_SCHEMA < len(real):
        found = {name: info for name in set(there.values()) if (info := fetch_table_info(conn, schema, name))}
    else:
        found = _structures(conn, schema) if there else {}
    # A table dropped in the meantime is missing.
    return {table: replace(found[name], schema=schema, name=table) for table, name in there.items() if name in found}


def _structures(conn: Connection[Any], schema: str, table: str = "") -> dict[str, TableInfo]:
    """The base tables of a schema, or one of them, by the server's spelling of their names."""
    heads = query(
        conn,
        "SELECT t.TABLE_NAME, t.ENGINE, t.TABLE_COLLATION, c.CHARACTER_SET_NAME FROM information_schema.TABLES t"
        " LEFT JOIN information_schema.COLLATION_CHARACTER_SET_APPLICABILITY c ON c.COLLATION_NAME = t.TABLE_COLLATION"
        f" WHERE t.TABLE_SCHEMA = %s AND t.TABLE_TYPE = 'BASE TABLE'{' AND t.TABLE_NAME = %s' if table else ''}",
        (schema, table) if table else (schema,),
    )
    if not heads:
        return {}
    columns = _rows(conn, _COLUMNS, "ORDINAL_POSITION", schema, table)
    indexes = _rows(conn, _INDEXES, "INDEX_NAME, SEQ_IN_INDEX", schema, table)
    keys = _rows(conn, _FOREIGN_KEYS, "CONSTRAINT_NAME, ORDINAL_POSITION", schema, table)
    structures = {name: tuple(_column(*row) for row in rows) for name, rows in columns.items()}
    computed = any(column.generated for found in structures.values() for column in found)
    expressions = _expressions(conn, schema, table) if computed else {}

    def indexes_of(name: str) -> tuple[Index, ...]:
        by_name = {column.name: column for column in structures.get(name, ())}
        found = _to_indexes(indexes.get(name, ()), partial(_hidden_prefix, conn, by_name))
        if not any(_may_be_of_a_period(index, by_name) for index in found):
            return found
        return with_periods(found, show_create_if_there(conn, schema, name))

    return {
        str(name): TableInfo(
            schema=schema,
            name=str(name),
            columns=structures.get(str(name), ()),
            indexes=indexes_of(str(name)),
            # MariaDB lists its newest collations there under a shorter name.
            charset=str(charset or "") or str(collation or "").partition("_")[0],
            collation=str(collation or ""),
            foreign_keys=tuple(sorted({(str(ref[0]), str(ref[1])) for ref in keys.get(str(name), ()) if ref[1]})),
            engine=str(engine or ""),
            expressions=expressions.get(str(name), ()),
        )
        for name, engine, collation, charset in heads
    }


def _expressions(conn: Connection[Any], schema: str, table: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Table → its generated columns with their expressions; empty for a server that does not show them."""
    select = "COLUMN_NAME, GENERATION_EXPRESSION FROM information_schema.COLUMNS"
    try:
        found = _rows(conn, select, "ORDINAL_POSITION", schema, table)
    except pymysql.Error as exc:
        if error_number(exc) != _UNKNOWN_COLUMN:
            raise
        return {}
    return {name: tuple((str(column), str(text)) for column, text in rows if text) for name, rows in found.items()}


def _may_be_of_a_period(index: Index, columns: Mapping[str, Column]) -> bool:
    """Whether a unique key ends with two columns that can be a period."""
    ends = [columns.get(part.column) for part in index.parts[-2:] if not part.length]
    kinds = {column.type_name for column in ends if column is not None and not column.nullable}
    return index.unique and len(index.parts) > 2 and len(ends) == 2 and len(kinds) == 1 and kinds <= _PERIODS


def with_periods(indexes: tuple[Index, ...], create: str) -> tuple[Index, ...]:
    """The indexes of a table, with the part that only its CREATE TABLE statement shows: keys WITHOUT OVERLAPS."""
    found = {name[1:-1].replace("``", "`") if name else "PRIMARY" for name in _WITHOUT_OVERLAPS.findall(create)}
    return tuple(replace(index, without_overlaps=True) if index.name in found else index for index in indexes)


def _rows(conn: Connection[Any], select: str, order: str, schema: str, table: str) -> dict[str, list[tuple[Any, ...]]]:
    """Table → its rows of ``select``, without the table's name."""
    one = " AND TABLE_NAME = %s" if table else ""
    sql = f"SELECT TABLE_NAME, {select} WHERE TABLE_SCHEMA = %s{one} ORDER BY TABLE_NAME, {order}"
    groups: dict[str, list[tuple[Any, ...]]] = {}
    for name, *row in query(conn, sql, (schema, table) if table else (schema,)):
        groups.setdefault(str(name), []).append(tuple(row))
    return groups


def _column(name: str, data_type: str, column_type: str, nullable: str, *rest: Any) -> Column:
    charset, collation, extra, default = rest
    extra = str(extra or "").upper()
    generated = ""
    if "VIRTUAL" in extra:
        generated = "VIRTUAL"
    elif "STORED GENERATED" in extra or "PERSISTENT" in extra:
        generated = "STORED"
    column_type = str(column_type)
    if charset is None and data_type in ("enum", "set"):
        # MySQL 8 shows no charset for binary members.
        charset = collation = "binary"
    return Column(
        name=str(name),
        type_name=str(data_type).lower(),
        column_type=column_type,
        nullable=nullable == "YES",
        unsigned="unsigned" in column_type.lower().split(")")[-1] or column_type.lower().endswith("unsigned"),
        charset=str(charset or ""),
        collation=str(collation or ""),
        generated=generated,
        auto_increment="AUTO_INCREMENT" in extra,
        invisible="INVISIBLE" in extra,
        default=None if default is None else str(default),
    )


def _to_indexes(rows: Sequence[tuple[Any, ...]], hidden_prefix: Callable[[str], int]) -> tuple[Index, ...]:
    parts: dict[str, list[IndexPart]] = {}
    unique: dict[str, bool] = {}
    hashed: dict[str, bool] = {}
    for name, non_unique, column, length, kind in rows:
        # A functional key part (MySQL 8) has no column name: such an index does not identify rows.
        column = str(column or "")
        # Only FULLTEXT indexes and MariaDB's unique hashes contain whole TEXT and BLOB columns.
        prefix = hidden_prefix(column) if length is None and kind == "BTREE" else int(length or 0)
        parts.setdefault(str(name), []).append(IndexPart(column, prefix))
        unique[str(name)], hashed[str(name)] = not int(non_unique), kind == "HASH"
    return in_order(Index(name, tuple(members), unique[name], hashed[name]) for name, members in parts.items())


def _hidden_prefix(conn: Connection[Any], columns: Mapping[str, Column], name: str) -> int:
    """The required prefix in characters of an index on that column; 0 when the index may have the whole column."""
    column = columns.get(name)
    if column is None or column.type_name not in _LARGE:
        return 0
    rows = query(
        conn, "SELECT MAXLEN FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME = %s", (column.charset,)
    )
    return _HIDDEN_PREFIX // int(rows[0][0]) if rows else _HIDDEN_PREFIX
