"""Hazard: a row of the target changes, and the checksum of its table does not; or it does without a change."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MySQLServer, SQLServer
from dm_master.cutover.table_checksums import TableSum, read_sums

#: Type → two values that are easily taken for one.
_PAIRS = {
    "INT": ("0", "NULL"),
    "INT(5) UNSIGNED ZEROFILL": ("7", "8"),
    "DECIMAL(20, 4)": ("1.0001", "1.0002"),
    "FLOAT": ("16777216", "16777218"),
    "DOUBLE": ("0.1", "0.10000000000000002"),
    "BIT(9)": ("b'1'", "b'100000000'"),
    "YEAR": ("1999", "2000"),
    "DATE": ("'2024-01-01'", "'0000-00-00'"),
    "TIME(6)": ("'00:00:01.000001'", "'00:00:01.000002'"),
    "DATETIME(3)": ("'2024-01-01 00:00:00.001'", "'2024-01-01 00:00:00.002'"),
    "TIMESTAMP NULL": ("'2024-01-01 00:00:00'", "NULL"),
    "CHAR(5)": ("''", "NULL"),
    "VARCHAR(9)": ("'a'", "'a '"),
    "VARCHAR(9) CHARACTER SET latin1": ("'ä'", "'a'"),
    "VARBINARY(9)": ("x'00'", "x'0000'"),
    "TEXT": ("'A'", "'a'"),
    "LONGBLOB": ("x'FF'", "x'FE'"),
    "ENUM('', 'a')": ("''", "'a'"),
    "SET('a', 'b')": ("'a'", "'a,b'"),
    "JSON": ("'[1]'", "'[\"1\"]'"),
    "POINT": ("POINT(1, 2)", "POINT(2, 1)"),
}
#: MariaDB stores 0 for both.
_OF_MYSQL = {"DOUBLE NULL": ("0e0", "-0e0")}
_TABLE = ("c", "t")


def _sum(server: SQLServer) -> TableSum:
    (found,) = read_sums(server.db_config, [_TABLE])
    return found


@pytest.fixture(params=["mariadb_upstream", "mysql_upstream"])
def server(request: pytest.FixtureRequest) -> SQLServer:
    found: SQLServer = request.getfixturevalue(request.param)
    found.execute("SET sql_mode = ''", "CREATE DATABASE c")
    return found


@pytest.mark.timeout(300)
def test_every_change_of_every_type_changes_the_checksum(server: SQLServer) -> None:
    for kind, (one, other) in (_PAIRS | (_OF_MYSQL if isinstance(server, MySQLServer) else {})).items():
        server.execute("DROP TABLE IF EXISTS c.t", f"CREATE TABLE c.t (id INT PRIMARY KEY, v {kind})")
        with server.connect() as conn, conn.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute(f"INSERT INTO c.t VALUES (1, {one}), (2, {other})")
            conn.commit()
            before = _sum(server)
            assert (before.rows, before.undigested) == (2, 0), kind
            assert _sum(server) == before
            cursor.execute(f"UPDATE c.t SET v = {other} WHERE id = 1")
            conn.commit()
            assert _sum(server).digest != before.digest, kind
            cursor.execute(f"UPDATE c.t SET v = {one} WHERE id = 1")
            conn.commit()
            assert _sum(server) == before, kind


def test_pairs_of_equal_rows_and_shifted_fields_do_not_cancel(server: SQLServer) -> None:
    digests = []
    for rows in (
        "('a', 'b'), ('a', 'b')",
        "('c', 'd'), ('c', 'd')",
        "('ab', ''), ('a', 'b')",
        "('', 'ab'), ('a', 'b')",
    ):
        server.execute(
            "DROP TABLE IF EXISTS c.t",
            "CREATE TABLE c.t (a VARCHAR(9), b VARCHAR(9))",
            f"INSERT INTO c.t VALUES {rows}",
        )
        digests.append(_sum(server).digest)
    assert len({*digests}) == 4


def test_tables_that_are_not_there_have_none(server: SQLServer) -> None:
    server.execute("CREATE TABLE c.empty_one (id INT)")
    found = read_sums(server.db_config, [("c", "empty_one"), ("c", "missing"), ("no", "schema")])
    assert [(one.target, one.rows, one.digest) for one in found] == [(("c", "empty_one"), 0, "0-0-0-0")]
