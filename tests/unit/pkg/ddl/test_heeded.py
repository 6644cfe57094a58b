"""Hazard: the target does with a statement what the upstream only read, or leaves out what the upstream did."""

from __future__ import annotations

import pytest

from pkg.ddl import as_heeded, parse

Version = tuple[str, tuple[int, int, int]]
MYSQL_57: Version = ("mysql", (5, 7, 44))
MYSQL_84: Version = ("mysql", (8, 4, 0))
MYSQL_9: Version = ("mysql", (9, 0, 0))
MARIADB_104: Version = ("mariadb", (10, 4, 34))
MARIADB: Version = ("mariadb", (10, 11, 6))


def _heeded(sql: str, server: Version) -> str | None:
    flavor, version = server
    left = as_heeded(parse(sql, default_schema="d", flavor=flavor, version=version))
    return None if left is None else " ".join(left.sql.split())


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        (
            "CREATE TABLE t (CHECK (a > 0), CONSTRAINT x CHECK (b), a INT CONSTRAINT y CHECK (a > ',') NOT NULL, "
            "CHECK (a < 9), KEY (a), b INT CHECK (b), CHECK (b > 0))",
            "CREATE TABLE t ( a INT NOT NULL, KEY (a), b INT )",
        ),
        ("ALTER TABLE t ADD CHECK (a > 0)", None),
        ("ALTER TABLE t ADD CHECK (a), ADD CONSTRAINT x CHECK (b)", None),
        ("ALTER TABLE t ADD CHECK (a), ADD CHECK (b), ADD c INT, ADD CHECK (c)", "ALTER TABLE t ADD c INT"),
        ("ALTER TABLE t ADD c INT, ADD CHECK (c), ADD d INT", "ALTER TABLE t ADD c INT, ADD d INT"),
        ("ALTER TABLE t ADD (CHECK (a), c INT, CHECK (c)), ADD (CHECK (b))", "ALTER TABLE t ADD ( c INT)"),
        ("ALTER TABLE t MODIFY c INT /*!50000 CHECK (c) */ FIRST", "ALTER TABLE t MODIFY c INT FIRST"),
        ("ALTER TABLE t ADD checked INT", "ALTER TABLE t ADD checked INT"),
    ],
)
def test_mysql_before_8_0_16_keeps_no_checks(sql: str, left: str | None) -> None:
    assert _heeded(sql, MYSQL_57) == left
    for server in (MYSQL_84, MARIADB_104, MARIADB):
        assert _heeded(sql, server) == " ".join(sql.split())


@pytest.mark.parametrize(
    ("sql", "without", "as_key"),
    [
        (
            "CREATE TABLE t (a INT REFERENCES p (id) ON DELETE CASCADE, b INT)",
            "CREATE TABLE t (a INT , b INT)",
            "CREATE TABLE t (a INT , FOREIGN KEY (`a`) REFERENCES p (id) ON DELETE CASCADE, b INT)",
        ),
        (
            "ALTER TABLE t ADD `b``` INT NULL REFERENCES p (id) AFTER a, ADD c INT",
            "ALTER TABLE t ADD `b``` INT NULL AFTER a, ADD c INT",
            "ALTER TABLE t ADD `b``` INT NULL AFTER a, ADD FOREIGN KEY (`b```) REFERENCES p (id), ADD c INT",
        ),
        (
            "ALTER TABLE t ADD (a INT CONSTRAINT k REFERENCES p (id), b INT)",
            "ALTER TABLE t ADD (a INT , b INT)",
            "ALTER TABLE t ADD (a INT , CONSTRAINT k FOREIGN KEY (`a`) REFERENCES p (id), b INT)",
        ),
    ],
)
def test_a_columns_own_reference_is_nothing_or_a_key_of_the_table(sql: str, without: str, as_key: str) -> None:
    for server in (MYSQL_57, MYSQL_84, MARIADB_104):
        assert _heeded(sql, server) == without
    for server in (MYSQL_9, MARIADB):
        assert _heeded(sql, server) == as_key


def test_a_statement_of_an_unknown_server_stays() -> None:
    sql = "CREATE TABLE t (a INT CHECK (a > 0) REFERENCES p (id))"
    for flavor in ("", "mysql", "mariadb"):
        statement = parse(sql, default_schema="d", flavor=flavor)
        assert as_heeded(statement) is statement
