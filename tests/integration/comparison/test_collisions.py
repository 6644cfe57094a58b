"""Hazard: different rows that a comparison calls equal, as tools do whose digests join values, skip NULL or cancel
pairs; and equal rows that it calls different."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from deploy.local.mysql import SQLServer
from tests.integration.comparison.support import PAIRS, compare


@dataclass(frozen=True)
class Collision:
    """Values of a row in pairs that must be told apart, ``one`` in the upstream. ``columns`` are those that differ.

    ``types`` and ``target``: the columns on each side, the same without ``target``.
    """

    name: str
    types: str
    one: str
    another: str
    columns: str
    target: str = ""
    only: str = ""

    @property
    def same(self) -> str:
        """Values that both sides can store."""
        return "'ä'" if self.target else self.another


COLLISIONS = (
    Collision("delimiter shift", "a VARCHAR(20), b VARCHAR(20)", "'a,b', 'c'", "'a', 'b,c'", "a b"),
    Collision("delimiter shift in blobs", "a BLOB, b BLOB", "'a,b', 'c'", "'a', 'b,c'", "a b"),
    Collision("shift of a length", "a VARCHAR(20), b VARCHAR(20)", "'1:a', ''", "'1', ':a'", "a b"),
    Collision("float 0 and NULL", "a FLOAT", "0", "NULL", "a"),
    Collision("float 0 and -0", "a FLOAT", "0e0", "-0e0", "a", only="mysql-mysql"),
    Collision("double 0 and -0", "a DOUBLE", "0e0", "-0e0", "a", only="mysql-mysql"),
    Collision("empty text and NULL", "a VARCHAR(5)", "''", "NULL", "a"),
    Collision("empty blob and NULL", "a BLOB", "''", "NULL", "a"),
    Collision("the word for NULL", "a VARCHAR(5)", "'N'", "NULL", "a"),
    Collision("NULL beside another column", "a INT, b INT", "NULL, 1", "1, NULL", "a b"),
    Collision("permuted columns", "a VARCHAR(5), b VARCHAR(5)", "'x', 'y'", "'y', 'x'", "a b"),
    Collision("trailing space", "a VARCHAR(5)", "'x'", "'x '", "a"),
    Collision("trailing space in text", "a TEXT", "'x'", "'x '", "a"),
    Collision("trailing zero byte", "a VARBINARY(5)", "x'61'", "x'6100'", "a"),
    Collision("letter case", "a VARCHAR(5)", "'x'", "'X'", "a"),
    Collision("accent", "a VARCHAR(5)", "'e'", "'é'", "a"),
    Collision("ENUM number 0 and a member without text", "a ENUM('','x')", "''", "0", "a"),
    Collision("ENUM members", "a ENUM('x','y')", "'x'", "'y'", "a"),
    Collision(
        "SET of 64 members", f"a SET({','.join(repr(f'm{i}') for i in range(64))})", "1", "9223372036854775809", "a"
    ),
    Collision("zero date and NULL", "a DATE", "'0000-00-00'", "NULL", "a"),
    Collision("zero date and zero day", "a DATE", "'2020-00-00'", "'2020-01-00'", "a"),
    Collision("zero time stamp and NULL", "a TIMESTAMP NULL", "'0000-00-00 00:00:00'", "NULL", "a"),
    Collision("fraction of a second", "a DATETIME(6)", "'2020-01-01 00:00:00.000001'", "'2020-01-01 00:00:00'", "a"),
    Collision("time below zero", "a TIME(3)", "'-00:00:00.500'", "'00:00:00.500'", "a"),
    Collision("time stamp", "a TIMESTAMP(3) NULL", "'2020-01-01 00:00:00.001'", "'2020-01-01 01:00:00.001'", "a"),
    Collision("unsigned", "a BIGINT UNSIGNED", "18446744073709551615", "18446744073709551614", "a"),
    Collision("big integers", "a BIGINT", "9007199254740993", "9007199254740992", "a"),
    Collision("last bit of a float", "a FLOAT", "16777215", "16777214", "a"),
    Collision("last bit of a float's fraction", "a FLOAT", "0.1", "0.10000001", "a"),
    Collision("last bit of a double", "a DOUBLE", "0.30000000000000004", "0.3", "a"),
    Collision("decimal", "a DECIMAL(65,30)", "0.000000000000000000000000000001", "0", "a"),
    Collision("bits", "a BIT(64)", "b'1'", "b'1000000000000000000000000000000000000000000000000000000000000001'", "a"),
    Collision("year", "a YEAR", "0", "2000", "a"),
    Collision("point", "a GEOMETRY", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(2 1)')", "a"),
    Collision("quotes", "a VARCHAR(9), b VARCHAR(9)", r"'\'', '\\'", r"'\\', '\''", "a b"),
    Collision("NUL and newline", "a VARCHAR(9)", r"'\0\n'", r"'\0'", "a"),
    Collision("long texts", "a LONGTEXT", "REPEAT('x', 3000000)", "CONCAT(REPEAT('x', 2999999), 'y')", "a"),
    Collision("order of a document's members", "a JSON", '\'{"a": 1, "b": 2}\'', '\'{"a": 2, "b": 1}\'', "a"),
    Collision("number of a document", "a JSON", "'{\"a\": 1}'", "'{\"a\": 1.5}'", "a"),
    Collision("string of a document", "a JSON", "'{\"a\": 1}'", '\'{"a": "1"}\'', "a"),
    Collision("invisible column", "a INT, z INT INVISIBLE DEFAULT 5", "1", "2", "a", only="mariadb-mariadb"),
    Collision(
        "UUID",
        "a UUID",
        f"'{'1' * 8}-1111-1111-1111-{'1' * 12}'",
        f"'{'1' * 8}-1111-1111-1111-{'1' * 11}2'",
        "a",
        only="mariadb-mariadb",
    ),
    Collision("INET6", "a INET6", "'::1'", "'::2'", "a", only="mariadb-mariadb"),
    Collision("mapped address", "a INET6", "'::ffff:1.2.3.4'", "'::1.2.3.4'", "a", only="mariadb-mariadb"),
    Collision("letters of latin1", "a VARCHAR(5) CHARACTER SET latin1", "'ä'", "'ö'", "a"),
    Collision("characters of gbk", "a VARCHAR(5) CHARACTER SET gbk", "'啊'", "'阿'", "a"),
    Collision(
        "charset twin with the same bytes",
        "a VARCHAR(5) CHARACTER SET latin1",
        "'Ã¤'",
        "'ä'",
        "a",
        target="a VARCHAR(5) CHARACTER SET utf8mb4",
    ),
    Collision(
        "charset twin",
        "a VARCHAR(5) CHARACTER SET latin1",
        "'ä'",
        "'Ã¤'",
        "a",
        target="a VARCHAR(5) CHARACTER SET utf8mb4",
    ),
    Collision(
        "charset twin, back",
        "a VARCHAR(5) CHARACTER SET utf8mb4",
        "'语'",
        "'?'",
        "a",
        target="a VARCHAR(5) CHARACTER SET latin1",
    ),
)
#: Each on every pair of servers that has the type, or stores such a value.
ON_PAIRS = [
    pytest.param(pair, one, id=f"{pair}-{one.name}")
    for one in COLLISIONS
    for pair in ([one.only] if one.only else PAIRS)
]
SCHEMA = "corpus"


def create(server: SQLServer, case: Collision, types: str, first: str, name: str, *, schema: str = SCHEMA) -> None:
    """A table with the row that is told apart, and rows that are the same on both sides."""
    key = "PRIMARY KEY" if name.startswith("keyed") else ""
    rows = [first, case.same, case.same if case.target else case.one]
    conn = server.connect(database=schema)
    with conn, conn.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'")
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute(f"CREATE TABLE {name} (id INT {key}, {types})")
        for number, row in enumerate(rows, 1):
            cursor.execute(f"INSERT INTO {name} VALUES ({number}, {row})")


@pytest.mark.parametrize("key", ["keyed", "keyless"])
@pytest.mark.parametrize(("sides", "case"), ON_PAIRS, indirect=["sides"])
def test_values_are_told_apart_and_equal_ones_are_equal(
    case: Collision, key: str, sides: tuple[SQLServer, SQLServer]
) -> None:
    upstream, target = sides
    for server, types, first in ((upstream, case.types, case.one), (target, case.target or case.types, case.another)):
        server.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
        create(server, case, types, first, key)
    for streamed in (False, True):
        found = compare(upstream, target, schema=SCHEMA, table=key, streamed=streamed)
        assert found.outcome.rows == (3, 3)
        assert found.kinds == (["changed"] if key == "keyed" else ["extra", "missing"]), found.differences
        for one in found.differences if key == "keyed" else ():
            assert (one.key, one.counts, " ".join(one.columns)) == ((b"1",), (1, 1), case.columns)
            # The literal of an ENUM's number 0 is that of a member without text.
            assert one.upstream != one.target or "ENUM" in case.name
