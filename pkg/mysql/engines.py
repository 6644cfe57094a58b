"""Tables that cannot roll back: their changes stay, even when the transaction is rolled back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymysql.connections import Connection

from pkg.mysql.introspect import query
from pkg.mysql.names import qualified

#: The item of ``ignore-checking-items`` with which an operator accepts such tables.
IGNORE = "table_engine"


def engines_without_transactions(conn: Connection[Any]) -> frozenset[str]:
    """Lower-case names of the engines that can't roll back. Raises pymysql.Error."""
    rows = query(conn, "SELECT ENGINE, TRANSACTIONS FROM information_schema.ENGINES")
    return frozenset(str(engine).lower() for engine, transactions in rows if str(transactions).upper() != "YES")


def tables_without_transactions(
    conn: Connection[Any], tables: Iterable[tuple[str, str]]
) -> list[tuple[tuple[str, str], str]]:
    """Those of ``tables`` that can't roll back, with their engines. Raises pymysql.Error."""
    wanted = {(schema.lower(), name.lower()) for schema, name in tables}
    schemas = sorted({schema for schema, _ in wanted})
    if not schemas:
        return []
    rows = query(
        conn,
        "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM information_schema.TABLES"
        f" WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA IN ({', '.join(['%s'] * len(schemas))})",
        tuple(schemas),
    )
    unsafe = engines_without_transactions(conn)
    found = [((str(schema), str(name)), str(engine or "")) for schema, name, engine in rows]
    return sorted(
        (table, engine)
        for table, engine in found
        if engine.lower() in unsafe and (table[0].lower(), table[1].lower()) in wanted
    )


def problem(table: tuple[str, str], engine: str) -> str:
    """The message for a table with ``engine``."""
    return (
        f"the target table {qualified(*table)} has the engine {engine}, which can't roll back: rows would be "
        "duplicated or lost when a transaction is interrupted"
    )


def remedy(table: tuple[str, str]) -> str:
    """The operator action for it."""
    return f"Run ALTER TABLE {qualified(*table)} ENGINE=InnoDB at the target."


def exemption() -> str:
    """How an operator accepts such tables."""
    return f"Or add `{IGNORE}` to ignore-checking-items; then exactly-once is not guaranteed for such tables."
