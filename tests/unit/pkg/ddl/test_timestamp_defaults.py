"""The real servers decide in tests/tidb/test_timestamp_defaults.py; here are the positions of columns."""

from __future__ import annotations

import pytest

from pkg import ddl

_ZERO = "NOT NULL DEFAULT '0000-00-00 00:00:00' "
_NOW = "NOT NULL DEFAULT CURRENT_TIMESTAMP() ON UPDATE CURRENT_TIMESTAMP() "
_TABLE = "CREATE TABLE t (id INT, a TIMESTAMP NULL, b TIMESTAMP NULL)"


def _completed(sql: str, table: str = "", whole: str = "") -> str:
    statement, body = ddl.parse(sql, default_schema="d"), ddl.parse(table or _TABLE, default_schema="d").body
    around = ddl.parse(whole, default_schema="d") if whole else statement
    return ddl.with_timestamp_defaults(statement, around, body if statement.body is None else None).sql


@pytest.mark.parametrize(
    ("sql", "completed"),
    [
        (
            "CREATE TABLE t (a INT, b TIMESTAMP, c TIMESTAMP)",
            f"CREATE TABLE t (a INT, b TIMESTAMP {_NOW}, c TIMESTAMP {_ZERO})",
        ),
        ("CREATE TABLE t (b TIMESTAMP NULL, c TIMESTAMP)", f"CREATE TABLE t (b TIMESTAMP NULL, c TIMESTAMP {_ZERO})"),
        ("ALTER TABLE t ADD c TIMESTAMP", f"ALTER TABLE t ADD c TIMESTAMP {_ZERO}"),
        ("ALTER TABLE t ADD c TIMESTAMP AFTER id", f"ALTER TABLE t ADD c TIMESTAMP {_NOW} AFTER id"),
        ("ALTER TABLE t MODIFY A TIMESTAMP", f"ALTER TABLE t MODIFY A TIMESTAMP {_NOW}"),
        ("ALTER TABLE t CHANGE b c TIMESTAMP FIRST", f"ALTER TABLE t CHANGE b c TIMESTAMP {_NOW} FIRST"),
        ("ALTER TABLE t DROP a, MODIFY b TIMESTAMP", f"ALTER TABLE t DROP a, MODIFY b TIMESTAMP {_NOW}"),
        (
            "ALTER TABLE t RENAME COLUMN a TO x, ADD c TIMESTAMP AFTER x",
            f"ALTER TABLE t RENAME COLUMN a TO x, ADD c TIMESTAMP {_ZERO} AFTER x",
        ),
        ("ALTER TABLE t MODIFY a TIMESTAMP AFTER b", f"ALTER TABLE t MODIFY a TIMESTAMP {_ZERO} AFTER b"),
    ],
)
def test_the_first_timestamp_of_the_table_gets_the_time(sql: str, completed: str) -> None:
    assert _completed(sql) == completed


def test_a_part_is_completed_as_in_its_statement_also_when_parts_before_it_have_run() -> None:
    whole = "ALTER TABLE t ADD c TIMESTAMP FIRST, ADD e TIMESTAMP AFTER c"
    ran = "CREATE TABLE t (c TIMESTAMP NOT NULL, id INT, a TIMESTAMP NULL)"
    assert (
        _completed("ALTER TABLE t ADD e TIMESTAMP AFTER c", ran, whole)
        == f"ALTER TABLE t ADD e TIMESTAMP {_ZERO} AFTER c"
    )


def test_null_and_generated_columns_say_all() -> None:
    statement = ddl.parse("ALTER TABLE t ADD c TIMESTAMP NULL, ADD e TIMESTAMP AS (c)", default_schema="d")
    assert not ddl.leaves_timestamps_open(statement)
