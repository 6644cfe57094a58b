"""Hazard: a session variable of the source hides rows or structures, and the copy is silently not the whole."""

from __future__ import annotations

import pytest

from pkg.config.source import load_source
from pkg.errors import Code, DMError

SOURCE = """source-id: s
from:
  host: h
  port: 3306
  session:
    {}
"""


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        ("sql_select_limit: 100", "rows of a full copy would be missing"),
        ("SQL_SELECT_LIMIT: 100", "rows of a full copy would be missing"),
        ("sql_quote_show_create: 'OFF'", "structures could not be read"),
        ("sql_mode: 'STRICT_ALL_TABLES,ANSI_QUOTES'", "structures could not be read"),
        ("sql_mode: ansi", "structures could not be read"),
        ("sql_mode: NO_TABLE_OPTIONS", "structures could not be read"),
        ("character_set_results: latin1", "other characters"),
        ("character_set_client: utf8mb3", "other characters"),
        ("collation_connection: gbk_chinese_ci", "other characters"),
    ],
)
def test_what_the_reading_relies_on_is_refused_with_its_location(variable: str, why: str) -> None:
    with pytest.raises(DMError) as caught:
        load_source(SOURCE.format(variable), "s.yaml")
    assert caught.value.kind is Code.ConfigYamlTransform
    assert caught.value.message.startswith("s.yaml:6:")
    assert why in caught.value.message
    assert "Remove" in caught.value.workaround


@pytest.mark.parametrize(
    "variable",
    [
        "net_read_timeout: 600",
        "sql_mode: STRICT_TRANS_TABLES",
        "character_set_results: utf8mb4",
        "collation_connection: utf8mb4_general_ci",
        "sql_quote_show_create: 1",
    ],
)
def test_other_variables_are_set_as_they_are(variable: str) -> None:
    name, _, value = variable.partition(": ")
    assert dict(load_source(SOURCE.format(variable)).from_.session) == {name: value}
