"""Finds generated columns of the target for which a load would store other values than the upstream has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from typing import Any

from pymysql.connections import Connection

from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.mysql import session_expressions
from pkg.mysql.computing_sessions import computing_settings, differing
from pkg.mysql.connection import connect
from pkg.mysql.introspect import fetch_table_info, tables_with_generated_columns
from pkg.mysql.names import TableId, qualified, quote


def check_computed(cfg: SubTaskConfig, conn: Connection[Any], targets: Collection[TableId]) -> None:
    """Raises 34001 for such a column of ``targets``, and ``pymysql.Error``. Queries the upstream only if needed."""
    for name in tables_with_generated_columns(conn, targets):
        info = fetch_table_info(conn, *name)
        columns = session_expressions.kept_otherwise(info, lambda: _differing(cfg, conn)) if info is not None else {}
        if columns:
            raise errors.new(
                Code.LoadUnitCreateSchemaFile,
                session_expressions.problem(name, columns),
                scope="downstream",
                workaround=session_expressions.remedy(name, columns),
            )


def check_copied(
    conn: Connection[Any], copied: Iterable[tuple[str, str, str]], route: Callable[[str, str], TableId]
) -> None:
    """Raises 34001 for a column of ``copied`` (schema, table, column, as the upstream names them), in which the dump
    found other values than a session in UTC computes, if the target computes it; and ``pymysql.Error``."""
    for schema, table, name in copied:
        target = route(schema, table)
        info = fetch_table_info(conn, *target)
        there = info.column(name) if info is not None else None
        if there is not None and there.generated == "STORED":
            raise errors.new(
                Code.LoadUnitCreateSchemaFile,
                f"a session of the upstream with another time_zone than UTC computed values of the generated column "
                f"{quote(name)} of {qualified(schema, table)}, so {qualified(*target)} would compute others",
                scope="downstream",
                workaround=session_expressions.remedy(target, {there.name: frozenset({session_expressions.TIME_ZONE})}),
            )


def _differing(cfg: SubTaskConfig, conn: Connection[Any]) -> frozenset[str]:
    with closing(connect(cfg.from_, scope="upstream")) as upstream:
        there = computing_settings(upstream)
    return differing(there, computing_settings(conn), dict(cfg.to.session))
