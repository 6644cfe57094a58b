"""Hazard: a statement that changes rows is taken for one that does not."""

from __future__ import annotations

import pytest

from pkg.ddl import parse
from tests.statement_kinds import StatementKind, decision, statement_kinds

KINDS = statement_kinds()


def test_the_table_has_every_kind() -> None:
    assert len(KINDS) >= 100
    assert {kind.becomes.split()[0] for kind in KINDS} == {"executed", "skipped", "refused"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.example[:60])
def test_a_statement_becomes_what_the_table_says(kind: StatementKind) -> None:
    for flavor in ("mariadb", "mysql"):
        if kind.of(flavor):
            assert decision(kind.example, flavor) == kind.becomes


@pytest.mark.parametrize(
    "sql",
    [
        "ANALYZE /* TABLE */ UPDATE t SET v = 1",
        "/*M!100500 ANALYZE */ FORMAT=JSON DELETE FROM t",
        "analyze format = traditional insert into t values (1)",
        "ANALYZE LOCAL UPDATE t SET v = 1",
        "ANALYZE `TABLE` t",
        "CREATE OR REPLACE TEMPORARY TABLE t (a INT) AS SELECT 1",
        "CREATE TEMPORARY TABLE t VALUES ROW (f())",
        "CREATE TEMPORARY TABLE t TABLE v",
        "CREATE TEMPORARY TABLE IF NOT EXISTS t (SELECT f())",
        "BEGIN NOT ATOMIC DELETE FROM t; END",
        "BEGIN UPDATE t SET v = 1; END",
        "REPAIR t",
        "OPTIMIZE LOCAL t",
    ],
)
def test_only_the_exact_keywords_are_skipped(sql: str) -> None:
    assert decision(sql, "mariadb").startswith("refused")


@pytest.mark.parametrize(
    "sql",
    ["BEGIN WORK", "BEGIN;", "COMMIT WORK", "ANALYZE LOCAL TABLES t, u", "REPAIR NO_WRITE_TO_BINLOG TABLE t QUICK",
     "CREATE TEMPORARY TABLE t (a INT, `select` INT)", "CREATE TEMPORARY TABLE `select` LIKE `values`"],
)  # fmt: skip
def test_these_are_the_exact_keywords(sql: str) -> None:
    assert decision(sql, "mariadb") == "skipped"


@pytest.mark.parametrize(
    ("sql", "effect", "names"),
    [
        ("CREATE TEMPORARY TABLE t (a INT)", "made", [("d", "t")]),
        ("CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS `e`.`t` (a INT, b INT)", "made", [("e", "t")]),
        ("CREATE TEMPORARY TABLE t LIKE u", "made", [("d", "t")]),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`,`e`.`u`", "dropped", [("d", "t"), ("e", "u")]),
        ("DROP TEMPORARY TABLES t, u", "dropped", [("d", "t"), ("d", "u")]),
        ("DROP VIEW t", "", []),
    ],
)
def test_names_of_temporary_tables(sql: str, effect: str, names: list[tuple[str, str]]) -> None:
    parsed = parse(sql, default_schema="d")
    assert (parsed.kind, parsed.temporary, list(parsed.tables)) == ("skip", effect, names)
