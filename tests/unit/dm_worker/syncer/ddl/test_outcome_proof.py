"""Hazard: a statement that ran is taken for one that did not, or the other way round, or somebody else's for it."""

from __future__ import annotations

import pytest

from dm_worker.syncer.checkpoint.ddl_table import ShownTables
from dm_worker.syncer.ddl.outcome_proof import StatementOutcome, judge
from pkg import ddl

RAN, NOT, TRY, UNKNOWN = (
    StatementOutcome.RAN,
    StatementOutcome.DID_NOT_RUN,
    StatementOutcome.TRY,
    StatementOutcome.UNKNOWN,
)
ADD, ADD_INDEX = "ALTER TABLE t ADD n INT", "ALTER TABLE t ADD INDEX (v)"


def verdict(sql: str, before: str, now: str, leads_to: str | None) -> StatementOutcome:
    """Of a statement about one table, which makes ``leads_to`` of it; None when nothing shows it."""
    parsed = ddl.parse(sql, default_schema="d")
    return judge(
        parsed,
        ShownTables((before,)),
        ShownTables((now,)),
        lambda after: None if leads_to is None else (leads_to,) == after,
    )


@pytest.mark.parametrize(
    ("sql", "now", "leads_to", "expected"),
    [
        (ADD, "a", "b", NOT),
        (ADD, "b", "b", RAN),
        # The target refuses a column that is there already.
        (ADD, "c", "b", TRY),
        (ADD, "c", None, TRY),
        (ADD_INDEX, "b", "b", RAN),
        (ADD_INDEX, "c", "b", UNKNOWN),
        (ADD_INDEX, "b", None, UNKNOWN),
        ("ALTER TABLE t ADD INDEX i (v)", "c", "b", TRY),
        ("ALTER TABLE t ADD PRIMARY KEY (v)", "c", "b", TRY),
        ("ALTER TABLE t ADD n INT, ADD INDEX (n)", "c", "b", UNKNOWN),
        ("ALTER TABLE t ADD n INT, ALGORITHM = COPY", "c", "b", TRY),
        ("ALTER TABLE t MODIFY v INT", "c", "b", UNKNOWN),
        ("ALTER TABLE t DROP v", "c", "b", TRY),
        ("CREATE INDEX i ON t (v)", "c", "b", TRY),
        ("ALTER TABLE t ADD CHECK (v > 0)", "c", "b", UNKNOWN),
        ("ALTER TABLE t DROP PARTITION p", "c", "b", TRY),
        ("ALTER TABLE t COALESCE PARTITION 1", "c", "b", UNKNOWN),
        # Once more leaves the same behind.
        ("TRUNCATE TABLE t", "a", "a", NOT),
        ("TRUNCATE TABLE t", "c", "a", TRY),
        ("ALTER TABLE t FORCE", "a", "a", NOT),
        ("ALTER TABLE t FORCE", "c", "a", UNKNOWN),
        ("CREATE TABLE t (v INT)", "c", "b", TRY),
        ("CREATE OR REPLACE TABLE t (v INT)", "c", "b", UNKNOWN),
        ("CREATE OR REPLACE TABLE t (v INT)", "b", "b", RAN),
        # A target without OR REPLACE drops it first.
        ("CREATE OR REPLACE TABLE t (v INT)", "", "b", TRY),
        ("DROP TABLE t", "a", None, NOT),
        ("DROP TABLE t", "", None, RAN),
        # Somebody has created it again.
        ("DROP TABLE t", "c", None, UNKNOWN),
        ("CREATE DATABASE d", "c", None, TRY),
        ("ALTER DATABASE d CHARSET latin1", "c", None, TRY),
        ("DROP DATABASE d", "c", None, UNKNOWN),
        # Columns that change places may look as before.
        ("ALTER TABLE t RENAME COLUMN v TO w", "a", "b", NOT),
        ("ALTER TABLE t CHANGE v w INT FIRST, CHANGE w v INT", "a", "b", NOT),
        ("ALTER TABLE t CHANGE v w INT FIRST, CHANGE w v INT", "a", "a", UNKNOWN),
        ("ALTER TABLE t CHANGE v w INT FIRST, CHANGE w v INT", "a", None, UNKNOWN),
        ("ALTER TABLE t CHANGE v v INT, DROP w", "a", None, NOT),
    ],
)
def test_verdict(sql: str, now: str, leads_to: str | None, expected: StatementOutcome) -> None:
    assert verdict(sql, "a", now, leads_to) is expected


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (((1, 2), (3,)), ((1, 2), (3,)), NOT),
        (((1, 2), (3,)), ((2, 3), (1,)), RAN),
        # Rebuilt, or not known.
        (((1, 2), (3,)), ((4, 5), (6,)), UNKNOWN),
        (((1, 2), (3,)), ((1, 2), ()), UNKNOWN),
        (((1, 2), ()), ((1, 2), ()), UNKNOWN),
        ((), (), UNKNOWN),
    ],
)
def test_files_show_whether_a_partition_was_exchanged(
    before: tuple[tuple[int, ...], ...], now: tuple[tuple[int, ...], ...], expected: StatementOutcome
) -> None:
    parsed = ddl.parse("ALTER TABLE d.t EXCHANGE PARTITION p WITH TABLE d.u")
    shown = ("a", "b")
    assert judge(parsed, ShownTables(shown, before), ShownTables(shown, now), lambda _: None) is expected


def test_what_was_shown_is_read_as_it_was_written() -> None:
    shown = ShownTables(("CREATE TABLE `é` ('\\', '')", ""), ((1, 2), ()))
    assert ShownTables.from_json(shown.to_json()) == shown
