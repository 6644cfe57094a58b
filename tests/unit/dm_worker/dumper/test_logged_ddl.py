"""Hazard: a statement that mixed a dump's tables is overlooked, or one that did not makes another dump necessary."""

from __future__ import annotations

import pytest

from dm_worker.dumper.logged_ddl import ReadTables, logged_ddl
from pkg.binlog.events import QueryEvent
from pkg.binlog.position import Position

_SNAPSHOT, _READ, _LATER = Position("bin.000009", 700), Position("bin.000010", 500), Position("bin.000010", 900)
_BETWEEN, _AFTER, _BEFORE = Position("bin.000010", 100), Position("bin.000010", 600), Position("bin.000009", 600)


def _mixed(sql: str, end: Position = _BETWEEN) -> str:
    """``s.Alpha`` was read by two sessions, ``s.beta`` by one, before ``s.late``."""
    first = {("s", "Alpha"): _SNAPSHOT, ("s", "beta"): _READ}
    second = {("s", "Alpha"): _READ, ("s", "late"): _LATER}
    tables = ReadTables(_SNAPSHOT, [first, second], lambda name: name.lower() == "s")
    assert tables.end == _LATER
    statement = logged_ddl(QueryEvent(1, 0, 0, "s", sql.encode()), end, "mariadb", (10, 11, 6))
    return "" if statement is None else tables.mixed_by(statement)


_MIXING = {
    "RENAME TABLE alpha TO x, beta TO alpha, x TO beta": "table s.alpha",
    "RENAME TABLE other.alpha TO s.alpha": "table s.alpha",
    "ALTER TABLE s.beta RENAME TO c": "table s.beta",
    "ALTER TABLE c RENAME beta": "table s.beta",
    "ALTER TABLE beta EXCHANGE PARTITION p WITH TABLE c": "table s.beta",
    "ALTER TABLE c EXCHANGE PARTITION p WITH TABLE beta WITHOUT VALIDATION": "table s.beta",
    "ALTER TABLE beta TRUNCATE PARTITION p": "table s.beta",
    "ALTER TABLE beta FORCE": "table s.beta",
    "ALTER TABLE beta ADD COLUMN c INT": "table s.beta",
    "CREATE INDEX i ON beta (c)": "table s.beta",
    "TRUNCATE TABLE beta": "table s.beta",
    "DROP TABLE c, beta": "table s.beta",
    "CREATE TABLE beta (id INT)": "table s.beta",
    "CREATE OR REPLACE TABLE beta (id INT)": "table s.beta",
    "CREATE TABLE beta LIKE c": "table s.beta",
    "DROP DATABASE S": "table s.alpha",
    # Nobody understands these: they may be about any table that they name.
    "ALTER TABLE `beta` SOMETHING NEW": "table s.beta",
    "RENAME EVERYTHING beta, late": "table s.beta",
}
_HARMLESS = (
    "BEGIN",
    "CREATE TABLE c (id INT)",
    "CREATE TABLE c LIKE beta",
    "CREATE TABLE c (id INT, FOREIGN KEY (id) REFERENCES beta (id))",
    "CREATE TABLE IF NOT EXISTS beta (id INT)",
    "RENAME TABLE c TO d",
    "DROP TABLE c",
    "TRUNCATE other.beta",
    "DROP DATABASE other",
    "ALTER DATABASE s CHARACTER SET latin1",
    "CREATE DATABASE IF NOT EXISTS s",
    "CREATE TRIGGER t BEFORE INSERT ON beta FOR EACH ROW SET @x = 1",
    "CREATE VIEW v AS SELECT * FROM beta",
    "ANALYZE TABLE beta",
    "DROP TEMPORARY TABLE beta",
    "ALTER TABLE unread SOMETHING NEW",
    "INSERT INTO beta VALUES (1)",
)


@pytest.mark.parametrize("sql", list(_MIXING))
def test_a_statement_matters_by_its_position(sql: str) -> None:
    assert _mixed(sql) == _MIXING[sql]
    # The read's own end of the binlog is after all that the read could meet.
    assert _mixed(sql, _READ) == _MIXING[sql]
    late = _mixed(sql, _AFTER)
    assert late == ("table s.late" if "late" in sql or "DATABASE" in sql else "")
    assert _mixed(sql, Position("bin.000011", 4)) == ""
    assert _mixed(sql, _BEFORE) == ("database S" if "DATABASE" in sql and "S" in sql.split() else "")


@pytest.mark.parametrize("sql", _HARMLESS)
def test_what_changes_no_copied_table_is_no_reason_to_dump_again(sql: str) -> None:
    assert _mixed(sql) == ""


@pytest.mark.parametrize("sql", ["CREATE DATABASE s", "ALTER DATABASE s CHARACTER SET latin1", "DROP DATABASE s"])
def test_the_file_of_a_database_is_from_before_the_snapshot(sql: str) -> None:
    assert _mixed(sql, _BEFORE) == "database s"
    assert _mixed(sql.replace(" s", " other"), _BEFORE) == ""


def test_names_are_read_under_the_modes_of_the_session() -> None:
    query = QueryEvent(1, 0, 0, "s", b'ALTER TABLE "beta" FORCE', sql_mode=4)
    statement = logged_ddl(query, _BETWEEN, "mysql", (8, 0, 12))
    assert statement is not None
    assert statement.tables == {("s", "beta")}


def test_text_that_is_not_to_be_read_may_be_about_each_table() -> None:
    query = QueryEvent(1, 0, 0, "s", b"ALTER TABLE x COMMENT '\xff\xfe'", charsets=(45, 45, 45))
    statement = logged_ddl(query, _BETWEEN, "mysql", (8, 0, 12))
    assert statement is not None
    assert ReadTables(_SNAPSHOT, [{("s", "beta"): _READ}], lambda _: True).mixed_by(statement) == "table s.beta"
