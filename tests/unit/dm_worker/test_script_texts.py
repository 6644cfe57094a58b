"""Scripts of DM look for fixed strings in errors and logs of a worker. What a real server has to say is in
``tests/e2e/test_fixed_strings.py``."""

from __future__ import annotations

import pymysql
import pytest

from dm_worker.relay.executed import _not_met
from dm_worker.table_reads.snapshot import _no_lock
from pkg.errors import DMError
from pkg.mysql.connection import classify
from pkg.mysql.schema import Column, TableInfo
from pkg.rules.merge_rules import extract_problems

_DENIED = pymysql.err.OperationalError(1044, "Access denied for user 'u'@'%' to database 'x'")
_CHARSET = pymysql.err.OperationalError(1115, "Unknown character set: 'utf16x'")
_LOCK = "LOCK TABLES `x`.`t` READ"


@pytest.mark.parametrize(
    ("error", "member", "words"),
    [
        (_no_lock(_DENIED, _LOCK), "RawCause", f"{_LOCK}: Error 1044 (42000): Access denied"),
        (classify(_CHARSET, scope="downstream"), "RawCause", "Error 1115 (42000): Unknown character set"),
        (_not_met(0, (1, 3), "0-1-4"), "Message", "no relay pos match gtid 0-1-3"),
    ],
)
def test_an_error_has_the_strings_in_one_message(error: DMError, member: str, words: str) -> None:
    assert words in error.to_dict()[member]


def test_a_lock_of_many_tables_is_shown_cut() -> None:
    many = "LOCK TABLES " + ", ".join(f"`x`.`t{number}` READ" for number in range(10_000))
    assert len(str(_no_lock(_DENIED, many))) < 1500


def test_each_missing_extended_column_is_reported_and_one_statement_adds_all() -> None:
    number = Column("id", "int", "int(11)", nullable=False)
    there = TableInfo("out", "t", (number,), ())
    problems = extract_problems(TableInfo("d", "t", (number,), ()), there, ["c_table", "c_source"])
    assert [one.what.partition("must contain extended columns")[2] for one in problems] == [
        " that it lacks: `c_table`", " that it lacks: `c_source`",
    ]  # fmt: skip
    (added,) = {one.workaround for one in problems}
    assert "ADD COLUMN `c_table`" in added
    assert "ADD COLUMN `c_source`" in added
