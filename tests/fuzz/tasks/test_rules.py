"""Hazards: rules that say another target than the one that is compared; shards whose structures never meet again."""

from __future__ import annotations

from collections import Counter

import pytest

from pkg.mysql.schema import Column as SchemaColumn
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.table_router import TableRouter
from tests.fuzz.features import DDL_OF_SHARDS, UNCOORDINATED_DDL, Pair
from tests.fuzz.generator import GROUP, generate, settings_of
from tests.fuzz.history import History
from tests.fuzz.oracle import Content, merged
from tests.fuzz.shrink import shrink
from tests.fuzz.tasks.filtered import after_changes
from tests.fuzz.tasks.rules import EXTRACTED, SHIFT, Rules, is_ruled, rules_of

PAIR = Pair.parse("mariadb")
_NONE = {"merge": "none", "mapping": "none", "extract": "none", "row filter": "none", "route": "none", "rule": "none"}
_MERGES = (
    "none", "schemas", "tables", "sources", "pessimistic schemas", "pessimistic tables", "pessimistic sources",
)  # fmt: skip


def _rules(**chosen: str) -> Rules:
    return Rules({**_NONE, **chosen}, "h7")


def _histories(count: int, name: str, *values: str) -> list[History]:
    """One history of each of the first groups that have one of these values."""
    found: list[History] = []
    group = 0
    while len(found) < count:
        if settings_of(group * GROUP, PAIR)[name] in values:
            found.append(generate(group * GROUP + group % GROUP, PAIR))
        group += 1
    return found


@pytest.mark.parametrize("merge", _MERGES)
@pytest.mark.parametrize("extract", ["none", "table", "schema", "source"])
def test_tables_go_where_the_products_router_takes_them(merge: str, extract: str) -> None:
    rules = _rules(merge=merge, extract=extract)
    router = TableRouter(rules.routes(), case_sensitive=False)
    for shard in range(rules.shards):
        for name in ("t", "u"):
            placed = rules.placed(f"{{s}}.`{name}`", shard).replace("`", "")
            schema, table = placed.split(".")
            assert router.route(schema, table) == rules.target_of((schema, table))
            source = next(one for one in rules.sources if schema in rules.schemas_of(one))
            extracted = router.extracted(schema, table, source)
            assert dict(extracted) == dict(rules.reading((schema, table)).added)
            assert (EXTRACTED in dict(extracted)) == (extract != "none")


@pytest.mark.parametrize("merge", _MERGES)
def test_numbers_get_the_bits_that_partition_id_gives_them(merge: str) -> None:
    rules = _rules(merge=merge, mapping="partition id")
    mapper = ColumnMapper(rules.mappings(), case_sensitive=False)
    bases = set()
    for shard in range(rules.shards):
        schema, table = rules.placed("{s}.`t`", shard).replace("`", "").split(".")
        mapping = mapper.compile(schema, table, [SchemaColumn("id", "bigint", "bigint")])
        assert mapping is not None
        (computed,) = rules.reading((schema, table)).computed.values()
        base = int(computed.strip("()").split("|")[1])
        assert mapping.values([5]) == [base | 5]
        bases.add(base)
    assert len(bases) == rules.shards


def test_each_ddl_comes_to_both_shards_in_one_order() -> None:
    seen = 0
    for history in _histories(12, "merge", *_MERGES[4:]):
        texts: list[list[str]] = [
            [step.text for step in history.steps if step.tied and step.shard == shard] for shard in (0, 1)
        ]
        assert texts[0] == texts[1]
        seen += len(texts[0])
    assert seen > 12


def test_a_refused_statement_about_rows_keeps_no_shard_from_the_rest_of_its_ddl() -> None:
    """The other shards would wait for it for ever."""
    between = 0
    for seed in range(12):
        focus = ["merge=pessimistic schemas", "row filter=none", "statement=rename column"]
        for step in generate(seed, Pair.parse("mariadb"), focus).steps:
            if "SET `n2` = 5" in step.text:
                assert not step.tied
                between += 1
    assert between > 3


def test_merged_histories_without_coordination_have_one_kind_of_ddl() -> None:
    for history in _histories(12, "merge", *_MERGES[1:4]):
        kinds = {tag.removeprefix("statement=") for step in history.steps for tag in step.tags}
        assert kinds & DDL_OF_SHARDS <= {UNCOORDINATED_DDL}


def test_shards_have_ids_of_their_own_unless_a_rule_keeps_them_apart() -> None:
    for history in _histories(20, "merge", *_MERGES[1:]):
        written = [step for step in history.steps if step.do == "insert" and step.table in "tu" and step.rows]
        ids = {step.shard: set[str]() for step in written}
        for step in written:
            ids[step.shard].update(row["id"] for row in step.rows if "id" in row)
        by_rule = history.settings["mapping"] == "partition id" or history.settings["merge"].endswith(
            f"{history.settings['extract']}s"
        )
        if not by_rule:
            assert all(int(one) > SHIFT for one in ids[1])
            assert all(int(one) < SHIFT for one in ids[0])


def test_rows_of_shards_are_added_up() -> None:
    one = Content((("id", "int"),), Counter({(1,): 1, (2,): 2}))
    two = Content((("id", "int"),), Counter({(2,): 1}))
    assert merged([one, two]) == Content((("id", "int"),), Counter({(1,): 1, (2,): 3}))
    assert merged([one, Content((("x", "int"),), Counter())]) is None
    assert merged([None]) is None


def test_a_filter_leaves_out_changes_of_its_kind_alone() -> None:
    before, after = {1: ("a",), 2: ("b",), 3: ("c",)}, {1: ("A",), 3: ("c",), 4: ("d",)}
    every = frozenset({1, 2, 3, 4})
    assert after_changes(before, before, after, {}, safe=False) == after
    assert after_changes(before, before, after, {"insert": every}, safe=False) == {1: ("A",), 3: ("c",)}
    assert after_changes(before, before, after, {"update": every}, safe=False) == {1: ("a",), 3: ("c",), 4: ("d",)}
    assert after_changes(before, before, after, {"delete": every}, safe=False) == {**after, 2: ("b",)}


def test_an_update_of_a_row_that_was_left_out_writes_it_in_safe_mode_alone() -> None:
    assert after_changes({}, {1: ("a",)}, {1: ("b",)}, {}, safe=False) == {}
    assert after_changes({}, {1: ("a",)}, {1: ("b",)}, {}, safe=True) == {1: ("b",)}


def test_shrinking_keeps_what_the_rules_need() -> None:
    (history,) = _histories(1, "row filter", "insert")
    small = shrink(history, lambda _: True, most=400)
    assert is_ruled(small.settings)
    for table in small.tables:
        assert "id" in {column.name for column in table.columns}
        assert any(key.startswith("PRIMARY KEY") for key in table.keys)
    assert rules_of(small, "h1").expression == rules_of(history, "h1").expression
