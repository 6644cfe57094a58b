"""Hazard: a text of a server that tests cannot start (MySQL 5.7, 8, Percona, newer MariaDB) is misread."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from pkg.ddl import parse

TEXTS = [
    "CREATE DATABASE `a` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */ /*!80016 DEFAULT ENCRYPTION='N' */",
    "ALTER DATABASE a READ ONLY = 1",
    "CREATE TABLE `t` (`a` int /*!50606 STORAGE DISK */ /*!50606 COLUMN_FORMAT FIXED */ DEFAULT NULL)",
    "CREATE TABLE `t` (`g` point NOT NULL /*!80003 SRID 4326 */, SPATIAL KEY `g` (`g`))",
    "CREATE TABLE `t` (`a` json DEFAULT (json_array()), `b` varchar(9) DEFAULT (concat('a', ')', \"(\")))",
    "CREATE TABLE `t` (`a` int, KEY `k` (`a` DESC) /*!80000 INVISIBLE */ COMMENT 'x', KEY `f` ((abs(`a`)),`a`))",
    "CREATE TABLE `t` (`a` text, FULLTEXT KEY `ft` (`a`) /*!50100 WITH PARSER `ngram` */ )",
    "CREATE TABLE `t` (`a` int, CONSTRAINT `c` CHECK ((`a` > 0)) /*!80016 NOT ENFORCED */)",
    "CREATE TABLE `t` (`a` int CONSTRAINT `c` CHECK (`a` > 0) ENFORCED, CHECK (`a` < 9) NOT ENFORCED)",
    "CREATE TABLE `t` (`a` int) /*!50100 TABLESPACE `ts` */ ENGINE=InnoDB STATS_PERSISTENT=1 COMPRESSION='zlib'",
    "CREATE TABLE `t` (`a` int) ENGINE=InnoDB AUTOEXTEND_SIZE=4M SECONDARY_ENGINE=RAPID ENGINE_ATTRIBUTE='{}'",
    "CREATE TABLE `t` (`a` int ENGINE_ATTRIBUTE '{}' NOT SECONDARY, `b` char(1) DEFAULT _utf8mb4'x')",
    "CREATE TABLE `t` (`a` int NOT NULL, `b` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL NOT NULL COMMENT 'x' UNIQUE KEY)",
    "CREATE TABLE `t` (`v` VECTOR(5), `vector` int, VECTOR INDEX (`v`) M=8 DISTANCE=cosine)",
    "CREATE TABLE `t` (`v` VECTOR(5), VECTOR KEY `v` (`v`) `M`=8 `DISTANCE`=cosine)",
    "CREATE TABLE `t` (`id` int, `d` date, PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3\n"
    "/*!50100 PARTITION BY RANGE (`id`)\nSUBPARTITION BY HASH (`id`)\n"
    "(PARTITION p0 VALUES LESS THAN (10) DATA DIRECTORY = '/x' ENGINE = InnoDB,\n"
    " PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */",
    "CREATE TABLE `t` (`a` int) `engine_option`='x' `other`=1 PAGE_COMPRESSED=1 ENCRYPTED=YES",
    "CREATE TABLE `t` (`id` int, `s` date, `e` date, PERIOD FOR `p` (`s`,`e`), UNIQUE (`id`, `p` WITHOUT OVERLAPS))",
    "CREATE TABLE m (a INT) ENGINE=MRG_MyISAM UNION=(m1, x.m2) INSERT_METHOD=LAST",
    "CREATE TABLE `t` (`a` varchar(10) COMPRESSED DEFAULT 'x', `b` text /*M!100301 COMPRESSED=zlib*/)",
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT (uuid()), ALTER INDEX k INVISIBLE, ALTER CHECK c NOT ENFORCED",
    "ALTER TABLE t ALTER COLUMN a SET INVISIBLE, DROP CHECK c, DROP CONSTRAINT d, RENAME COLUMN a TO b",
    "ALTER TABLE t ADD COLUMN a INT, ALGORITHM = INSTANT, LOCK DEFAULT",
    "ALTER TABLE t ADD KEY ((lower(a)), b), ADD INDEX k (b), ALGORITHM INPLACE",
    "ALTER TABLE t SECONDARY_LOAD",
    "ALTER TABLE t ADD PARTITION IF NOT EXISTS (PARTITION p9 VALUES LESS THAN (9))",
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION",
    "ALTER TABLE t ANALYZE PARTITION ALL",
    "ALTER TABLE t ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8, AUTO_INCREMENT 7 COMMENT 'a, b', DATA DIRECTORY '/x'",
    "ALTER TABLE t DEFAULT CHARACTER SET = utf8 DEFAULT COLLATE = utf8_bin, MAX_ROWS 5",
    "ALTER TABLE t WITH VALIDATION, ADD x INT AS (a) STORED",
    "DROP INDEX `k` ON `t` ALGORITHM=INPLACE LOCK=NONE",
    "CREATE FULLTEXT INDEX ft ON t (a, b) WITH PARSER ngram COMMENT 'x' ALGORITHM=INPLACE",
]


@pytest.mark.parametrize("sql", TEXTS)
def test_text_is_understood(sql: str) -> None:
    statement = parse(sql, default_schema="d")
    assert statement.kind != "skip"
    assert statement.refs[0].schema in ("a", "d")
