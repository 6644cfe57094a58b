"""The event types of statements, which are DM's. Hazards: a rule of a file for DM that lets another change through,
or stops at one that it let pass."""

from __future__ import annotations

import pytest

from pkg.ddl import split_alter
from pkg.ddl.parser import parse
from pkg.mysql.schema import TableInfo
from pkg.rules.binlog_filter import EVENT_TYPES, event_types
from pkg.rules.binlog_filter.classify import spec_types
from pkg.rules.binlog_filter.events import INCOMPATIBLE
from pkg.schema_tracker import SchemaTracker, ServerDefaults

#: A statement → its class, and after a comma what a rule may name it besides.
STATEMENTS = [
    ("CREATE DATABASE d", "create database"),
    ("CREATE SCHEMA d", "create database"),
    ("ALTER DATABASE d CHARACTER SET utf8mb4", "alter database, modify schema charset and collate"),
    ("DROP SCHEMA d", "drop database"),
    ("CREATE TABLE t (a INT)", "create table"),
    ("CREATE TABLE t LIKE u", "create table"),
    ("DROP TABLE t, u", "drop table"),
    ("TRUNCATE t", "truncate table"),
    ("RENAME TABLE t TO u", "rename table"),
    ("CREATE UNIQUE INDEX i ON t (a)", "create index"),
    ("DROP INDEX i ON t", "drop index"),
    ("ALTER TABLE t ADD COLUMN a INT UNIQUE", "alter table, add column"),
    ("ALTER TABLE t ADD a INT PRIMARY KEY FIRST", "alter table, add column"),
    ("ALTER TABLE t ADD (a INT, b INT, KEY (a))", "alter table, add column"),
    ("ALTER TABLE t DROP a", "drop column"),
    ("ALTER TABLE t MODIFY a BIGINT", "modify column"),
    ("ALTER TABLE t CHANGE a b BIGINT", "modify column"),
    ("ALTER TABLE t RENAME COLUMN a TO b", "rename column"),
    ("ALTER TABLE t RENAME INDEX a TO b", "rename index"),
    ("ALTER TABLE t RENAME u", "rename table"),
    ("ALTER TABLE t ALTER a SET DEFAULT 1", "modify default value, set default value"),
    ("ALTER TABLE t ALTER a DROP DEFAULT", "modify default value, set default value"),
    ("ALTER TABLE t ADD PRIMARY KEY (a)", "modify constraint, add primary key"),
    ("ALTER TABLE t DROP PRIMARY KEY", "drop primary key"),
    ("ALTER TABLE t ADD INDEX (a)", "modify constraint"),
    ("ALTER TABLE t ADD UNIQUE (a)", "modify constraint"),
    ("ALTER TABLE t ADD CONSTRAINT c UNIQUE KEY k (a)", "modify constraint"),
    ("ALTER TABLE t ADD FULLTEXT KEY k (a)", "modify constraint"),
    ("ALTER TABLE t DROP INDEX i", "drop index"),
    ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (a)", "modify constraint, add foreign key"),
    ("ALTER TABLE t DROP FOREIGN KEY f", "alter table, drop foreign key"),
    ("ALTER TABLE t ADD CHECK (a > 1)", "modify constraint"),
    ("ALTER TABLE t ALTER CHECK c NOT ENFORCED", "alter table"),
    ("ALTER TABLE t DROP CONSTRAINT c", "alter table"),
    ("ALTER TABLE t DROP CHECK c", "alter table"),
    ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", "modify charset, modify table charset and collate"),
    ("ALTER TABLE t CHARSET gbk COLLATE gbk_bin", "modify charset, modify table charset and collate"),
    ("ALTER TABLE t DEFAULT COLLATE utf8mb4_bin", "modify collation, modify table charset and collate"),
    ("ALTER TABLE t ENGINE = InnoDB", "modify storage engine"),
    ("ALTER TABLE t COMMENT = 'x'", "alter table, modify table comment"),
    ("ALTER TABLE t COMMENT = 'x' ENGINE = InnoDB CHARSET gbk", "modify storage engine"),
    ("ALTER TABLE t AUTO_INCREMENT = 7", "alter table, rebase auto id"),
    ("ALTER TABLE t AUTO_INCREMENT = 7 COMMENT 'x'", "alter table, rebase auto id, modify table comment"),
    ("ALTER TABLE t ROW_FORMAT = DYNAMIC", "alter table"),
    ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))", "alter table, add table partition"),
    ("ALTER TABLE t DROP PARTITION p", "drop table partition"),
    ("ALTER TABLE t TRUNCATE PARTITION p", "truncate table partition"),
    ("ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))", "reorganize table partition"),
    ("ALTER TABLE t REBUILD PARTITION p", "rebuild table partition"),
    ("ALTER TABLE t COALESCE PARTITION 2", "coalesce table partition"),
    ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "exchange table partition"),
    ("ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 4", "alter table, alter table partitioning"),
    ("ALTER TABLE t REMOVE PARTITIONING", "alter table, remove table partitioning"),
    ("ALTER TABLE t OPTIMIZE PARTITION p", "alter table"),
    ("ALTER TABLE t ALTER INDEX i INVISIBLE", "alter table, alter index visibility"),
    ("ALTER TABLE t ADD COLUMN c INT, ALGORITHM = INPLACE, DROP COLUMN a", "drop column"),
    ("ALTER TABLE t FORCE", "alter table"),
    ("GRANT ALL ON d.* TO u", ""),
]


@pytest.mark.parametrize(("sql", "expected"), STATEMENTS)
def test_statements_are_classified(sql: str, expected: str) -> None:
    types = event_types(parse(sql, default_schema="d"))
    assert ", ".join(types) == expected
    assert set(types) <= EVENT_TYPES


def test_each_part_of_an_alter_has_types_of_its_own() -> None:
    statement = parse("ALTER TABLE d.t ADD a INT, LOCK = NONE, DROP b, COMMENT 'x' ENGINE InnoDB, CHARSET gbk")
    classes = ["alter table", "alter table", "drop column", "modify storage engine", "modify charset"]
    assert [spec_types(statement, spec)[0] for spec in statement.specs] == classes
    steps = ["drop column", "modify storage engine", "modify charset"]
    assert [event_types(step)[0] for step in split_alter(statement)] == ["alter table", *steps]


@pytest.mark.parametrize(
    ("old", "change", "expected"),
    [
        # The same type.
        ("DECIMAL(10,2)", "MODIFY a DECIMAL(11,3)", "precision decrease"),
        ("DECIMAL(10,2)", "MODIFY a DECIMAL(10,2) UNSIGNED", "precision decrease"),
        ("DECIMAL(10,2)", "MODIFY a NUMERIC(10,2)", "alter table"),
        ("INT", "MODIFY a INT UNSIGNED", "precision decrease"),
        ("INT(11)", "MODIFY a INT(4)", "alter table"),
        ("BINARY(4)", "MODIFY a BINARY(8)", "precision decrease"),
        ("ENUM('a','b')", "MODIFY a ENUM('a')", "value range decrease"),
        ("ENUM('a','b')", "MODIFY a ENUM('b','a','c')", "value range decrease"),
        ("ENUM('a')", "MODIFY a ENUM('a','b')", "alter table"),
        ("SET('a')", "MODIFY a SET('b','a')", "value range decrease"),
        ("VARCHAR(20)", "MODIFY a VARCHAR(10)", "value range decrease"),
        ("VARCHAR(20)", "MODIFY a VARCHAR(30)", "alter table"),
        ("VARBINARY(20)", "MODIFY a VARBINARY(10)", "value range decrease"),
        ("BIT(8)", "MODIFY a BIT(4)", "value range decrease"),
        ("DATETIME(6)", "MODIFY a DATETIME", "value range decrease"),
        ("DATETIME", "MODIFY a DATETIME(3)", "alter table"),
        ("DOUBLE", "MODIFY a DOUBLE(10,2)", "value range decrease"),
        ("DOUBLE(10,2)", "MODIFY a DOUBLE", "alter table"),
        ("FLOAT", "MODIFY a FLOAT UNSIGNED", "value range decrease"),
        # Another type.
        ("CHAR(9)", "MODIFY a VARCHAR(9)", "modify column"),
        ("VARCHAR(9)", "MODIFY a CHAR(20)", "modify column"),
        ("TEXT", "MODIFY a TINYTEXT", "modify column"),
        ("TEXT", "MODIFY a LONGTEXT", "alter table"),
        ("VARCHAR(20)", "MODIFY a TEXT", "modify column"),
        ("SMALLINT", "MODIFY a MEDIUMINT", "alter table"),
        ("INT", "MODIFY a BIGINT", "alter table"),
        ("BIGINT", "MODIFY a INT", "value range decrease"),
        ("INT UNSIGNED", "MODIFY a BIGINT", "value range decrease"),
        ("FLOAT", "MODIFY a DOUBLE", "modify column"),
        ("DOUBLE", "MODIFY a FLOAT", "modify column"),
        ("INT", "MODIFY a VARCHAR(20)", "modify column"),
        ("DATETIME", "MODIFY a TIMESTAMP NULL", "modify column"),
        # The type stays: keys.
        ("INT AUTO_INCREMENT PRIMARY KEY", "MODIFY a BIGINT", "remove auto increment"),
        ("INT AUTO_INCREMENT PRIMARY KEY", "MODIFY a BIGINT AUTO_INCREMENT", "drop primary key"),
        ("INT UNIQUE", "MODIFY a BIGINT", "drop unique key"),
        ("INT, UNIQUE (a, z)", "MODIFY a BIGINT", "alter table"),
        # Keys too: what else changes.
        ("INT DEFAULT 1", "MODIFY a INT", "modify default value"),
        ("INT DEFAULT 1", "MODIFY a INT DEFAULT '1'", "alter table"),
        ("INT", "MODIFY a INT DEFAULT NULL", "alter table"),
        ("VARCHAR(9) DEFAULT 'a'", "MODIFY a VARCHAR(9) DEFAULT 'A'", "modify default value"),
        ("DATETIME DEFAULT now()", "MODIFY a DATETIME DEFAULT CURRENT_TIMESTAMP", "alter table"),
        ("VARCHAR(9)", "MODIFY a VARCHAR(9) CHARSET gbk", "modify charset"),
        ("TEXT", "MODIFY a BLOB", "modify charset"),
        ("VARCHAR(9)", "MODIFY a VARCHAR(9) COLLATE utf8mb4_bin", "modify collation"),
        ("INT", "MODIFY a INT FIRST", "modify columns order"),
        ("INT", "CHANGE a b INT AFTER z", "modify columns order"),
        ("INT", "CHANGE a b INT", "rename column"),
        ("INT", "CHANGE a b INT DEFAULT 1", "modify default value"),
        ("INT", "CHANGE a A INT", "alter table"),
        ("INT", "MODIFY a INT NOT NULL COMMENT 'x'", "alter table"),
    ],
)
def test_a_change_of_a_column_is_classified_by_the_column_as_it_was(old: str, change: str, expected: str) -> None:
    before, after = around(f"CREATE TABLE d.t (z INT, a {old}) CHARSET utf8mb4", f"ALTER TABLE d.t {change}")
    statement = parse(f"ALTER TABLE d.t {change}")
    assert event_types(statement, before, after) == (expected,)
    assert expected == "alter table" or expected in INCOMPATIBLE


def around(create: str, alter: str) -> tuple[TableInfo | None, TableInfo | None]:
    tracker = SchemaTracker(ServerDefaults())
    for sql in ("CREATE DATABASE d", create):
        tracker.apply(parse(sql))
    before = tracker.table("d", "t")
    tracker.apply(parse(alter))
    return before, tracker.table("d", "t")


def test_without_the_table_a_change_is_taken_for_one_of_values() -> None:
    assert event_types(parse("ALTER TABLE d.t CHANGE a b BIGINT FIRST")) == ("modify column",)
