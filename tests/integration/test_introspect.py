"""Hazards: reading many structures at once gives others than reading them one by one, or asks as often."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from pkg.mysql import introspect
from pkg.mysql.foreign_key_introspect import fetch_table_keys, shown_keys
from pkg.mysql.introspect import fetch_table_info, fetch_table_infos

TABLES = {
    "plain": "(a INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, b VARCHAR(9) DEFAULT 'x' COLLATE utf8mb4_bin)",
    "keys": "(a INT, b CHAR(3) NOT NULL, c BLOB, UNIQUE KEY u (b, a), KEY k (c(7)))",
    "bare": "(t TEXT) CHARSET latin1 ENGINE MyISAM",
    "Child": "(a INT PRIMARY KEY, p INT UNSIGNED, FOREIGN KEY (p) REFERENCES d.plain (a))",
    "we`ird": "(`col``umn` ENUM('a', 'b') NOT NULL, UNIQUE (`col``umn`))",
}


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_structures_read_at_once_equal_those_read_one_by_one(
    flavor: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    server.execute("CREATE DATABASE d", "USE d", "CREATE VIEW v AS SELECT 1")
    for name, body in TABLES.items():
        server.execute(f"CREATE TABLE d.`{name.replace('`', '``')}` {body}")
    server.execute("USE d", *(f"CREATE TABLE t{i} (id INT PRIMARY KEY, v{i} INT)" for i in range(60)))
    names = [*TABLES, *(f"t{i}" for i in range(60))]
    asked: list[str] = []
    query = introspect.query

    def counted(*args: Any) -> list[tuple[Any, ...]]:
        asked.append(args[1])
        return query(*args)

    with closing(server.connect()) as conn:
        expected = {name: fetch_table_info(conn, "d", name) for name in names}
        monkeypatch.setattr(introspect, "query", counted)
        assert fetch_table_infos(conn, "d", [*names, "absent", "v"]) == expected
        assert len(asked) < 10
        few = fetch_table_infos(conn, "d", ["Child", "absent"])
        assert few == {"Child": expected["Child"]}
        assert fetch_table_infos(conn, "absent", ["t1"]) == {}


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_prefixes_of_large_columns_are_never_taken_for_whole_columns(
    flavor: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> None:
    """MySQL 8 hides those of 8 bytes: rows that differ only after them would seem to have different keys."""
    server: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    server.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a BLOB NOT NULL, b TEXT CHARACTER SET utf8mb4, c TINYTEXT CHARACTER SET ucs2, d VARCHAR(8),"
        " e TEXT, PRIMARY KEY (a(8)), UNIQUE KEY b (b(2), c(4)), UNIQUE KEY d (d), KEY b3 (b(3)), FULLTEXT KEY e (e))",
    )
    with closing(server.connect()) as conn:
        found = fetch_table_info(conn, "d", "t")
    assert found is not None
    parts = {index.name: [(part.column, part.length) for part in index.parts] for index in found.indexes}
    assert parts == {
        "PRIMARY": [("a", 8)],
        "b": [("b", 2), ("c", 4)],
        "d": [("d", 0)],
        "b3": [("b", 3)],
        "e": [("e", 0)],
    }


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_every_server_lists_indexes_in_one_order(
    flavor: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> None:
    """The first of several unique keys distinguishes rows; MySQL 8 sorts their names by another collation."""
    server: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    names = ("_a", "a_b", "aB", "PRIMARY", "p_k", "pz", "z")
    keys = ", ".join(f"UNIQUE KEY `{name}` (a)" for name in names if name != "PRIMARY")
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.t (a INT PRIMARY KEY, {keys})")
    with closing(server.connect()) as conn:
        found = fetch_table_info(conn, "d", "t")
    assert found is not None
    assert [index.name for index in found.indexes] == ["aB", "a_b", "PRIMARY", "pz", "p_k", "z", "_a"]


def test_names_of_a_server_that_folds_case(mariadb_upstream: MariaDBServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with lower_case_table_names=1: there Orders is stored as orders."""
    mariadb_upstream.execute("CREATE DATABASE d", "CREATE TABLE d.orders (id INT PRIMARY KEY)")
    variable = introspect.variable
    monkeypatch.setattr(
        introspect, "variable", lambda conn, name: "1" if name == "lower_case_table_names" else variable(conn, name)
    )
    with closing(mariadb_upstream.connect()) as conn:
        found = fetch_table_infos(conn, "d", ["Orders"])
    assert [(key, info.name, info.primary_key is not None) for key, info in found.items()] == [
        ("Orders", "Orders", True)
    ]


KEYS = (
    "CREATE TABLE d.p (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, UNIQUE (b, a))",
    "CREATE TABLE e.`q``1` (`i``d` INT PRIMARY KEY)",
    "CREATE TABLE d.several (id INT PRIMARY KEY, p INT, q INT, a INT, b INT, FOREIGN KEY (p) REFERENCES d.p (id),"
    " FOREIGN KEY (q) REFERENCES e.`q``1` (`i``d`) ON DELETE CASCADE ON UPDATE SET NULL,"
    " FOREIGN KEY (b, a) REFERENCES d.p (b, a) ON DELETE RESTRICT ON UPDATE CASCADE)",
    "CREATE TABLE e.own (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES own (id) ON DELETE NO ACTION)",
    "CREATE VIEW d.v AS SELECT * FROM d.p",
)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_keys_of_single_tables_equal_those_of_all(
    flavor: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> None:
    server: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    server.execute("CREATE DATABASE d", "CREATE DATABASE e", "USE e", *KEYS)
    if flavor == "mariadb":
        server.execute("CREATE SEQUENCE d.s", "CREATE TABLE d.versions (id INT) WITH SYSTEM VERSIONING")
    names = [("d", "p"), ("d", "several"), ("d", "v"), ("d", "s"), ("d", "versions"), ("d", "absent")]
    names += [("e", "q`1"), ("e", "own"), ("absent", "p")]
    with closing(server.connect()) as conn:
        found = fetch_table_keys(conn)
        shown = {name: keys for name in names if (keys := shown_keys(conn, name)) is not None}
    assert sorted(found) == [("d", "p"), ("d", "several"), ("e", "own"), ("e", "q`1")]
    assert [len(keys) for _, keys in sorted(found.items())] == [0, 3, 1, 0]
    # In another order: keys have names, which do not count.
    assert {table: set(keys) for table, keys in shown.items()} == {table: set(keys) for table, keys in found.items()}
