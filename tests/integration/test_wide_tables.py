"""Hazards: NULL bitmaps, column counts and row formats of wide tables; columns that a SELECT * does not show."""

from __future__ import annotations

import random

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from pkg import errors
from pkg.errors import Code
from tests.integration.binlog_replay import apply_changes, checksum, decode, events_between, here


def _round_trip(server: SQLServer, count: int, engine: str) -> None:
    """Rows with random NULLs; the key is the last column."""
    rnd = random.Random(count)
    names = [f"c{n}" for n in range(count)]
    kinds = ["TINYINT", "TINYINT UNSIGNED NOT NULL", "VARCHAR(3) CHARACTER SET ascii"] if count < 2000 else ["TINYINT"]
    body = ", ".join(f"{name} {kinds[n % len(kinds)]}" for n, name in enumerate(names[:-1]))
    server.execute(
        "CREATE DATABASE w",
        f"CREATE TABLE w.src ({body}, {names[-1]} INT NOT NULL PRIMARY KEY) ENGINE={engine}",
        "CREATE TABLE w.dst LIKE w.src",
    )
    start = here(server)
    statements = []
    for key in range(6):
        values = [
            "NULL" if "NOT" not in kinds[n % len(kinds)] and rnd.random() < 0.4 else str(rnd.randrange(100))
            for n in range(count - 1)
        ]
        statements.append(f"INSERT INTO w.src VALUES ({','.join(values)}, {key})")
    far = names[-2 if count >= 2000 else -4]
    statements += [
        f"UPDATE w.src SET c0 = 7, {far} = NULL, {names[-1]} = {names[-1]} + 10 WHERE {names[-1]} > 2",
        f"DELETE FROM w.src WHERE {names[-1]} = 1",
    ]
    server.execute("SET SESSION sql_mode=''", *statements)
    decoded = decode(server, events_between(server, start, here(server).position), "w", "src", key=[count - 1])
    conn = server.connect()
    apply_changes(conn, "w.dst", names, names[-1:], decoded.changes)
    assert checksum(conn, "w.src") == checksum(conn, "w.dst")
    conn.close()


# More than 2,600 or so do not fit in MariaDB's table definition; 4,096 are tested without a server.
@pytest.mark.parametrize(
    ("count", "engine"),
    [*((count, "InnoDB") for count in (250, 251, 255, 256, 257, 1017)), (2600, "MyISAM")],
)
def test_wide_tables_of_mariadb(mariadb_upstream: MariaDBServer, count: int, engine: str) -> None:
    _round_trip(mariadb_upstream, count, engine)


@pytest.mark.parametrize(("count", "engine"), [(251, "InnoDB"), (1017, "InnoDB")])
def test_wide_tables_of_mysql(mysql_upstream: MySQLServer, count: int, engine: str) -> None:
    _round_trip(mysql_upstream, count, engine)


def test_invisible_and_generated_columns_keep_their_places(mariadb_upstream: MariaDBServer) -> None:
    server = mariadb_upstream
    columns = (
        "v1 INT AS (id * 2) VIRTUAL, id INT INVISIBLE PRIMARY KEY DEFAULT 7,"
        " s VARCHAR(5) CHARACTER SET latin1 INVISIBLE, n INT,"
        " p1 VARCHAR(20) CHARACTER SET utf8mb4 AS (concat(s, 'é')) PERSISTENT,"
        " v2 VARCHAR(9) CHARACTER SET latin1 AS (s) VIRTUAL, p2 BIGINT AS (n + 1) STORED INVISIBLE, KEY (v2)"
    )
    server.execute("CREATE DATABASE w", f"CREATE TABLE w.src ({columns})", "CREATE TABLE w.dst LIKE w.src")
    start = here(server)
    server.execute(
        "INSERT INTO w.src (id, s, n) VALUES (1, 'é', 1), (2, NULL, NULL), (3, '', 3)",
        "INSERT INTO w.src (n) VALUES (9)",
        "UPDATE w.src SET id = id + 10, s = 'ü' WHERE id = 2",
        "DELETE FROM w.src WHERE id = 3",
    )
    decoded = decode(server, events_between(server, start, here(server).position), "w", "src", key=[1])
    conn = server.connect()
    apply_changes(conn, "w.dst", ["id", "s", "n"], ["id"], decoded.changes)
    assert checksum(conn, "w.src") == checksum(conn, "w.dst")
    conn.close()
    names = "v1, id, s, p1, n, v2, p2"
    assert server.execute(f"SELECT {names} FROM w.src ORDER BY id") == server.execute(
        f"SELECT {names} FROM w.dst ORDER BY id"
    )
    assert len(server.execute("SELECT 1 FROM w.dst")) == 3


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_images_without_all_columns_are_refused_and_full_ones_between_them_are_not(
    flavor: str, image: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> None:
    """NOBLOB leaves out what is no blob or did not change; without blobs its images are whole."""
    server: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    server.execute("CREATE DATABASE w", "CREATE TABLE w.src (id INT PRIMARY KEY, v INT, b BLOB)")
    start = here(server)
    server.execute("INSERT INTO w.src VALUES (1, 1, 'a')")
    whole = here(server)
    server.execute(f"SET SESSION binlog_row_image={image}", "UPDATE w.src SET v = 2")
    end = here(server)
    assert len(decode(server, events_between(server, start, whole.position), "w", "src", key=[0]).changes) == 1
    events = events_between(server, whole, end.position)
    with pytest.raises(errors.DMError) as caught:
        decode(server, events, "w", "src", key=[0])
    assert caught.value.kind is Code.BinlogNotLogColumn
    assert "`w`.`src`" in caught.value.message
    assert "binlog_row_image=FULL" in caught.value.workaround
