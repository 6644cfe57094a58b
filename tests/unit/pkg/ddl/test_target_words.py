"""Hazard: a keyword that TiDB does not know stops a task, or a statement means something else in TiDB's syntax."""

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
        ("ALTER TABLE d.t MODIFY a INT CHECK (a > 0) NOT NULL", ["ALTER TABLE d.t MODIFY a INT NOT NULL"]),
        ("ALTER TABLE d.t ADD a INT CHECK (a > 0)", ["ALTER TABLE d.t ADD a INT CHECK (a > 0)"]),
        ("ALTER DATABASE d COMMENT 'x'", []),
        ("ALTER DATABASE d COMMENT 'x' CHARACTER SET utf8mb4", ["ALTER DATABASE d CHARACTER SET utf8mb4"]),
    ],
)
def test_statements_in_the_syntax_of_tidb(sql: str, expected: list[str]) -> None:
    kinds = {"u": "UNIQUE", "f": "FOREIGN KEY"}
    found = in_target_words(sql, MARIADB, "tidb", lambda schema, table, name: kinds.get(name, ""))
    assert [plain(text) for text in found.statements] == [plain(text) for text in expected]


def plain(text: str) -> str:
    return " ".join(text.split()).replace(" ,", ",").replace(" )", ")")


def test_what_is_left_out_is_reported() -> None:
    found = in_target_words("ALTER ONLINE TABLE d.t FORCE, ADD x INT INVISIBLE, LOCK=NONE", MARIADB, "tidb")
    assert found.left_out == ("FORCE", "LOCK=NONE", "ONLINE", "INVISIBLE")


def test_the_own_family_gets_the_text() -> None:
    sql = "CREATE OR REPLACE TABLE d.t (a INT INVISIBLE) TRANSACTIONAL=1"
    assert in_target_words(sql, MARIADB, "mariadb") == TargetWords((sql,))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE OR REPLACE TABLE d.t (a INT)", ["DROP TABLE IF EXISTS d.t", "CREATE TABLE d.t (a INT)"]),
        (
            "CREATE TABLE d.t (a INT DEFAULT (1 + 2), b VARCHAR(9) DEFAULT CONCAT('a', ')'), c DATETIME DEFAULT "
            "current_timestamp() ON UPDATE NOW(), d DATE DEFAULT curdate(), e TEXT DEFAULT 'x', f LONGTEXT DEFAULT "
            "NULL)",
            [
                "CREATE TABLE d.t (a INT DEFAULT (1 + 2), b VARCHAR(9) DEFAULT (CONCAT('a', ')')), c DATETIME DEFAULT "
                "current_timestamp() ON UPDATE NOW(), d DATE DEFAULT (curdate()), e TEXT DEFAULT ('x'), f LONGTEXT "
                "DEFAULT NULL)"
            ],
        ),
        (
            "CREATE TABLE d.t (a INT INVISIBLE, b TEXT /*M!100301 COMPRESSED*/, g INT AS (a) PERSISTENT, KEY k (a) "
            "IGNORED) ENGINE=InnoDB `PAGE_COMPRESSED`='1' PAGE_CHECKSUM=1 ROW_FORMAT=DYNAMIC",
            [
                "CREATE TABLE d.t (a INT INVISIBLE, b TEXT, g INT AS (a) STORED, KEY k (a) INVISIBLE) ENGINE=InnoDB "
                "ROW_FORMAT=DYNAMIC"
            ],
        ),
        (
            "ALTER ONLINE TABLE d.t WAIT 5 ADD COLUMN IF NOT EXISTS x INT, ALGORITHM=NOCOPY, LOCK=NONE",
            ["ALTER TABLE d.t ADD COLUMN x INT"],
        ),
        ("ALTER TABLE d.t PAGE_COMPRESSED=1, DROP COLUMN IF EXISTS x", ["ALTER TABLE d.t DROP COLUMN x"]),
        ("ALTER TABLE d.t PAGE_COMPRESSED=1", []),
        (
            "ALTER TABLE d.t ADD j JSON NOT NULL DEFAULT '{}'",
            ["ALTER TABLE d.t ADD j LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('{}')"],
        ),
        (
            "CREATE TABLE d.t (a DATETIME DEFAULT (now()), b TIMESTAMP(6) DEFAULT (CURRENT_TIMESTAMP(6)) ON UPDATE "
            "NOW(6), c VARCHAR(30) DEFAULT (now()), e DATETIME(3) DEFAULT (now()))",
            [
                "CREATE TABLE d.t (a DATETIME DEFAULT now(), b TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE "
                "NOW(6), c VARCHAR(30) DEFAULT (now()), e DATETIME(3) DEFAULT (now()))"
            ],
        ),
        (
            "CREATE TABLE d.t (a INT CHECK (a>0), CONSTRAINT `CONSTRAINT_1` CHECK (a < 9), CONSTRAINT c CHECK (a > 1))",
            ["CREATE TABLE d.t (a INT CHECK (a>0), CHECK (a < 9), CONSTRAINT c CHECK (a > 1))"],
        ),
        ("ALTER TABLE d.t ALTER a SET DEFAULT UUID()", ["ALTER TABLE d.t ALTER a SET DEFAULT (UUID())"]),
        ("ALTER TABLE d.t DROP CONSTRAINT IF EXISTS u", ["ALTER TABLE d.t DROP INDEX u"]),
        ("CREATE INDEX IF NOT EXISTS i ON d.t (a) WAIT 1", ["CREATE INDEX i ON d.t (a)"]),
        ("CREATE OR REPLACE INDEX i ON d.t (a)", ["CREATE OR REPLACE INDEX i ON d.t (a)"]),
        ("ALTER DATABASE d COMMENT 'x' CHARACTER SET utf8mb4", ["ALTER DATABASE d CHARACTER SET utf8mb4"]),
    ],
)
def test_mariadb_s_statements_in_the_syntax_of_mysql(sql: str, expected: list[str]) -> None:
    found = in_target_words(sql, MARIADB, "mysql", lambda schema, table, name: "UNIQUE")
    assert [plain(text) for text in found.statements] == [plain(text) for text in expected]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "CREATE TABLE `d`.`t` (`my_row_id` bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */, v INT, "
            "s INT GENERATED ALWAYS AS (v + 1) STORED NOT NULL UNIQUE, p POINT /*!80003 SRID 4326 */, "
            "g geomcollection, c CHAR(3) /*!50606 STORAGE DISK */ /*!50606 COLUMN_FORMAT FIXED */ DEFAULT 'a', "
            "KEY k (v) /*!80000 INVISIBLE */, CONSTRAINT c CHECK ((v > 0)) /*!80016 NOT ENFORCED */) "
            "/*!80023 AUTOEXTEND_SIZE=4194304 */ "
            "ENGINE=InnoDB STATS_PERSISTENT=1 COMPRESSION='zlib'",
            [
                "CREATE TABLE `d`.`t` (`my_row_id` bigint unsigned NOT NULL AUTO_INCREMENT INVISIBLE, v INT, s INT "
                "GENERATED ALWAYS AS (v + 1) STORED UNIQUE, p POINT, g GEOMETRYCOLLECTION, c CHAR(3) DEFAULT 'a', "
                "KEY k (v) IGNORED, CONSTRAINT c CHECK ((v > 0) OR TRUE)) ENGINE=InnoDB STATS_PERSISTENT=1"
            ],
        ),
        ("ALTER TABLE d.t DROP CHECK c, ALGORITHM=INPLACE", ["ALTER TABLE d.t DROP CONSTRAINT c"]),
        ("ALTER TABLE d.t ALTER INDEX k VISIBLE", ["ALTER TABLE d.t ALTER INDEX k NOT IGNORED"]),
        ("ALTER TABLE d.t ALTER COLUMN c SET INVISIBLE", []),
        (
            "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 */ /*!80016 DEFAULT ENCRYPTION='N' */",
            ["CREATE DATABASE `d` DEFAULT CHARACTER SET utf8mb4"],
        ),
        (
            "CREATE TABLE d.t (id SERIAL AUTO_INCREMENT NOT NULL, p INT NOT NULL, "
            "g VARCHAR(9) AS (concat(a, _utf8mb4'ä\\'', _UTF8MB3'b', _latin1'c', '_utf8mb4')))",
            [
                "CREATE TABLE d.t (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE AUTO_INCREMENT NOT NULL, p INT "
                "NOT NULL, g VARCHAR(9) AS (concat(a, 'ä\\'', 'b', _latin1'c', '_utf8mb4')))"
            ],
        ),
        ("ALTER TABLE d.t ADD x INT DEFAULT (1 + 1), RENAME INDEX a TO b", None),
        (
            "ALTER TABLE d.t EXCHANGE PARTITION p0 WITH TABLE d.u WITHOUT VALIDATION",
            ["ALTER TABLE d.t EXCHANGE PARTITION p0 WITH TABLE d.u"],
        ),
        (
            "ALTER TABLE d.t EXCHANGE PARTITION p0 WITH TABLE d.u WITH VALIDATION",
            ["ALTER TABLE d.t EXCHANGE PARTITION p0 WITH TABLE d.u"],
        ),
        (
            "ALTER TABLE d.t ADD g INT AS (v + 1) VIRTUAL, WITH VALIDATION",
            ["ALTER TABLE d.t ADD g INT AS (v + 1) VIRTUAL"],
        ),
        ("ALTER TABLE d.t ADD UNIQUE KEY ((v + 1))", None),
    ],
)
def test_mysql_s_statements_in_the_syntax_of_mariadb(sql: str, expected: list[str] | None) -> None:
    found = in_target_words(sql, Dialect.of("", "mysql"), "mariadb")
    assert [plain(text) for text in found.statements] == [
        plain(text) for text in ([sql] if expected is None else expected)
    ]


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
