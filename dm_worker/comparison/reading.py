"""Reads the structures of a pair's tables from their servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.comparison.merged_tables import SourceName
from dm_worker.comparison.pair import NotCompared, TablePair
from dm_worker.comparison.pair_making import SourceStructure, make_pair
from dm_worker.comparison.value_forms import ComparedServer
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.mysql.connection import error_number
from pkg.mysql.introspect import fetch_table_info, query, server_info
from pkg.mysql.names import TableId, qualified
from pkg.mysql.target_values import fetch_target_values

#: A name that is no built-in function is one of the session's schema: there is no schema, or no such function in it, or
#: no right to execute it.
_NO_FUNCTION = frozenset({1046, 1305, 1370})


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session of an upstream, with the rules of its source; None without rules."""

    conn: Connection[Any]
    server: ComparedServer
    rules: TaskRules | None = None


def compared_server(conn: Connection[Any]) -> ComparedServer:
    """The traits of a server that decide the forms. Raises ``pymysql.Error``."""
    info = server_info(conn)
    values = fetch_target_values(conn)
    unicode_only = not values.text_by_bytes
    negative_zero = values.negative_zero and info.flavor != "mariadb"
    return ComparedServer(info.flavor, info.tells_json_types, unicode_only, negative_zero, _has_sha1(conn))


def _has_sha1(conn: Connection[Any]) -> bool:
    try:
        query(conn, "SELECT SHA1('')")
    except pymysql.Error as exc:
        if error_number(exc) not in _NO_FUNCTION:
            raise
        return False
    return True


def read_pair(
    upstream: Sequence[SourceSession], sources: Sequence[SourceName], target: Connection[Any], name: TableId
) -> TablePair | NotCompared:
    """The pair of the target's table ``name`` and the upstream tables ``sources``, whose sessions are in ``upstream``.

    Raises ``pymysql.Error``, and DMError as :func:`make_pair` and for rules that do not fit a table.
    """
    there = fetch_table_info(target, *name)
    if there is None:
        return NotCompared(name, f"there is no table {qualified(*name)} at the target")
    structures = []
    for source in sources:
        session = upstream[source.connection]
        info = fetch_table_info(session.conn, source.schema, source.table)
        if info is None:
            return NotCompared(name, f"there is no table {qualified(source.schema, source.table)} in the upstream")
        rules = session.rules.of_table(info) if session.rules is not None else None
        more = (rules,) if rules is not None else ()
        structures.append(SourceStructure(source.connection, info, session.server, *more))
    if not structures:
        return NotCompared(name, "no upstream table gives it rows")
    return make_pair(structures, there, compared_server(target))
