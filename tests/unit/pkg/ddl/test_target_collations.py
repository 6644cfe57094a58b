"""Hazards: a statement names a collation that the target lacks, or loses one that it has."""

from __future__ import annotations

import pytest

from pkg.ddl import Dialect
from pkg.ddl.target_collations import TargetCollations, nearest, unknown_in

MARIADB = Dialect.of("", "mariadb", (11, 8, 0))
MYSQL_8 = ("utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin", "utf8mb4_de_pb_0900_ai_ci", "utf8mb4_bin",
           "utf8mb4_unicode_520_ci", "utf8mb3_unicode_520_ci", "latin1_swedish_ci", "utf8mb4_general_ci")  # fmt: skip
MARIADB_10 = ("utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_uca1400_german2_nopad_ai_ci", "utf8mb4_nopad_bin", "utf8mb4_bin",
              "utf8mb4_uca1400_ai_ci", "utf8mb3_general_ci")  # fmt: skip
CHOSEN = (("utf8mb4_uca1400_ai_ci", "utf8mb4_0900_ai_ci"), ("utf8mb3_uca1400_as_cs", "utf8mb3_bin"))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE t (a TEXT COLLATE utf8mb4_uca1400_ai_ci)", "CREATE TABLE t (a TEXT COLLATE utf8mb4_0900_ai_ci)"),
        (
            "CREATE TABLE t (a INT) DEFAULT CHARSET=utf8mb4 COLLATE = `utf8mb4_UCA1400_ai_ci` COMMENT 'COLLATE x'",
            "CREATE TABLE t (a INT) DEFAULT CHARSET=utf8mb4 COLLATE = utf8mb4_0900_ai_ci COMMENT 'COLLATE x'",
        ),
        (
            "CREATE DATABASE d /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci */",
            "CREATE DATABASE d /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */",
        ),
        # For the charset that is named before it, or the usual one.
        ("ALTER TABLE t COLLATE uca1400_ai_ci", "ALTER TABLE t COLLATE utf8mb4_0900_ai_ci"),
        (
            "ALTER TABLE t ADD a CHAR(3) CHARACTER SET utf8mb3 COLLATE uca1400_as_cs",
            "ALTER TABLE t ADD a CHAR(3) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin",
        ),
        ("CREATE TABLE t (a TEXT COLLATE utf8mb4_nopad_bin)", "CREATE TABLE t (a TEXT COLLATE utf8mb4_0900_bin)"),
        ("ALTER TABLE t ADD a TEXT COLLATE 'utf8_unicode_520_ci'",
         "ALTER TABLE t ADD a TEXT COLLATE utf8mb3_unicode_520_ci"),
        ("ALTER TABLE t ADD g TEXT AS (a COLLATE utf8mb4_uca1400_ai_ci)",
         "ALTER TABLE t ADD g TEXT AS (a COLLATE utf8mb4_0900_ai_ci)"),
    ],
)  # fmt: skip
def test_the_target_s_name_stands_in_the_text(sql: str, expected: str) -> None:
    assert TargetCollations.of(MYSQL_8, CHOSEN).in_text(sql, MARIADB) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a TEXT COLLATE utf8mb4_bin, b TEXT COLLATE DEFAULT, c TEXT COLLATE latin1_swedish_ci)",
        "CREATE TABLE t (a TEXT COLLATE utf8mb4_uca1400_danish_ai_ci)",
        "CREATE TABLE `collate` (a TEXT COMMENT 'COLLATE utf8mb4_nopad_bin')",
    ],
)
def test_what_the_target_has_or_nothing_stands_for_stays(sql: str) -> None:
    assert TargetCollations.of(MYSQL_8, CHOSEN).in_text(sql, MARIADB) == sql
    assert TargetCollations().in_text(sql, MARIADB) == sql


def test_mariadb_keeps_the_names_that_it_has_for_any_charset() -> None:
    sql = "ALTER TABLE t COLLATE uca1400_ai_ci"
    assert TargetCollations.of(MARIADB_10).in_text(sql, MARIADB) == sql


@pytest.mark.parametrize(
    ("known", "collation", "expected"),
    [
        (MYSQL_8, "utf8mb4_uca1400_ai_ci", "utf8mb4_0900_ai_ci"),
        (MYSQL_8, "utf8mb4_uca1400_nopad_as_cs", "utf8mb4_0900_as_cs"),
        (MYSQL_8, "utf8mb4_uca1400_german2_ai_ci", "utf8mb4_de_pb_0900_ai_ci"),
        (MYSQL_8, "utf8mb4_uca1400_danish_ai_ci", "utf8mb4_0900_ai_ci"),
        (MYSQL_8, "utf8mb3_uca1400_ai_ci", "utf8mb3_unicode_520_ci"),
        (MYSQL_8, "latin1_swedish_nopad_ci", "latin1_swedish_ci"),
        (MYSQL_8, "ucs2_uca1400_ai_ci", ""),
        (MARIADB_10, "utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"),
        (MARIADB_10, "utf8mb4_de_pb_0900_ai_ci", "utf8mb4_uca1400_german2_nopad_ai_ci"),
        (MARIADB_10, "utf8mb4_ja_0900_as_cs", "utf8mb4_bin"),
        (("latin1_bin", "utf8mb4_bin"), "latin1_swedish_ci", "latin1_bin"),
    ],
)
def test_the_nearest_one(known: tuple[str, ...], collation: str, expected: str) -> None:
    assert nearest(collation, known) == expected


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("Unknown collation: 'utf8mb4_da_0900_ai_ci'", "utf8mb4_da_0900_ai_ci"),
        ("Unsupported collation when new collation is enabled: 'utf8mb4_swedish_ci'", "utf8mb4_swedish_ci"),
        ("Unknown character set: 'ucs2'", ""),
        ("Unknown column 'a_b' in 'field list'", ""),
    ],
)
def test_the_collation_that_an_error_is_about(error: str, name: str) -> None:
    assert unknown_in(error) == name
