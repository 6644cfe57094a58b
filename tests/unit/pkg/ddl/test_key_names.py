"""Hazard: a key gets its name at a wrong position, or another name than upstream, and DROP INDEX leaves it."""

from __future__ import annotations

import pytest

from pkg.ddl import key_names, leaves_names_out, parse, with_key_names
from pkg.schema_tracker import SchemaTracker, ServerDefaults

_TABLE = "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, n INT, s VARCHAR(20), KEY v (v), KEY twice (v, n))"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE d.t ADD INDEX(n)", "ALTER TABLE d.t ADD INDEX `n` (n)"),
        ("ALTER TABLE d.t ADD KEY (v), ADD UNIQUE (v, n)",
         "ALTER TABLE d.t ADD KEY `v_2` (v), ADD UNIQUE `v_3` (v, n)"),
        ("ALTER TABLE d.t ADD UNIQUE KEY USING BTREE (n)", "ALTER TABLE d.t ADD UNIQUE KEY `n` USING BTREE (n)"),
        ("ALTER TABLE d.t ADD CONSTRAINT UNIQUE (N)", "ALTER TABLE d.t ADD CONSTRAINT UNIQUE `n` (N)"),
        ("ALTER TABLE d.t DROP KEY v, ADD KEY (v, s)", "ALTER TABLE d.t DROP KEY v, ADD KEY `v` (v, s)"),
        ("ALTER TABLE d.t ADD (w INT, INDEX (w), INDEX (w))",
         "ALTER TABLE d.t ADD (w INT, INDEX `w` (w), INDEX `w_2` (w))"),
        ("ALTER TABLE d.t CHANGE v w INT, ADD KEY (w)", "ALTER TABLE d.t CHANGE v w INT, ADD KEY `w` (w)"),
        ("ALTER TABLE d.t ADD INDEX IF NOT EXISTS (n)", "ALTER TABLE d.t ADD INDEX IF NOT EXISTS `n` (n)"),
        ("CREATE TABLE d.x (a INT UNIQUE, b INT, KEY (a), UNIQUE a_3 (a, b), KEY (a))",
         "CREATE TABLE d.x (a INT UNIQUE, b INT, KEY `a_2` (a), UNIQUE a_3 (a, b), KEY `a_4` (a))"),
    ],
)  # fmt: skip
def test_keys_get_the_names_that_the_upstream_finds(sql: str, expected: str) -> None:
    tracker = SchemaTracker(ServerDefaults())
    tracker.apply(parse(_TABLE))
    statement = parse(sql, flavor="mariadb")
    assert leaves_names_out(statement)
    named = with_key_names(statement, key_names(statement, None if statement.body else parse(_TABLE).body))
    assert " ".join(named.sql.split()) == expected.replace("INDEX(", "INDEX (")
    # The statement does the same as before.
    again = SchemaTracker(ServerDefaults())
    again.apply(parse(_TABLE))
    again.apply(named)
    tracker.apply(statement)
    assert again.tables() == tracker.tables()
    assert not leaves_names_out(named)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE d.t ADD INDEX given (n), ADD CONSTRAINT c UNIQUE (n), ADD PRIMARY KEY (v), ADD CHECK (n > 1)",
        "ALTER TABLE d.t ADD w INT UNIQUE, ADD FOREIGN KEY f (n) REFERENCES d.t (id)",
        "CREATE INDEX given ON d.t (n)",
        "CREATE TABLE d.y LIKE d.t",
    ],
)
def test_other_keys_stay_as_they_are(sql: str) -> None:
    assert not leaves_names_out(parse(sql))
