"""Every decision of an expression filter is the real server's: random expressions over rows with edge values."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import timedelta, timezone
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymysql.connections import Connection

from pkg.errors import DMError
from pkg.expression_filter import Filter, compile_filter
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.schema import Column
from tests.harness.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.integration.expressions import COLUMNS, CONDITIONS, VALUES

ZONE = timezone(timedelta(hours=5, minutes=30))
ROWS = 24
BATCH = 40
#: More by hand: EXPRESSION_BATCHES=2000.
BATCHES = int(os.environ.get("EXPRESSION_BATCHES", "25"))
OUT_OF_RANGE = 1690
HOW_READ = {
    **dict.fromkeys(("s", "c", "l", "r"), "HEX({})"),
    **dict.fromkeys(("e", "m", "bi"), "CAST({} + 0 AS UNSIGNED)"),
    **dict.fromkeys(("f", "g"), "{} + 0e0"),
}


class Table:
    """A filled table, its structure, and its rows as the decoder's literals."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        self._fill()
        info = fetch_table_info(conn, "filters", "t")
        assert info is not None
        self.columns: tuple[Column, ...] = info.columns
        self.flavor = "mariadb" if "MariaDB" in conn.get_server_info() else "mysql"
        self.rows = self._literals()

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with self.conn.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def _fill(self) -> None:
        self.run("CREATE DATABASE IF NOT EXISTS filters")
        self.run("DROP TABLE IF EXISTS filters.t")
        self.run("USE filters")
        self.run("SET sql_mode = '', time_zone = '+00:00'")
        definitions = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        self.run(f"CREATE TABLE t (id INT PRIMARY KEY, {definitions})")
        dice = random.Random(4)
        for n in range(ROWS):
            values = [dice.choice(VALUES[name]) if dice.random() < 0.9 else "NULL" for name in COLUMNS]
            self.run(f"INSERT INTO t VALUES ({n}, {', '.join(values)})")

    def _literals(self) -> list[list[bytes]]:
        reads = [HOW_READ.get(name, "CAST({} AS CHAR)").format(name) for name in COLUMNS]
        rows = self.run(f"SELECT id, {', '.join(reads)} FROM t ORDER BY id")
        self.run("SET sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+05:30'")
        self.run("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci")
        return [[literal(name, value) for name, value in zip(("id", *COLUMNS), row, strict=True)] for row in rows]

    def filter(self, expression: str) -> Filter | None:
        """None for an expression that is refused."""
        try:
            return compile_filter(expression, self.columns, zone=ZONE, flavor=self.flavor)
        except DMError as exc:
            assert exc.code == 20041, exc
            return None

    def expected(self, expressions: list[str]) -> list[list[bool | None]]:
        """For each expression the server's decision for each row, None where it overflows; [] when it is an error."""
        wanted = ", ".join(f"({expression}) IS TRUE" for expression in expressions)
        try:
            rows = self.run(f"SELECT {wanted} FROM t ORDER BY id")
        except pymysql.Error:
            if len(expressions) > 1:
                return [self.expected([expression])[0] for expression in expressions]
            return [self._decisions(expressions[0])]
        return [[bool(value) for value in column] for column in zip(*rows, strict=True)]

    def _decisions(self, expression: str) -> list[bool | None]:
        decisions: list[bool | None] = []
        for row in range(ROWS):
            try:
                decisions.append(bool(self.run(f"SELECT ({expression}) IS TRUE FROM t WHERE id = {row}")[0][0]))
            except pymysql.Error as exc:
                if exc.args[0] != OUT_OF_RANGE:
                    return []
                decisions.append(None)
        return decisions

    def decided(self, compiled: Filter) -> list[bool | None]:
        """Our decisions; None where there is none."""
        decisions: list[bool | None] = []
        for row in self.rows:
            try:
                decisions.append(compiled.matches(row))
            except DMError as exc:
                assert exc.code == 36017, exc
                decisions.append(None)
        return decisions


def literal(name: str, value: object) -> bytes:
    """What the row decoder gives for a column's value."""
    if value is None:
        return b"NULL"
    text = str(value)
    if name == "r":
        return b"x'%b'" % text.encode()
    if name in ("s", "c", "l"):
        raw = bytes.fromhex(text)
        if name == "l" and not raw.isascii():
            return b"_latin1 x'%b'" % raw.hex().encode()
        return b"'%b'" % raw.replace(b"\\", b"\\\\").replace(b"'", b"\\'")
    if name in ("da", "dt", "ts", "ti"):
        return b"'%b'" % text.encode()
    return f"{value!r}".encode() if isinstance(value, float) else text.encode()
