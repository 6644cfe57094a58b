"""Hazard: a mistake in a rule block is ignored, or is reported at the wrong line and column."""

from __future__ import annotations

import pytest

from pkg.config.keys import TASK
from pkg.errors import Code, DMError
from pkg.rules import yaml_blocks
from pkg.rules.model import BinlogFilterRule, ColumnMappingRule, ExtractRule
from pkg.settings.yaml_reader import Section, read_document

#: As files of the versions that had column mapping write it.
OLD_FILE = """\
column-mappings:
  instance-1:
    schema-pattern: "schema_*"
    table-pattern: "table_*"
    expression: "partition id"
    source-column: "id"
    target-column: "id"
    arguments: ["1", "schema_", "table_"]
  sharded-log:
    schema-pattern: log
    expression: add prefix
    target-column: name
    arguments:
      - "log-"
    create-table-query: "create table x (a int)"
"""


def _blocks(text: str, key: str) -> dict[str, Section]:
    return read_document(text, "t.yaml", TASK).sections(key)


def test_column_mappings_of_an_old_file_load() -> None:
    blocks, warnings = _blocks(OLD_FILE, "column-mappings"), list[str]()
    rules = [yaml_blocks.read_column_mapping(block, warnings) for block in blocks.values()]
    assert rules == [
        ColumnMappingRule("schema_*", "id", "partition id", "table_*", "id", ("1", "schema_", "table_")),
        ColumnMappingRule("log", "name", "add prefix", "", "", ("log-",)),
    ]
    assert warnings == ["create-table-query of the column mapping sharded-log has no effect"]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('schema-pattern: "schema_*"', 'schema-pattern: "*_schema"', "t.yaml:3:21"),
        ('schema-pattern: "schema_*"', 'schema-pattern: "~^schema"', "t.yaml:3:21"),
        ('table-pattern: "table_*"', 'table-pattern: "a*b"', "t.yaml:4:20"),
        ('"partition id"', '"partition ids"', "t.yaml:5:17"),
        ('target-column: "id"', 'target-column: ""', "t.yaml:7:20"),
        ('    target-column: "id"\n', "", "t.yaml:3:5"),
        ('["1", "schema_", "table_"]', '["16", "schema_", "table_"]', "t.yaml:8:16"),
        ('["1", "schema_", "table_"]', '["1"]', "t.yaml:8:16"),
    ],
)
def test_a_mistake_in_a_column_mapping_has_its_location(old: str, new: str, place: str) -> None:
    block = _blocks(OLD_FILE.replace(old, new, 1), "column-mappings")["instance-1"]
    with pytest.raises(DMError) as caught:
        yaml_blocks.read_column_mapping(block, [])
    assert caught.value.kind is Code.ConfigGenColumnMapping
    assert caught.value.message.startswith(place + ": ")
    assert caught.value.workaround


FILTER = """\
filters:
  f:
    schema-pattern: "test_*"
    table-pattern: "t_*"
    events: ["truncate table", "drop table"]
    sql-pattern:
      - "^DROP\\\\s+PROCEDURE"
      - "^CREATE"
    action: Ignore
"""


def test_a_filter_loads() -> None:
    rule = yaml_blocks.read_filter(_blocks(FILTER, "filters")["f"])
    expected = BinlogFilterRule(
        "test_*", "t_*", ("truncate table", "drop table"), (r"^DROP\s+PROCEDURE", "^CREATE"), "Ignore"
    )
    assert rule == expected


@pytest.mark.parametrize(
    ("old", "new", "place", "hint"),
    [
        ('"drop table"', '"drop tables"', "t.yaml:5:32", "'drop table'"),
        ('"drop table"', '"none ddl", "create table"', "t.yaml:5:44", "narrower"),
        ('"^CREATE"', '"(CREATE"', "t.yaml:8:9", "RE2"),
        ('"^CREATE"', '"^DROP\\\\s+PROCEDURE"', "t.yaml:8:9", "Remove"),
        ("Ignore", "Skip", "t.yaml:9:13", "Do, Ignore or Error"),
        ("Ignore", "", "t.yaml:9:5", "Do, Ignore or Error"),
        ('"test_*"', '"~test"', "t.yaml:3:21", ""),
        ('"t_*"', '"t_*x"', "t.yaml:4:20", ""),
    ],
)
def test_a_mistake_in_a_filter_is_reported_at_its_item(old: str, new: str, place: str, hint: str) -> None:
    with pytest.raises(DMError) as caught:
        yaml_blocks.read_filter(_blocks(FILTER.replace(old, new, 1), "filters")["f"])
    assert caught.value.kind is Code.ConfigBinlogEventFilter
    assert caught.value.message.startswith(place + ": ")
    assert hint in caught.value.workaround


ROUTE = """\
routes:
  r:
    schema-pattern: "shard_*"
    target-schema: all
    extract-table: {table-regexp: "t_(.*)", target-column: c_table}
    extract-source:
      source-regexp: "(.*)"
      target-column: c_source
"""


def test_a_route_with_extracts_loads() -> None:
    block = _blocks(ROUTE, "routes")["r"]
    rule = yaml_blocks.read_route(block, case_sensitive=True)
    assert rule.extract_table == ExtractRule("t_(.*)", "c_table")
    assert rule.extract_schema is None
    assert rule.extract_source == ExtractRule("(.*)", "c_source")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"t_(.*)"', '"t_.*"', "t.yaml:5:35"),
        ('"t_(.*)"', '"t_("', "t.yaml:5:35"),
        ('source-regexp: "(.*)"', 'source-regexp: ""', "t.yaml:7:22"),
        ("c_source", "c_table", "t.yaml:3:21"),
    ],
)
def test_a_mistake_in_an_extract_has_its_location(old: str, new: str, place: str) -> None:
    with pytest.raises(DMError) as caught:
        yaml_blocks.read_route(_blocks(ROUTE.replace(old, new, 1), "routes")["r"], case_sensitive=True)
    assert caught.value.kind is Code.ConfigGenTableRouter
    assert caught.value.message.startswith(place + ": ")
