"""Hazard: check-task passes, and the load then stops at a table that TiDB does not take; or the check leaves something
behind at the target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from deploy.local.mysql import MariaDBServer
from deploy.local.tidb import TiDBServer
from dm_master.precheck import run_prechecks
from dm_master.precheck.result import CheckFinding
from pkg.config.model import SourceConfig
from pkg.config.task import load_task
from pkg.settings.connections import DBConfig

#: Table → its definition, and what the check says of it.
REFUSED: Mapping[str, tuple[str, str]] = {
    "swedish": ("(id INT PRIMARY KEY, a VARCHAR(9)) DEFAULT CHARSET=latin1", "latin1_swedish_ci"),
    "words": ("(id INT PRIMARY KEY, a TEXT, FULLTEXT KEY f (a))", "FULLTEXT `f`"),
    "ids": ("(id UUID PRIMARY KEY)", "`id` uuid"),
    "addresses": ("(id INT PRIMARY KEY, i INET6)", "`i` inet6"),
    "places": ("(id INT PRIMARY KEY, p POINT NOT NULL)", "`p` point"),
    "texts": ("(id INT PRIMARY KEY, t TEXT DEFAULT 'x')", "'t' can't have a default"),
    "functions": ("(id INT PRIMARY KEY, t VARCHAR(9) DEFAULT CONCAT('a','b'))", "column 't'"),
    "counter": (
        "(id INT PRIMARY KEY, n INT AUTO_INCREMENT NULL, KEY (n))",
        "numbers to NULLs in AUTO_INCREMENT columns",
    ),
    "hashes": ("(id INT PRIMARY KEY, t TEXT, UNIQUE KEY h (t) USING HASH)", "1170"),
}
#: The same, for what passes with a warning, or without one.
TAKEN: Mapping[str, tuple[str, str]] = {
    "linear": ("(id INT PRIMARY KEY) PARTITION BY LINEAR HASH (id) PARTITIONS 3", "LINEAR HASH is not supported"),
    "subpartitions": (
        "(id INT, k INT, PRIMARY KEY (id, k)) PARTITION BY RANGE (id) SUBPARTITION BY HASH (k) SUBPARTITIONS 2"
        " (PARTITION p0 VALUES LESS THAN (9))",
        "Unsupported subpartitioning",
    ),
    "long_rows": ("(id INT PRIMARY KEY, v LONGBLOB)", "rows of at most 6291456 bytes"),
    "bytes": ("(id INT PRIMARY KEY, b BINARY(2) DEFAULT x'00FF')", "TiDB stores other bytes"),
    "member": ("(id INT PRIMARY KEY, e ENUM('a', '😀'), f ENUM('b'))", "ENUM or SET member as ?"),
    "plain": ("(id INT PRIMARY KEY AUTO_INCREMENT, v INT, g INT AS (v + 1) STORED, KEY (g)) AUTO_INCREMENT=7", ""),
    "dates": ("(id INT PRIMARY KEY, b BINARY(2) DEFAULT 'a?', d DATETIME DEFAULT '0000-00-00 00:00:00')", ""),
    "child": ("(id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES plain (id))", ""),
}


def _checked(upstream: MariaDBServer, target: DBConfig) -> list[CheckFinding]:
    task = load_task(
        f"name: t\ntask-mode: all\ntarget-database: {{host: 127.0.0.1, port: {target.port}, password: ''}}\n"
        "mysql-instances:\n- {source-id: s1}\n"
    )
    source = SourceConfig("s1", upstream.db_config, flavor="mariadb", server_id=4_000_000)
    results = run_prechecks(replace(task, target=target), {"s1": source}).results
    return [found for check in results if check.name == "target structure check" for found in check.findings]


def test_what_a_tidb_does_not_take_is_named_with_what_to_do(mariadb_upstream: MariaDBServer, tidb: TiDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    mariadb_upstream.execute("CREATE DATABASE old CHARACTER SET latin1", "CREATE TABLE old.t (id INT PRIMARY KEY)")
    for name, (definition, _) in {**TAKEN, **REFUSED}.items():
        mariadb_upstream.execute(f"CREATE TABLE a.{name} {definition}")
    before = tidb.execute("SHOW DATABASES")
    findings = _checked(mariadb_upstream, tidb.db_config)
    assert tidb.execute("SHOW DATABASES") == before
    assert all(found.instruction for found in findings)
    failed = {found.subject: found for found in findings if found.severity == "fail"}
    assert failed.keys() == {"s1", "s1 `old`.`t`", *(f"s1 `a`.`{name}`" for name in REFUSED)}
    for name, (_, text) in REFUSED.items():
        assert text in failed[f"s1 `a`.`{name}`"].message
    assert "the schema `old`" in failed["s1"].message
    warned = {found.message for found in findings if found.severity == "warn"}
    for name, (_, text) in TAKEN.items():
        assert any(text in message and f"`a`.`{name}`" in message for message in warned) is bool(text), name


def test_a_table_that_is_there_needs_no_creation(mariadb_upstream: MariaDBServer, tidb: TiDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    mariadb_upstream.execute(f"CREATE TABLE a.swedish {REFUSED['swedish'][0]}")
    tidb.execute(
        "CREATE DATABASE a", "CREATE TABLE a.swedish (id INT PRIMARY KEY, a VARCHAR(9)) DEFAULT CHARSET=latin1"
    )
    assert _checked(mariadb_upstream, tidb.db_config) == []


def test_a_user_who_may_not_try_is_reported(mariadb_upstream: MariaDBServer, tidb: TiDBServer) -> None:
    mariadb_upstream.execute("CREATE DATABASE a CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    for name in ("swedish", "texts", "ids"):
        mariadb_upstream.execute(f"CREATE TABLE a.{name} {REFUSED[name][0]}")
    tidb.execute("CREATE USER 'few' IDENTIFIED BY 'x'", "GRANT SELECT, CREATE, INSERT ON *.* TO 'few'")
    try:
        findings = _checked(mariadb_upstream, replace(tidb.db_config, user="few", password="x"))
    finally:
        tidb.execute("DROP USER 'few'")
    failed = {found.subject for found in findings if found.severity == "fail"}
    assert failed == {"s1 `a`.`swedish`", "s1 `a`.`ids`"}
    assert ["CREATE TEMPORARY TABLES" in found.instruction for found in findings if found.severity == "warn"] == [True]


def test_the_advised_collation_compares_as_the_upstreams_does(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer
) -> None:
    keys = "(id INT PRIMARY KEY, v VARCHAR(9) NOT NULL, UNIQUE KEY (v)) COLLATE"
    mariadb_upstream.execute(
        "CREATE DATABASE b CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
        f"CREATE TABLE b.e {keys} utf8mb4_unicode_520_ci",
        f"CREATE TABLE b.s {keys} utf8mb4_swedish_ci",
        "INSERT INTO b.e VALUES (1, '😀'), (2, '😁')",
    )
    found = _checked(mariadb_upstream, tidb.db_config)
    said = " ".join(f"{one.message} {one.instruction}" for one in found)
    chosen = dict(re.findall(r"target-collations: \{(\w+): (\w+)\}", said))
    assert chosen == {"utf8mb4_unicode_520_ci": "utf8mb4_0900_ai_ci", "utf8mb4_swedish_ci": "utf8mb4_unicode_ci"}
    tidb.execute("CREATE DATABASE b", f"CREATE TABLE b.e {keys} {chosen['utf8mb4_unicode_520_ci']}")
    tidb.execute("INSERT INTO b.e VALUES (1, '😀'), (2, '😁')")
    # What names no collation there later.
    defaults = [one for one in _checked(mariadb_upstream, tidb.db_config) if "default collation of" in one.message]
    assert [(one.severity, "the schema `b`" in one.message) for one in defaults] == [("warn", True)]
