"""The comparison at the end: count and checksum of every shard, at its upstream and at the target."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.local.mysql import SQLServer
from deploy.local.workload import COMPARED

#: Each row becomes one string, in which NULL differs from an empty string; XOR combines the digests of all rows.
#: The cast comes first: TiDB truncates a DECIMAL in IFNULL with a string.
_COLUMNS = ", ".join(f"IFNULL(CAST({column.strip()} AS CHAR), 'NULL')" for column in f"{COMPARED}, channel".split(","))
_DIGEST = "BIT_XOR(CAST(CONV(LEFT(MD5(CONCAT_WS('|', {columns})), 16), 16, 10) AS UNSIGNED))"


@dataclass(frozen=True, slots=True)
class Sum:
    """The number of rows, and their checksum."""

    rows: int
    checksum: str


def checksum(server: SQLServer, table: str, first: int, last: int) -> Sum:
    """The sum of the rows of ``table`` with ``first`` <= id < ``last``."""
    query = f"SELECT COUNT(*), {_DIGEST.format(columns=_COLUMNS)} FROM {table} WHERE id >= {first} AND id < {last}"
    ((rows, digest),) = server.execute("SET time_zone = '+00:00'", query)
    return Sum(int(rows), f"{int(digest):016x}")
