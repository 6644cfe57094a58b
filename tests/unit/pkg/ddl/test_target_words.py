"""Hazard: a word that TiDB does not know stops a task, or a statement means something else in TiDB's words."""

from __future__ import annotations

import pytest

from pkg.ddl import Dialect
from pkg.ddl.target_words import TargetWords, in_target_words
from pkg.errors import DMError
from tests.ddl_corpus import FLAVORS, Flavor, statements

MARIADB = Dialect.of("", "mariadb", (10, 11, 6))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE OR REPLACE TABLE `d`.`t` (a INT)", ["DROP TABLE IF EXISTS `d`.`t`", "CREATE TABLE `d`.`t` (a INT)"]),
        ("CREATE OR REPLACE DATABASE `d`", ["DROP DATABASE IF EXISTS `d`", "CREATE DATABASE `d`"]),
        (
            "CREATE OR REPLACE INDEX `i j` ON d.t (a) ALGORITHM=NOCOPY",
            ["DROP INDEX IF EXISTS `i j` ON d.t", "CREATE INDEX `i j` ON d.t (a)"],
        ),
        (
            "CREATE TABLE d.t (a INT INVISIBLE, b VARCHAR(9) /*M!100301 COMPRESSED*/, g INT AS (a) PERSISTENT,"
            " KEY k (a) IGNORED, KEY l (b) COMMENT 'IGNORED' NOT IGNORED)"
            " ENGINE=InnoDB, TRANSACTIONAL=1, COMMENT='x' CHECKSUM=1",
            [
                "CREATE TABLE d.t (a INT, b VARCHAR(9), g INT AS (a) STORED, KEY k (a) INVISIBLE, KEY l (b) COMMENT "
                "'IGNORED' VISIBLE) ENGINE=InnoDB COMMENT='x'"
            ],
        ),
        ("ALTER ONLINE TABLE d.t WAIT 5 ADD x INT COMPRESSED=zlib", ["ALTER TABLE d.t ADD x INT"]),
        ("ALTER TABLE d.t FORCE", []),
        ("ALTER TABLE d.t OPTIMIZE PARTITION p0, p1", []),
        ("ALTER TABLE d.t ALTER a SET INVISIBLE, ALGORITHM=INSTANT", []),
        ("ALTER TABLE d.t CHECKSUM=1 STATS_PERSISTENT=0", []),
        (
            "ALTER TABLE d.t FORCE, ADD x INT, LOCK=NONE, ADD y INT, ROW_FORMAT=PAGE",
            ["ALTER TABLE d.t ADD x INT, ADD y INT"],
        ),
        ("ALTER TABLE d.t CHECKSUM=1 COMMENT='c', ENGINE=Aria", ["ALTER TABLE d.t COMMENT='c', ENGINE=Aria"]),
        ("ALTER TABLE d.t ALTER INDEX i IGNORED", ["ALTER TABLE d.t ALTER INDEX i INVISIBLE"]),
        ("ALTER TABLE d.t ALTER a SET DEFAULT 5", ["ALTER TABLE d.t ALTER a SET DEFAULT 5"]),
        ("ALTER TABLE IF EXISTS d.t DROP FOREIGN KEY IF EXISTS f", ["ALTER TABLE d.t DROP FOREIGN KEY f"]),
        ("ALTER TABLE d.t DROP CONSTRAINT PRIMARY KEY", ["ALTER TABLE d.t DROP PRIMARY KEY"]),
        ("ALTER TABLE d.t DROP CONSTRAINT u", ["ALTER TABLE d.t DROP INDEX u"]),
        ("ALTER TABLE d.t DROP CONSTRAINT IF EXISTS f", ["ALTER TABLE d.t DROP FOREIGN KEY f"]),
        ("ALTER TABLE d.t DROP CONSTRAINT c, FORCE", ["ALTER TABLE d.t DROP CONSTRAINT c"]),
        ("ALTER TABLE d.t ADD j INT /*M!100000 NOT NULL */ /*!50701 X */", ["ALTER TABLE d.t ADD j INT NOT NULL"]),
        ("CREATE TABLE d.t (a BIGINT /*T![r] AUTO_RANDOM */)", ["CREATE TABLE d.t (a BIGINT /*T![r] AUTO_RANDOM */)"]),
        (
            "CREATE TABLE d.t (a BIGINT /*T![r] AUTO_RANDOM */ /*!50000 NOT NULL*/)",
            ["CREATE TABLE d.t (a BIGINT /*T![r] AUTO_RANDOM */ NOT NULL )"],
        ),
        ("DROP TABLE IF EXISTS d.t NOWAIT", ["DROP TABLE IF EXISTS d.t"]),
        ("RENAME TABLES d.t TO d.u", ["RENAME TABLE d.t TO d.u"]),
        ("ALTER DATABASE d COMMENT 'x'", []),
        ("ALTER DATABASE d COMMENT 'x' CHARACTER SET utf8mb4", ["ALTER DATABASE d CHARACTER SET utf8mb4"]),
    ],
)
def test_the_words_of_tidb(sql: str, expected: list[str]) -> None:
    kinds = {"u": "UNIQUE", "f": "FOREIGN KEY"}
    found = in_target_words(sql, MARIADB, "tidb", lambda schema, table, name: kinds.get(name, ""))
    assert [plain(text) for text in found.statements] == [plain(text) for text in expected]


def plain(text: str) -> str:
    return " ".join(text.split()).replace(" ,", ",").replace(" )", ")")


def test_what_is_left_out_is_told() -> None:
    found = in_target_words("ALTER ONLINE TABLE d.t FORCE, ADD x INT INVISIBLE, LOCK=NONE", MARIADB, "tidb")
    assert found.left_out == ("FORCE", "LOCK=NONE", "ONLINE", "INVISIBLE")


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_other_families_get_the_text(family: str) -> None:
    sql = "CREATE OR REPLACE TABLE d.t (a INT INVISIBLE) TRANSACTIONAL=1"
    assert in_target_words(sql, MARIADB, family) == TargetWords((sql,))


@pytest.mark.parametrize("flavor", FLAVORS)
def test_what_the_corpus_becomes_is_understood_and_stays(flavor: Flavor) -> None:
    dialect, seen = Dialect.of("", flavor), 0
    for line in statements(flavor):
        if "`" in line.sql or '"' in line.sql:
            continue
        sql = line.sql.replace("TABLE ", "TABLE d.", 1) if line.sql.startswith("ALTER TABLE ") else line.sql
        try:
            words = in_target_words(sql, dialect, "tidb")
        except DMError:
            continue  # needs a schema, or is refused by itself
        for text in words.statements:
            assert in_target_words(text, dialect, "tidb") == TargetWords((text,)), line.place
            seen += 1
    assert seen > 300
