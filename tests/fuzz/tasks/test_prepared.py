"""Hazard: a target refuses what the search prepares there, and the error that follows counts as a finding."""

from __future__ import annotations

from types import TracebackType
from typing import cast

import pymysql
import pytest

from tests.fuzz.features import PARAMETERS
from tests.fuzz.generator import TASK
from tests.fuzz.history import Column, History, Table
from tests.fuzz.played import Played
from tests.fuzz.refusals import NO_TABLE, reason
from tests.fuzz.servers import Servers
from tests.fuzz.tasks.prepared import prepare_target

_WIDE = "ALTER TABLE {s}.`t` MODIFY `c` BIGINT"


class Target:
    """A server, its connection and its cursor in one, which refuses statements with this word."""

    def __init__(self, refuses: str) -> None:
        self._refuses = refuses
        self.executed: list[str] = []

    def connect(self, **_: str) -> Target:
        return self

    def cursor(self) -> Target:
        return self

    def __enter__(self) -> Target:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        pass

    def close(self) -> None:
        pass

    def execute(self, sql: str) -> list[tuple[str]]:
        if self._refuses and self._refuses in sql:
            raise pymysql.OperationalError(1273, "no")
        self.executed.append(sql)
        return [("STRICT_TRANS_TABLES",)]


class Pair:
    def __init__(self, target: Target) -> None:
        self.upstream, self.target = Target(""), target


def _prepared(refuses: str, **settings: str) -> tuple[Played, Target]:
    chosen = {name: PARAMETERS[name].values[0] for name in TASK} | {"mode": "incremental"} | settings
    table = Table("t", (Column("id", "INT"), Column("c", "INT")), ("PRIMARY KEY (`id`)",))
    history = History(1, "mysql-8.0:tidb", chosen, (table,), ((),), (), (_WIDE,))
    played, target = Played(history, "h1", done=[table.sql()]), Target(refuses)
    prepare_target(played, cast(Servers, Pair(target)), chosen, "/rows.txt")
    return played, target


def test_a_target_that_takes_all_has_the_table_and_its_own_form() -> None:
    played, target = _prepared("", route="table")
    assert NO_TABLE not in played.tags
    assert played.target_differs
    assert "ALTER TABLE h1.`t_r` MODIFY `c` BIGINT" in target.executed


def test_a_target_that_refuses_its_own_form_does_not_differ() -> None:
    played, _ = _prepared("MODIFY")
    assert NO_TABLE not in played.tags
    assert not played.target_differs


@pytest.mark.parametrize("rules", [{}, {"extract": "table"}])
def test_an_error_for_a_table_that_the_target_refuses_is_right(rules: dict[str, str]) -> None:
    played, _ = _prepared("CREATE TABLE", **rules)
    assert reason(36070, "", played.tags) is not None
    assert reason(36070, "", played.tags - {NO_TABLE}) is None


def test_an_extracted_text_is_a_column_and_a_part_of_the_key_from_the_start() -> None:
    # TiDB takes no other primary key later.
    _, target = _prepared("DROP PRIMARY KEY", extract="table")
    (made,) = (sql for sql in target.executed if sql.startswith("CREATE TABLE"))
    assert "`src` VARCHAR(64) NOT NULL DEFAULT '', PRIMARY KEY (`id`, `src`)" in made
