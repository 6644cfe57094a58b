"""Hazard: a statement that lists keys of several columns finds none of the rows, and a DELETE has no effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise, product

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.syncer.rows.row_matching import is_listable
from pkg.mysql.introspect import fetch_table_info
from pkg.mysql.schema import Column
from pkg.mysql.target_values import fetch_target_values

#: Texts by charset, as the row decoder writes them: ASCII as it is, others with their charset.
_TEXTS = {
    "utf8mb4": ("'a'", "'é'", "'aé'"),
    "utf8": ("'a'", "'é'", "'aé'"),
    "latin1": ("'a'", "_latin1 x'e9'", "_latin1 x'61e9'"),
    "gbk": ("'a'", "_gbk x'a8a6'", "_gbk x'61a8a6'"),
    "utf16": ("_utf16 x'0061'", "_utf16 x'00e9'", "_utf16 x'006100e9'"),
    "ascii": ("'a'", "'b'", "'ab'"),
}
#: Literals by type.
_VALUES = {
    "TINYINT": ("1", "2"),
    "BIGINT UNSIGNED": ("1", "2"),
    "DECIMAL(10,2)": ("1.50", "2.25"),
    "DECIMAL(20,4)": ("1.5000", "2.2500"),
    "DOUBLE": ("1.5e0", "2.25e0"),
    "DATE": ("'2020-01-02'", "'2020-01-03'"),
    "DATETIME": ("'2020-01-02 03:04:05'", "'2020-01-02 03:04:06'"),
    "DATETIME(3)": ("'2020-01-02 03:04:05.120'", "'2020-01-02 03:04:05.450'"),
    "TIMESTAMP": ("'2020-01-02 03:04:05'", "'2020-01-02 03:04:06'"),
    "TIMESTAMP(6)": ("'2020-01-02 03:04:05.123456'", "'2020-01-02 03:04:05.450000'"),
    "TIME": ("'10:00:00'", "'-11:00:01'"),
    "TIME(3)": ("'10:00:00.500'", "'11:00:01.250'"),
    "YEAR": ("2020", "2021"),
    "BIT(5)": ("5", "2"),
    "BINARY(3)": ("x'610000'", "x'62ff00'"),
    "VARBINARY(9)": ("x'61'", "x'62ff'"),
    "ENUM('a','b')": ("1", "2"),
    "SET('a','b')": ("1", "2"),
    **{f"VARCHAR(9) CHARACTER SET {charset}": texts for charset, texts in _TEXTS.items()},
    **{f"CHAR(9) CHARACTER SET {charset}": texts for charset, texts in _TEXTS.items()},
}


@pytest.fixture(params=["mariadb", "mysql"])
def server(
    request: pytest.FixtureRequest, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> Iterator[SQLServer]:
    chosen: SQLServer = mariadb_upstream if request.param == "mariadb" else mysql_upstream
    with _database(chosen):
        yield chosen


@contextmanager
def _database(server: SQLServer) -> Iterator[None]:
    server.execute("CREATE DATABASE lists")
    try:
        yield
    finally:
        server.execute("DROP DATABASE lists")


def _columns(server: SQLServer) -> dict[str, Column]:
    """A column of each type, whose table is named by the type's number."""
    made: dict[str, Column] = {}
    with closing(server.connect()) as conn:
        for number, kind in enumerate(_VALUES):
            server.execute(f"CREATE TABLE lists.t{number} (id INT, c {kind} NOT NULL, PRIMARY KEY (id, c))")
            info = fetch_table_info(conn, "lists", f"t{number}")
            assert info is not None
            made[kind] = info.columns[1]
    return made


def _finds(server: SQLServer, number: int, literals: tuple[str, ...]) -> tuple[int, int]:
    """How many of the rows that are written with these literals are found by a list, and one by one."""
    rows = [f"({place},{literal})" for place, literal in enumerate(literals)]
    alone = " OR ".join(f"(id = {place} AND c = {literal})" for place, literal in enumerate(literals))
    count = f"SELECT COUNT(*) FROM lists.t{number} WHERE"
    server.execute(f"DELETE FROM lists.t{number}", f"INSERT INTO lists.t{number} VALUES {','.join(rows)}")
    listed, single = (int(server.execute(f"{count} {way}")[0][0]) for way in (f"(id, c) IN ({','.join(rows)})", alone))
    return listed, single


@pytest.mark.timeout(300)
def test_keys_are_listed_only_where_the_server_finds_them(server: SQLServer) -> None:
    columns = _columns(server)
    with closing(server.connect()) as conn:
        values = fetch_target_values(conn)
    listable = {
        (here, there) for here, there in product(columns, columns) if is_listable(columns[here], columns[there], values)
    }
    lost = [
        (here, there, found)
        for here, there in sorted(listable)
        for found in [_finds(server, [*columns].index(there), _VALUES[here])]
        if found != (len(_VALUES[here]),) * 2
    ]
    assert not lost
    assert {(kind, kind) for kind in columns if kind[:3] not in ("ENU", "SET")} <= listable
    names = [f"VARCHAR(9) CHARACTER SET {charset}" for charset in _TEXTS]
    assert {*pairwise(names)} & listable == {(names[0], names[1])}


def test_a_list_finds_no_text_in_another_charset(mariadb_upstream: MariaDBServer) -> None:
    """What the rule is for. Newer versions of MySQL find it (8.0.46, 8.4 and 9.7)."""
    with _database(mariadb_upstream):
        columns = _columns(mariadb_upstream)
        latin1, utf8mb4 = (f"VARCHAR(9) CHARACTER SET {charset}" for charset in ("latin1", "utf8mb4"))
        assert _finds(mariadb_upstream, [*columns].index(utf8mb4), _VALUES[latin1]) == (1, 3)
