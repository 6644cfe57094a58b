"""What a dump leaves out although the task's filter includes it: everything that is not a base table."""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from dm_worker.table_reads.chunks import TableChoice
from pkg import errors
from pkg.errors import Code
from pkg.mysql.introspect import NOT_MIGRATED, list_other_objects
from pkg.mysql.names import qualified


def list_skipped(conn: Connection[Any], allows: TableChoice) -> list[str]:
    """What is chosen but not dumped: views.

    Raises 32001 for objects with data that cannot be migrated: the task must exclude them explicitly.
    """
    others = [each for each in list_other_objects(conn) if allows(each[0], each[1])]
    refused = [
        f"{NOT_MIGRATED[kind]} {qualified(schema, name)}" for schema, name, kind in others if kind in NOT_MIGRATED
    ]
    if refused:
        raise errors.new(
            Code.DumpUnitRuntime,
            f"{len(refused)} objects can't be migrated: {', '.join(refused[:20])}",
            workaround="Exclude them with ignore-tables in the block-allow-list, and copy them by other means.",
            scope="upstream",
        )
    return [f"{schema}.{name} ({kind})" for schema, name, kind in others]
