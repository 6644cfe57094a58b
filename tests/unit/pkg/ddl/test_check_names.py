"""Hazard: a CHECK of a MySQL has another name in MariaDB, and DROP CONSTRAINT leaves it there without an error."""

from __future__ import annotations

import pytest

from pkg.ddl import Dialect, has_checks, missing_check, parse, parse_dialect, with_check_names

_MYSQL = Dialect.of("", "mysql", (8, 4, 8))
#: As MariaDB shows it.
_SHOWN = (
    "CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL COMMENT 'CHECK (1)',\n"
    "  `j` longtext DEFAULT NULL CHECK (json_valid(`j`)),\n"
    "  CONSTRAINT `t_chk_2` CHECK (`a` > 0),\n  CONSTRAINT `mine``s` CHECK (`a` < 9)\n) ENGINE=InnoDB"
)


def _named(sql: str, shown: str = "") -> str:
    statement = parse_dialect(sql, _MYSQL, "d")
    table = parse(shown, default_schema="d", flavor="mariadb").body if shown else None
    return " ".join(with_check_names(statement, table).sql.split())


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "CREATE TABLE t (a INT CHECK (a > 0) NOT NULL, b INT CONSTRAINT own CHECK (b > 1) NOT ENFORCED DEFAULT 4,"
            " CHECK (b > ')'), CONSTRAINT CHECK (a > 3), CONSTRAINT c CHECK (a > 4))",
            "CREATE TABLE t (a INT NOT NULL, CONSTRAINT `t_chk_1` CHECK (a > 0), b INT DEFAULT 4, CONSTRAINT `own`"
            " CHECK (b > 1) NOT ENFORCED, CONSTRAINT `t_chk_2` CHECK (b > ')'), CONSTRAINT `t_chk_3` CHECK (a > 3),"
            " CONSTRAINT `c` CHECK (a > 4))",
        ),
        (
            "ALTER TABLE t ADD c INT CHECK (c > 0) AFTER a, ADD CHECK (a > 1), ADD (d INT CHECK (d > 2), e INT),"
            " MODIFY a BIGINT CHECK (a > 3) FIRST",
            "ALTER TABLE t ADD c INT AFTER a, ADD CONSTRAINT `t_chk_3` CHECK (c > 0), ADD CONSTRAINT `t_chk_4` CHECK"
            " (a > 1), ADD (d INT , CONSTRAINT `t_chk_5` CHECK (d > 2), e INT), MODIFY a BIGINT FIRST, ADD CONSTRAINT"
            " `t_chk_6` CHECK (a > 3)",
        ),
        (
            "ALTER TABLE t DROP CONSTRAINT t_chk_7, ADD CHECK (a > 1)",
            "ALTER TABLE t DROP CONSTRAINT t_chk_7, ADD CONSTRAINT `t_chk_8` CHECK (a > 1)",
        ),
    ],
)
def test_checks_get_the_names_of_mysql(sql: str, expected: str) -> None:
    assert _named(sql, _SHOWN if sql.startswith("ALTER") else "") == expected


@pytest.mark.parametrize(
    ("sql", "version", "expected"),
    [
        ("CREATE TABLE t (a INT CHECK (a > 0))", (8, 0, 16), True),
        ("CREATE TABLE t (a INT CHECK (a > 0))", (8, 0, 15), False),
        ("ALTER TABLE t ADD CHECK (a > 0)", (9, 7, 0), True),
        ("ALTER TABLE t ADD b INT", (9, 7, 0), False),
    ],
)
def test_which_statements_have_checks(sql: str, version: tuple[int, int, int], expected: bool) -> None:
    assert has_checks(parse_dialect(sql, Dialect.of("", "mysql", version), "d")) is expected


@pytest.mark.parametrize(
    ("dropped", "shown", "expected"),
    [
        ("t_chk_1", _SHOWN, "t_chk_1"),
        ("CONSTRAINT_1", _SHOWN, "CONSTRAINT_1"),
        ("T_CHK_2", _SHOWN, ""),
        ("chosen", _SHOWN, ""),  # a name of a person's is the same on both servers
        ("t_chk_1", "CREATE TABLE `t` (\n  `a` int(11) CHECK (`a` > 0)\n)", "t_chk_1"),
        # Without checks, what was dropped is gone.
        ("t_chk_1", _SHOWN.replace(" CHECK (`a`", " FOREIGN KEY (`a`"), ""),
        ("t_chk_1", "", ""),
    ],
)
def test_a_check_under_another_name_is_noticed(dropped: str, shown: str, expected: str) -> None:
    assert missing_check(parse(f"ALTER TABLE d.t ADD x INT, DROP CONSTRAINT {dropped}"), shown) == expected


def test_a_check_that_may_be_missing_is_not_asked_for() -> None:
    assert missing_check(parse("ALTER TABLE d.t DROP CONSTRAINT IF EXISTS t_chk_1", flavor="mariadb"), _SHOWN) == ""
