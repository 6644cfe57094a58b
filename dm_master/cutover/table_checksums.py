"""The checksum of a target table for a certificate. The same server computes the same checksum for the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import pymysql

from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.introspect import fetch_table_info, query
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.schema import Column, TableInfo
from pkg.settings.connections import DBConfig

#: What the numbers mean, as the certificate says it.
METHOD = (
    "rows, and of the first 32 digits of each row's SHA-256 (all fields, delimited, NULL distinct, times in UTC) the "
    "exclusive or and the sum of both halves; computed by the target"
)
_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"})
_TIMES = frozenset({"date", "time", "datetime", "timestamp"})
_FLOATS = frozenset({"float", "double"})
_WHOLE = frozenset({"enum", "set", "bit"})
_SHORT = frozenset({"char", "varchar", "binary", "varbinary"})
_ALL_ROWS = "LIMIT 18446744073709551615"
#: Tables whose checksums the target computes at the same time.
_MOST_AT_ONCE = 4
#: No such database, no such table.
_NOT_THERE = frozenset({1049, 1146})
#: Time limit for one table, in seconds.
_TIMEOUT = 86400.0
#: Session settings that give the same values the same text.
_SESSION = {"sql_mode": "", "time_zone": "+00:00"}


@dataclass(frozen=True, slots=True)
class TableSum:
    """``undigested``: rows whose text is longer than the server's max_allowed_packet. ``columns``: their definitions,
    for a table that was altered since."""

    target: TableId
    rows: int
    undigested: int
    digest: str
    columns: str


def checksum_query(info: TableInfo) -> str:
    """Rows, rows with a digest, and for each half of the digests exclusive or and sum."""
    fields = ",".join(f"IFNULL({_field(column)},'N'),','" for column in info.columns)
    # Without limits, servers merge the inner SELECTs into the outer one, and compute each digest several times.
    # SHA2: newer servers have neither MD5 nor SHA1. ELT: a MariaDB may regard the text as never NULL.
    digests = f"SELECT ELT(1,SHA2(CONCAT({fields}),256)) d FROM {qualified(info.schema, info.name)} {_ALL_ROWS}"
    halves = "CAST(CONV(LEFT(d,16),16,10) AS UNSIGNED) h,CAST(CONV(SUBSTR(d,17,16),16,10) AS UNSIGNED) l"
    numbers = f"SELECT {halves} FROM ({digests}) digests {_ALL_ROWS}"
    return f"SELECT COUNT(*),COUNT(h),BIT_XOR(h),BIT_XOR(l),SUM(h),SUM(l) FROM ({numbers}) halves"


def _field(column: Column) -> str:
    """A text without commas from which the value can be read back, or the digest of a long one; NULL for NULL."""
    name, kind = quote(column.name), column.type_name
    if kind in _NUMBERS or kind in _TIMES:
        return name
    if kind in _FLOATS:
        # A FLOAT's own text has too few digits.
        return f"{name}*1e0"
    if kind in _WHOLE:
        return f"CAST({name} AS UNSIGNED)"
    if kind in _SHORT:
        return f"HEX({name})"
    return f"CONCAT(LENGTH({name}),':',SHA2({name},256))"


def table_sum(info: TableInfo, row: tuple[object, ...]) -> TableSum:
    """From the answer to :func:`checksum_query`."""
    rows, digested, *numbers = (int(str(value or 0)) for value in row)
    digest = "-".join(f"{number:x}" for number in numbers)
    columns = ", ".join(f"{quote(column.name)} {column.column_type}" for column in info.columns)
    return TableSum((info.schema, info.name), rows, rows - digested, digest, columns)


def read_sums(target: DBConfig, tables: Iterable[TableId]) -> list[TableSum]:
    """The checksums of the tables that exist. Raises the classified error of a failed query."""
    with ThreadPoolExecutor(_MOST_AT_ONCE, "checksum") as pool:
        found = pool.map(lambda table: _read(target, table), sorted(set(tables)))
        return [one for one in found if one is not None]


def _read(target: DBConfig, table: TableId) -> TableSum | None:
    try:
        with closing(connect(target, scope="downstream", read_timeout=_TIMEOUT, session=_SESSION)) as conn:
            info = fetch_table_info(conn, *table)
            return None if info is None else table_sum(info, query(conn, checksum_query(info))[0])
    except pymysql.Error as exc:
        if error_number(exc) in _NOT_THERE:
            return None
        raise classify(exc, scope="downstream", table=qualified(*table)) from exc


def why_changed(certified: TableSum, present: TableSum | None) -> str:
    """What has changed since the certificate; '' if nothing has."""
    if present is None:
        return "the table does not exist any more"
    if present.columns != certified.columns:
        return f"its columns are {present.columns}, and were {certified.columns}"
    if certified.undigested:
        return f"{certified.undigested} rows were too long for a checksum: not compared"
    if (present.rows, present.digest) != (certified.rows, certified.digest):
        return f"other rows: {present.rows}, and {certified.rows} at the cutover"
    return ""
