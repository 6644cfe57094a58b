"""Every column type, decoded from a real server's binlog, must come back bit for bit."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from pkg.binlog.rows.jsonb import to_sql, to_text
from tests.integration.binlog_replay import SESSION, apply_changes, checksum, decode, events_between, here
from tests.integration.sql_values import COMMON_COLUMNS, MARIADB_COLUMNS, binary, value_for
from tests.unit.pkg.binlog.support import TYPED, TYPED_SCALAR


def _make_tables(server: SQLServer, columns: dict[str, str]) -> None:
    body = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    server.execute(
        "SET SESSION sql_mode=''",
        "CREATE DATABASE types",
        f"CREATE TABLE types.src (id BIGINT NOT NULL, k2 VARBINARY(9) NOT NULL, {body}, PRIMARY KEY (id, k2))",
        "CREATE TABLE types.dst LIKE types.src",
    )


def _write_rows(server: SQLServer, columns: dict[str, str], seed: int) -> None:
    """Inserts, updates (also of the key) and deletes, in an upstream session of its own time zone and mode."""
    rnd = random.Random(seed)
    own = {name: kind for name, kind in columns.items() if " AS " not in kind}
    conn = server.connect()
    with conn.cursor() as cursor:
        cursor.execute("SET SESSION time_zone='+05:30', sql_mode='ALLOW_INVALID_DATES'")
        names = ",".join(f"`{name}`" for name in ("id", "k2", *own))
        for first in range(0, 120, 6):
            rows = [
                f"({n},{binary(rnd, 9)},{','.join(value_for(kind, rnd) for name, kind in own.items())})"
                for n in range(first, first + 6)
            ]
            cursor.execute(f"INSERT INTO types.src ({names}) VALUES {','.join(rows)}")
        for n in range(0, 120, 3):
            some = rnd.sample(sorted(own), 9)
            sets = ",".join(f"`{name}`={value_for(own[name], rnd)}" for name in some)
            cursor.execute(f"UPDATE types.src SET {sets} WHERE id={n}")
        cursor.execute("UPDATE types.src SET id=id+1000 WHERE id % 7 = 0")
        cursor.execute("UPDATE types.src SET k2=concat(k2,'x') WHERE id % 11 = 0 AND length(k2) < 9")
        cursor.execute("DELETE FROM types.src WHERE id % 5 = 0")
    conn.close()


def _assert_same(conn: Any, columns: dict[str, str]) -> None:
    """Names the differing columns, then compares the tables as a whole."""
    shown = {"FLOAT": "{}+0e0", "DOUBLE": "{}+0e0", "BIT": "{}+0"}
    with conn.cursor() as cursor:
        for name in ("k2", *columns):
            value = shown.get(columns.get(name, "").split("(")[0], "HEX({})")
            pair = [value.format(f"{side}.`{name}`") for side in ("s", "d")]
            cursor.execute(
                f"SELECT s.id, {pair[0]}, {pair[1]} FROM types.src s LEFT JOIN types.dst d ON s.id=d.id AND s.k2=d.k2 "
                f"WHERE NOT ({pair[0]} <=> {pair[1]}) LIMIT 3"
            )
            assert cursor.fetchall() == (), name
    assert checksum(conn, "types.src") == checksum(conn, "types.dst")


def _round_trip(server: SQLServer, columns: dict[str, str], seed: int) -> None:
    _make_tables(server, columns)
    start = here(server)
    _write_rows(server, columns, seed)
    end = here(server)
    decoded = decode(server, events_between(server, start, end.position), "types", "src", key=[0, 1])
    assert {op for op, *_ in decoded.changes} == {0, 1, 2}
    assert any(key != old for op, key, _, old in decoded.changes if op == 1)
    own = ["id", "k2", *(name for name, kind in columns.items() if " AS " not in kind)]
    conn = server.connect()
    apply_changes(conn, "types.dst", own, ["id", "k2"], decoded.changes)
    _assert_same(conn, columns)
    _apply_images(conn, ["id", "k2", *columns], own, decoded.images)
    _assert_same(conn, columns)
    conn.close()


def _apply_images(conn: Any, all_columns: list[str], own: list[str], images: Any) -> None:
    """The complete form: every row found by all its old values."""
    head = f"INSERT INTO types.dst ({','.join(f'`{n}`' for n in own)}) VALUES (".encode()
    with conn.cursor() as cursor:
        cursor.execute(SESSION)
        cursor.execute("DELETE FROM types.dst")
        for _, before, after in images:
            if before is not None:
                pairs = zip(all_columns, before, strict=True)
                tests = b" AND ".join(b"`%b` <=> %b" % (name.encode(), literal) for name, literal in pairs)
                cursor.execute(b"DELETE FROM types.dst WHERE " + tests + b" LIMIT 1")
                assert cursor.rowcount == 1, tests
            if after is not None:
                written = [lit for n, lit in zip(all_columns, after, strict=True) if n in own]
                cursor.execute(head + b",".join(written) + b")")


@pytest.mark.parametrize("seed", [1, 2])
def test_every_mariadb_type_survives(mariadb_upstream: MariaDBServer, seed: int) -> None:
    _round_trip(mariadb_upstream, {**COMMON_COLUMNS, **MARIADB_COLUMNS}, seed)


@pytest.mark.parametrize("seed", [3, 4])
def test_every_mysql_type_survives(mysql_upstream: MySQLServer, seed: int) -> None:
    _round_trip(mysql_upstream, COMMON_COLUMNS, seed)


def test_sql_types_inside_binary_json_are_expressions_that_the_server_understands(
    mariadb_upstream: MariaDBServer,
) -> None:
    """MariaDB keeps JSON as text, so its functions must make the text that the document stands for."""
    for document in (TYPED, TYPED_SCALAR):
        expression = to_sql(document).decode()
        ((made,),) = mariadb_upstream.execute(f"SELECT {expression}".replace("%", "%%"))
        assert json.loads(made, parse_float=Decimal) == json.loads(to_text(document), parse_float=Decimal)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_values_of_every_length_survive(
    flavor: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> None:
    """Around every size at which lengths take another byte, and events another packet."""
    server: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    columns = {
        "varchar255": "VARCHAR(255) CHARACTER SET latin1",
        "varchar256": "VARCHAR(256) CHARACTER SET latin1",
        "varchar85": "VARCHAR(85) CHARACTER SET utf8",
        "varchar86": "VARCHAR(86) CHARACTER SET utf8",
        "varbinary255": "VARBINARY(255)",
        "varbinary256": "VARBINARY(256)",
        **{kind: kind for kind in ("tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext")},
        "longtext": "LONGTEXT CHARACTER SET latin1",
    }
    body = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    server.execute(
        "CREATE DATABASE types", f"CREATE TABLE types.src (id INT PRIMARY KEY, {body}) ENGINE=MyISAM",
        "CREATE TABLE types.dst LIKE types.src",
    )  # fmt: skip
    start = here(server)
    inserts = [
        f"INSERT INTO types.src VALUES ({size}{f', REPEAT(0x41, {size})' * len(columns)})"
        for size in (0, 85, 86, 254, 255, 256, 257, 65535, 65536)
    ]
    huge = "INSERT INTO types.src (id, `longblob`) VALUES (1, REPEAT(x'ff', 16777300))"
    server.execute("SET SESSION sql_mode=''", *inserts, huge)
    decoded = decode(server, events_between(server, start, here(server).position), "types", "src", key=[0])
    conn = server.connect()
    apply_changes(conn, "types.dst", ["id", *columns], ["id"], decoded.changes)
    assert checksum(conn, "types.src") == checksum(conn, "types.dst")
    conn.close()
