"""Hazards: reading many structures at once gives others than reading them one by one, or asks as often."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from pkg.mysql import introspect
from pkg.mysql.introspect import fetch_table_info, fetch_table_infos
from tests.harness.mysql import MariaDBServer, MySQLServer, SQLServer

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
