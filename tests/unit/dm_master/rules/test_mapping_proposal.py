"""Hazard: a proposed column mapping that people paste, and that then lets shards overwrite each other."""

from __future__ import annotations

import itertools

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dm_master.rules.mapping_proposal import literal_pattern, propose
from pkg.mysql.schema import Column, TableInfo
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.model import ColumnMappingRule
from pkg.rules.selector import NamePattern

ID = Column("id", "bigint", "bigint(20)", nullable=False, auto_increment=True)
TARGET = ("all", "orders")
Sources = dict[str, list[tuple[str, str]]]


def _proposed(sources: Sources, others: Sources | None = None, column: Column = ID) -> str:
    infos = {source: [TableInfo(s, t, (column,)) for s, t in tables] for source, tables in sources.items()}
    migrated = {source: [*tables, *(others or {}).get(source, ())] for source, tables in sources.items()}
    return propose(TARGET, "id", infos, migrated, case_sensitive=True)


def _pasted(text: str) -> dict[str, list[ColumnMappingRule]]:
    """The proposal as somebody puts it into a task file: source → its rules."""
    blocks_text, _, instances_text = text.partition("; in mysql-instances: ")
    blocks = yaml.safe_load(blocks_text)["column-mappings"]
    rules = {
        name: ColumnMappingRule(
            block["schema-pattern"], block["target-column"], block["expression"], block["table-pattern"],
            block["source-column"], tuple(block["arguments"]),
        )
        for name, block in blocks.items()
    }  # fmt: skip
    instances = dict(part.split(" column-mapping-rules: ") for part in instances_text.split("; "))
    return {source: [rules[name] for name in yaml.safe_load(names)] for source, names in instances.items()}


def test_the_usual_sharding() -> None:
    sources = {f"s{i}": list(itertools.product(["shop_1", "shop_2"], ["orders_1", "orders_2"])) for i in (1, 2)}
    assert _proposed(sources) == (
        "column-mappings: {'orders-1': {schema-pattern: 'shop_[0-9]*', table-pattern: 'orders_[0-9]*',"
        " source-column: 'id', target-column: 'id', expression: 'partition id', arguments: ['1', 'shop_', 'orders_']},"
        " 'orders-2': {schema-pattern: 'shop_[0-9]*', table-pattern: 'orders_[0-9]*', source-column: 'id',"
        " target-column: 'id', expression: 'partition id', arguments: ['2', 'shop_', 'orders_']}};"
        " in mysql-instances: s1 column-mapping-rules: ['orders-1']; s2 column-mapping-rules: ['orders-2']"
    )


@pytest.mark.parametrize(
    ("sources", "arguments"),
    [
        ({"a": [("s", "t")], "b": [("s", "t")]}, [("1", "", ""), ("2", "", "")]),
        ({"a": [("s", "t"), ("s", "t_1")]}, [("", "", "t", "_"), ("", "", "t", "_")]),
        ({"a": [("s1", "t"), ("s2", "t")]}, [("", "s", "")]),
        ({"a": [("s-01", "t.7"), ("s-02", "t.8")]}, [("", "s-", "t.")]),
    ],
)
def test_only_the_parts_that_distinguish_shards_are_used(sources: Sources, arguments: list[tuple[str, ...]]) -> None:
    rules = [rule for rules in _pasted(_proposed(sources)).values() for rule in rules]
    assert [rule.arguments for rule in rules] == arguments


@pytest.mark.parametrize(
    "sources",
    [
        {"a": [("s", "north"), ("s", "south")]},
        {"a": [("s", "t_1"), ("s", "u_2")]},
        {"a": [("s", "t_1"), ("s", "t_01")]},
        {"a": [("s", "t"), ("s", "t_0")]},
        {"a": [("s", "t_202401"), ("s", "t_202402")]},
        {"a": [("s", "1"), ("s", "2")]},
        {f"s{i}": [("s", "t")] for i in range(16)},
    ],
)
def test_names_that_do_not_allow_it_get_no_proposal(sources: Sources) -> None:
    assert _proposed(sources) == ""


def test_a_column_that_takes_no_number_gets_no_proposal() -> None:
    sources = {"a": [("s", "t_1"), ("s", "t_2")]}
    assert _proposed(sources, column=Column("id", "datetime", "datetime")) == ""


def test_tables_beside_the_shards_are_not_matched() -> None:
    sources = {"a": [("s", "t_1"), ("s", "t_2")]}
    assert [rule.table_pattern for rule in _pasted(_proposed(sources))["a"]] == ["t_[0-9]*"]
    rules = _pasted(_proposed(sources, {"a": [("s", "t_1_old"), ("s", "t_")]}))["a"]
    assert [rule.table_pattern for rule in rules] == ["t_1", "t_2"]


@pytest.mark.parametrize("name", ["plain", "~tilde", "a*b", "what?", "[x]", "[!", "*", "ü[ä"])
def test_a_literal_pattern_matches_its_name_alone(name: str) -> None:
    pattern = NamePattern(literal_pattern(name), True)
    assert pattern.matches(name)
    assert not any(pattern.matches(other) for other in (f"{name}x", f"x{name}", name[1:], "z" * len(name)))


_NAMES = st.builds(
    lambda stem, separator, number: stem + separator + number,
    st.sampled_from(["t", "orders", "a1b", "we?rd", "it's"]),
    st.sampled_from(["", "_", "-"]),
    st.one_of(st.just(""), st.integers(0, 300).map(str), st.just("007")),
)
_SOURCE = st.lists(st.tuples(_NAMES, _NAMES), min_size=1, max_size=6, unique=True)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), _SOURCE, min_size=1, max_size=3),
    st.lists(st.tuples(_NAMES, _NAMES), max_size=4),
)
def test_what_is_proposed_keeps_all_rows_apart_and_touches_nothing_else(
    sources: Sources, beside: list[tuple[str, str]]
) -> None:
    others = {source: [table for table in beside if table not in tables] for source, tables in sources.items()}
    text = _proposed(sources, others)
    if not text:
        return
    pasted = _pasted(text)
    seen: dict[object, tuple[str, str, str]] = {}
    for source, tables in sources.items():
        mapper = ColumnMapper(pasted[source], True)
        assert not any(mapper.rules_for(*table) for table in others[source])
        for schema, table in tables:
            mapping = mapper.compile(schema, table, (ID,))
            assert mapping is not None
            for number in (0, 1, (1 << 44) - 1):
                [value] = mapping.values([number])
                assert isinstance(value, int)
                assert 0 <= value < 1 << 63
                assert value not in seen, (seen[value], source, schema, table)
                seen[value] = (source, schema, table)
