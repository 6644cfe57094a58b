"""Hazard: trying a statement touches the real tables, or a server's spelling of names hides what it leads to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from dm_worker.syncer.checkpoint.ddl_table import ShownTables
from dm_worker.syncer.ddl.session import DDLSession, StatementFailed
from dm_worker.syncer.ddl.trial import Trial
from pkg import ddl, errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.settings.connections import DBConfig

BEFORE = (
    "CREATE TABLE `{0}` (\n  `v` int(11),\n  KEY `v` (`v`),\n"
    "  CONSTRAINT `{0}_ibfk_1` FOREIGN KEY (`v`) REFERENCES `p` (`v`)\n)"
)
AFTER = (
    "CREATE TABLE `{0}` (\n  `v` int(11),\n  KEY `v` (`v`),\n"
    "  CONSTRAINT `{0}_ibfk_1` FOREIGN KEY (`v`) REFERENCES {1}`p` (`v`),\n"
    "  CONSTRAINT `{0}_ibfk_2` FOREIGN KEY (`v`) REFERENCES {1}`p` (`v`)\n)"
)
STEM = "dm_trial_"


class Session:
    """Shows what a server would."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def run(self, sql: str) -> None:
        self.texts.append(sql)

    def shown(self, names: Iterable[tuple[str, str]]) -> ShownTables:
        return ShownTables(tuple(AFTER.format(table, "`d`.") for _, table in names))


def told(name: str, shown: str, sql: str) -> tuple[bool | None, list[str]]:
    """What is reported of a statement about d.``name``, which the server shows as ``shown``, and what was executed."""
    session = Session()
    server = DBConfig("h", 1)
    trial = Trial(SubTaskConfig("t", "s", "all", server, server), cast(DDLSession, session), "mariadb")
    parsed = ddl.parse(sql, default_schema="d")
    found = trial.leads_to(
        parsed, [("d", name)], [BEFORE.format(shown)], [AFTER.format(shown, "")], session.texts.append
    )
    return found, session.texts


@pytest.mark.parametrize(("name", "shown"), [("t", "t"), ("T", "t")])
def test_only_tables_of_our_own_are_worked_on(name: str, shown: str) -> None:
    statement = f"ALTER TABLE {name} DROP FOREIGN KEY {name}_ibfk_9, ADD FOREIGN KEY (v) REFERENCES p (v)"
    found, texts = told(name, shown, statement)
    assert found is True
    assert f"`{name}`" not in "".join(texts)
    assert f"{name}_ibfk" not in "".join(texts)
    subjects = {table for text in texts for table in ddl.parse(text).tables}
    assert {schema for schema, _ in subjects} == {"dm_meta"}
    assert all(table.startswith(STEM) for _, table in subjects)


def test_a_statement_about_another_table_is_not_tried() -> None:
    found, texts = told("t", "t", "ALTER TABLE other ADD n INT")
    assert found is None
    assert not any("other" in text for text in texts)


def test_names_that_differ_in_case_alone_are_not_reported() -> None:
    session = Session()
    server = DBConfig("h", 1)
    trial = Trial(SubTaskConfig("t", "s", "all", server, server), cast(DDLSession, session), "mariadb")
    parsed = ddl.parse("RENAME TABLE d.t TO d.T")
    assert trial.leads_to(parsed, [("d", "t"), ("d", "T")], ["", ""], ["", ""], session.texts.append) is None
    assert not session.texts


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        (8200, "Unsupported multi schema change for rename table", False),
        (1072, "column does not exist: n", False),
        (1142, "ALTER command denied", None),
        (8200, "Unsupported modify column: can't set auto_increment", None),
    ],
)
def test_what_a_target_takes_only_in_parts_leads_nowhere_as_a_whole(
    number: int, text: str, expected: bool | None
) -> None:
    server = DBConfig("h", 1)
    trial = Trial(SubTaskConfig("t", "s", "all", server, server), cast(DDLSession, Session()), "tidb")

    def refuse(sql: str) -> None:
        raise StatementFailed(number, errors.new(Code.DBExecuteFailed, "refused", raw=f"Error {number}: {text}"))

    parsed = ddl.parse("ALTER TABLE t CHANGE v w INT, RENAME TO u", default_schema="d")
    assert trial.leads_to(parsed, [("d", "t"), ("d", "u")], [BEFORE.format("t"), ""], ["", ""], refuse) is expected
