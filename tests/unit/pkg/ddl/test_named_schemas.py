"""Hazard: a statement that cannot be parsed is ignored although it is about a migrated table."""

from __future__ import annotations

import pytest

from pkg.ddl import named_schemas


@pytest.mark.parametrize(
    ("sql", "default", "schemas"),
    [
        ("CREATE SEQUENCE other.s", "", {"other"}),
        ("CREATE SEQUENCE s", "d", {"d"}),
        ("CREATE SEQUENCE other.s", "d", {"d", "other"}),
        ('ALTER WONDER `o``x` . `t`, "shop".t', "", None),
        ("ALTER WONDER `o``x` . `t`, shop /* . */ . t SET a.b.c", "", {"o`x", "shop", "a", "b"}),
        ("ALTER WONDER x 'shop.t' 1.5", "", set()),
        ("DROP WONDERFUL SCHEMA x", "", None),
        ("INSERT INTO other.t VALUES (1)", "", None),
        ("SET STATEMENT a=1 FOR INSERT INTO other.t VALUES (1)", "", None),
        ("CREATE SEQUENCE other.s COMMENT 'open", "", None),
    ],
)
def test_every_schema_that_may_be_meant_is_named(sql: str, default: str, schemas: set[str] | None) -> None:
    found = named_schemas(sql, default_schema=default, flavor="mysql")
    assert (None if found is None else set(found)) == schemas


def test_double_quotes_are_names_under_ansi_quotes() -> None:
    assert named_schemas('ALTER WONDER "shop".t', sql_mode="ANSI_QUOTES") == frozenset({"shop"})
