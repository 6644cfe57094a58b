"""Hazard: a column that the target already has is taken for the one that a statement adds, with other values."""

from __future__ import annotations

import pytest

from dm_worker.syncer.ddl.filled_columns import filled_otherwise
from pkg import ddl


def found(statement: str, columns: str, had: frozenset[str] | None = None, flavor: str = "mariadb") -> list[str]:
    """The conditions of rows that may have another value."""
    parsed = ddl.parse(f"ALTER TABLE t {statement}", default_schema="d", flavor="mysql")
    shown = f"CREATE TABLE `t` (`id` int NOT NULL, {columns}, PRIMARY KEY (`id`))"
    return [one.rows for one in filled_otherwise(parsed, shown, flavor, had)]


@pytest.mark.parametrize(
    ("added", "there"),
    [
        ("INT", "`c` bigint(20) DEFAULT NULL"),
        ("INT NOT NULL", "`c` int(11) NOT NULL"),
        ("INT NOT NULL", "`c` int(11) NOT NULL DEFAULT 0"),
        ("INT NOT NULL DEFAULT 1", "`c` int NOT NULL DEFAULT '1'"),
        ("INT DEFAULT -1", "`c` int DEFAULT -1"),
        ("BOOL DEFAULT TRUE", "`c` tinyint(1) DEFAULT 1"),
        ("BIT(4) DEFAULT 5", "`c` bit(4) DEFAULT b'101'"),
        ("DECIMAL(8,3) DEFAULT 1.5", "`c` decimal(8,3) DEFAULT 1.500"),
        ("DOUBLE DEFAULT 1e3", "`c` double DEFAULT 1000"),
        ("VARCHAR(9) DEFAULT 'it''s'", "`c` varchar(40) DEFAULT 'it\\'s'"),
        ("VARCHAR(9) DEFAULT _utf8mb4'a'", "`c` varchar(9) DEFAULT 'a'"),
        ("VARCHAR(9) NOT NULL DEFAULT ''", "`c` varchar(9) NOT NULL"),
        ("VARBINARY(9) DEFAULT x'6162'", "`c` varbinary(9) DEFAULT 'ab'"),
        ("ENUM('a','b') NOT NULL", "`c` enum('a','b') NOT NULL DEFAULT 'a'"),
        ("DATE DEFAULT '2020-01-02'", "`c` datetime DEFAULT '2020-01-02 00:00:00'"),
        ("DATETIME(3) DEFAULT '2020-01-02 03:04:05.5'", "`c` datetime(3) DEFAULT '2020-01-02 03:04:05.500'"),
        # Expressions have another text on each server.
        ("INT DEFAULT (id + 1)", "`c` int DEFAULT (`id` + 2)"),
        ("INT AS (id) VIRTUAL", "`c` int GENERATED ALWAYS AS (`id`) VIRTUAL"),
    ],
)
def test_the_same_value(added: str, there: str) -> None:
    assert found(f"ADD COLUMN c {added}", there) == []


@pytest.mark.parametrize(
    ("added", "there", "rows"),
    [
        ("VARCHAR(9) DEFAULT 'web'", "`c` varchar(9) DEFAULT 'shop'", "`c` <=> DEFAULT(`c`)"),
        ("VARCHAR(9) DEFAULT '1'", "`c` varchar(9) DEFAULT '1.0'", "`c` <=> DEFAULT(`c`)"),
        ("VARCHAR(9) DEFAULT 'a'", "`C` varchar(9) DEFAULT 'A'", "`C` <=> DEFAULT(`C`)"),
        ("INT", "`c` int NOT NULL DEFAULT 0", "`c` <=> DEFAULT(`c`)"),
        ("INT NOT NULL", "`c` int DEFAULT NULL", "`c` <=> DEFAULT(`c`)"),
        ("INT DEFAULT 1", "`c` int NOT NULL", "TRUE"),
        ("INT DEFAULT 1", "`c` int DEFAULT -1", "`c` <=> DEFAULT(`c`)"),
        ("ENUM('a','b') NOT NULL", "`c` enum('a','b') NOT NULL DEFAULT 'b'", "`c` <=> DEFAULT(`c`)"),
        ("TEXT DEFAULT ('a')", "`c` text DEFAULT (_utf8mb4'b')", "TRUE"),
        ("DATETIME DEFAULT NOW()", "`c` datetime DEFAULT current_timestamp()", "TRUE"),
        ("DATE DEFAULT (CURRENT_DATE)", "`c` date DEFAULT curdate()", "TRUE"),
        ("DATETIME", "`c` datetime DEFAULT NULL ON UPDATE current_timestamp()", "TRUE"),
    ],
)
def test_another_value(added: str, there: str, rows: str) -> None:
    assert found(f"ADD COLUMN c {added}", there) == [rows]
    assert found(f"ADD COLUMN c {added}, ADD COLUMN e INT", there) == [rows]
    assert found(f"ADD (e INT, c {added})", there) == [rows]


def test_columns_that_the_statement_replaces_do_not_count() -> None:
    there = "`c` int DEFAULT 2"
    assert found("DROP COLUMN c, ADD COLUMN c INT DEFAULT 1", there) == []
    assert found("CHANGE c e INT, ADD COLUMN c INT DEFAULT 1", there) == []
    assert found("MODIFY c INT DEFAULT 1", there) == []
    assert found("ADD COLUMN d INT DEFAULT 1, ADD INDEX (c)", there) == []


def test_if_not_exists_counts_where_the_upstream_had_no_such_column() -> None:
    there = "`c` int DEFAULT 2"
    assert found("ADD COLUMN IF NOT EXISTS c INT DEFAULT 1", there, frozenset({"id"})) == ["`c` <=> DEFAULT(`c`)"]
    assert found("ADD COLUMN IF NOT EXISTS c INT DEFAULT 1", there, frozenset({"id", "c"})) == []
    assert found("ADD COLUMN IF NOT EXISTS c INT DEFAULT 1", there) == []
