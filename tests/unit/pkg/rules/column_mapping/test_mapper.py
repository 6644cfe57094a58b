"""Column mapping. Hazards: merged shards that overwrite each other, a value cut or mapped twice, a name misread."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.errors import Code, DMError
from pkg.mysql.schema import Column
from pkg.rules.column_mapping import VALUE_LIMIT, ColumnMapper, PartitionId, TableMapping, collisions
from pkg.rules.model import ColumnMappingRule

BIGINT = Column("id", "bigint", "bigint(20)", nullable=False)
NAME = Column("name", "varchar", "varchar(20)", charset="utf8mb4")
LATIN = Column("latin", "varchar", "varchar(20)", charset="latin1")
RAW = Column("raw", "varbinary", "varbinary(20)")
AMOUNT = Column("amount", "decimal", "decimal(10,2)")
COLUMNS = (BIGINT, NAME, LATIN, RAW, AMOUNT)


def partition(*arguments: str, column: str = "id", table_pattern: str = "table*") -> ColumnMappingRule:
    return ColumnMappingRule("schema*", column, "partition id", table_pattern, column, arguments)


def compiled(*rules: ColumnMappingRule, schema: str = "schema_2", table: str = "table_3", **kw: Any) -> TableMapping:
    mapping = ColumnMapper(rules, kw.get("case_sensitive", True), kw.get("unit", "sync")).compile(
        schema, table, COLUMNS
    )
    assert mapping is not None
    return mapping


def mapped(value: object, *arguments: str, schema: str = "schema_2", table: str = "table_3") -> object:
    return compiled(partition(*arguments), schema=schema, table=table).transforms[0].value(value)  # type: ignore[arg-type]


def test_the_documented_example_with_all_three_parts() -> None:
    expected = 1 << (64 - 1 - 4) | 2 << (64 - 1 - 4 - 7) | 3 << (64 - 1 - 4 - 7 - 8) | 123
    assert mapped(123, "1", "schema_", "table_") == expected
    assert compiled(partition("1", "schema_", "table_")).transforms[0].literal(b"123") == str(expected).encode()


def test_the_documented_example_without_the_schema_part_reserves_no_bits_for_it() -> None:
    assert mapped(123, "1", "", "table_") == 1 << (64 - 1 - 4) | 3 << (64 - 1 - 4 - 8) | 123


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("", "schema_", "table_"), 2 << 56 | 3 << 48),
        (("", "", "table_"), 3 << 55),
        (("", "schema_", ""), 2 << 56),
        (("15", "", ""), 15 << 59),
        (("0", "schema", "table", "_"), 2 << 52 | 3 << 44),
        (("1", "schema_2", "table_3"), 1 << 59),  # a name that equals its prefix has the number 0
        (("1", "schema_2", "table_3", "_"), 1 << 59),
    ],
)
def test_every_form_of_the_arguments(arguments: tuple[str, ...], expected: int) -> None:
    assert mapped(7, *arguments) == expected | 7


@given(
    st.integers(0, 15),
    st.integers(0, 127),
    st.integers(0, 255),
    st.integers(0, VALUE_LIMIT - 1),
    st.tuples(st.booleans(), st.booleans(), st.booleans()).filter(any),
)
def test_the_bits_are_the_written_digits_in_order(
    instance: int, schema: int, table: int, value: int, present: tuple[bool, bool, bool]
) -> None:
    """The oracle writes the number digit by digit instead of shifting."""
    parts = [f"{instance:04b}", f"{schema:07b}", f"{table:08b}"]
    kept = "".join(part for part, there in zip(parts, present, strict=True) if there)
    expected = int(("0" + kept).ljust(64, "0"), 2) | value
    arguments = [
        text if there else "" for text, there in zip((str(instance), "schema_", "table_"), present, strict=True)
    ]
    mapping = compiled(partition(*arguments), schema=f"schema_{schema}", table=f"table_{table}")
    (transform,) = mapping.transforms
    assert isinstance(transform, PartitionId)
    assert transform.value(value) == expected <= transform.largest < 1 << 63
    assert transform.value(str(value)) == str(expected)
    assert transform.value(str(value).encode()) == str(expected).encode()
    assert transform.literal(b"%d" % value) == b"%d" % expected
    assert transform.literal(b"'%d'" % value) == b"'%d'" % expected
    assert transform.literal(b"x'%b'" % str(value).encode().hex().encode()) == (
        b"x'%b'" % str(expected).encode().hex().encode()
    )


@pytest.mark.parametrize("value", [-1, VALUE_LIMIT, 2**64 - 1, "-1", "17592186044416", b"99999999999999999999"])
def test_a_value_beyond_44_bits_is_refused_and_named(value: int | str | bytes) -> None:
    mapping = compiled(partition("1", "schema_", "table_"))
    literal = (
        b"%d" % value if isinstance(value, int) else b"'%b'" % (value if isinstance(value, bytes) else value.encode())
    )
    (transform,) = mapping.transforms
    for literal_form in (False, True):
        with pytest.raises(DMError) as caught:
            transform.literal(literal) if literal_form else transform.value(value)
        assert caught.value.kind is Code.SyncerUnitDoColumnMapping
        text = value.decode() if isinstance(value, bytes) else str(value)
        for part in ("`schema_2`.`table_3`", "`id`", text, str(VALUE_LIMIT - 1)):
            assert part in caught.value.message


@pytest.mark.parametrize(
    "literal", [b"'12a'", b"''", b"1.5", b"1e3", b"' 1'", b"x'ff'", b"'1_0'", "'١'".encode(), b"'"]
)
def test_text_that_is_no_number_is_refused(literal: bytes) -> None:
    with pytest.raises(DMError, match="not a whole number") as caught:
        compiled(partition("1", "", ""), unit="load").transforms[0].literal(literal)
    assert caught.value.kind is Code.LoadUnitDoColumnMapping


@pytest.mark.parametrize(
    ("schema", "table", "why"),
    [
        ("schema_x", "table_1", "schema name 'schema_x'"),
        ("schema_128", "table_1", "7 bits hold up to 127"),
        ("schema_1", "table_256", "8 bits hold up to 255"),
        ("schema_1", "table1", "table name 'table1'"),
        ("schema_1", "table_", None),
        ("schema_1", "table_+1", "table name"),
        ("schema_1", "table_٣", "table name"),
        ("schema_1", "table_1_2", "table name"),
    ],
)
def test_a_name_without_its_number_is_refused_before_any_row(schema: str, table: str, why: str | None) -> None:
    mapper = ColumnMapper([partition("1", "schema_", "table_")], True, "load")
    if why is None:
        assert mapper.compile(schema, table, COLUMNS) is not None
        return
    with pytest.raises(DMError, match="column mapping rule") as caught:
        mapper.compile(schema, table, COLUMNS)
    assert caught.value.kind is Code.LoadUnitGenColumnMapping
    for part in (why, f"`{schema}`.`{table}`", "`id`"):
        assert part in caught.value.message


def test_names_follow_case_sensitivity() -> None:
    rule = partition("1", "Schema_", "TABLE_")
    assert compiled(rule, schema="SCHEMA_2", table="table_3", case_sensitive=False) == TableMapping(
        "SCHEMA_2", "table_3", compiled(rule, schema="SCHEMA_2", table="table_3", case_sensitive=False).transforms
    )
    sensitive = ColumnMapper([rule], True)
    assert sensitive.compile("SCHEMA_2", "table_3", COLUMNS) is None
    with pytest.raises(DMError, match="schema name"):
        sensitive.compile("schema_2", "table_3", COLUMNS)


def test_null_stays_null() -> None:
    rules = [partition("1", "", ""), ColumnMappingRule("schema*", "name", "add prefix", "table*", "name", ("x",))]
    mapping = compiled(*rules)
    assert mapping.values([None, None, None, None, None]) == [None] * 5
    assert mapping.literals([b"NULL"] * 5) == [b"NULL"] * 5


def affixed(literal: bytes, prefix: str, suffix: str = "", column: str = "name") -> bytes:
    rules = [ColumnMappingRule("schema*", column, "add prefix", "table*", "", (prefix,))] if prefix else []
    rules += [ColumnMappingRule("schema*", column, "add suffix", "table*", "", (suffix,))] if suffix else []
    return compiled(rules[0]).transforms[0].literal(literal)


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        (b"'abc'", b"'s1-abc'"),
        (b"''", b"'s1-'"),
        (b"'a\\'b'", b"'s1-a\\'b'"),
        (b"x'616263'", b"x'73312d616263'"),
        (b"_latin1 x'e9'", b"_latin1 x'73312de9'"),
        (b"_ucs2 x'0061'", b"_ucs2 x'0073003100" + b"2d0061'"),
        (b"0x6162", b"x'73312d6162'"),
    ],
)
def test_a_prefix_goes_before_the_text_in_every_form_of_literal(literal: bytes, expected: bytes) -> None:
    assert affixed(literal, "s1-") == expected


def test_a_suffix_goes_after() -> None:
    assert affixed(b"'abc'", "", "-s1") == b"'abc-s1'"
    transform = compiled(ColumnMappingRule("schema*", "name", "add suffix", "", "", ("é",))).transforms[0]
    assert (transform.value("a"), transform.value(b"a")) == ("aé", "aé".encode())
    latin = compiled(ColumnMappingRule("schema*", "latin", "add suffix", "", "", ("é",))).transforms[0]
    assert latin.value(b"a") == b"a\xe9"
    assert latin.literal(b"_latin1 x'61'") == b"_latin1 x'61e9'"


def test_quotes_and_backslashes_of_an_affix_hold_in_every_sql_mode() -> None:
    assert affixed(b"'a'", "it's") == b"'it''sa'"
    assert affixed(b"'a''b'", "\\") == b"_utf8mb4 x'5c612762'"
    assert affixed(b"'a\\'b'", "\\") == b"'\\\\a\\'b'"


def test_an_affix_that_the_columns_charset_lacks_is_refused() -> None:
    with pytest.raises(DMError, match="can't be written in latin1"):
        affixed(b"_latin1 x'e9'", "日", column="latin")


def test_a_number_takes_no_affix() -> None:
    with pytest.raises(DMError, match="not text"):
        affixed(b"12", "x")


def test_several_rules_map_several_columns_from_the_values_before() -> None:
    rules = [
        partition("1", "schema_", "table_"),
        ColumnMappingRule("schema*", "name", "add prefix", "table*", "latin", ("p",)),
        ColumnMappingRule("schema*", "latin", "add suffix", "table*", "name", ("s",)),
    ]
    base = 1 << 59 | 2 << 52 | 3 << 44
    mapping = compiled(*rules)
    assert mapping.values([5, "a", "b", b"c", None]) == [base | 5, "pb", "as", b"c", None]
    assert mapping.literals([b"5", b"'a'", b"'b'", b"x'63'", b"1.00"]) == [
        b"%d" % (base | 5), b"'pb'", b"'as'", b"x'63'", b"1.00"
    ]  # fmt: skip
    assert pickle.loads(pickle.dumps(mapping)) == mapping


def test_a_rule_of_the_table_goes_before_one_of_the_schema() -> None:
    mapper = ColumnMapper([partition("1", "", "", table_pattern=""), partition("2", "", "")], True)
    for table, instance in (("table_1", 2), ("other", 1)):
        mapping = mapper.compile("schema_1", table, COLUMNS)
        assert mapping is not None
        assert mapping.transforms[0].value(0) == instance << 59
    assert mapper.compile("elsewhere", "table_1", COLUMNS) is None


def test_two_rules_for_one_column_are_ambiguous() -> None:
    mapper = ColumnMapper([partition("1", "", "", table_pattern="table_?"), partition("2", "", "")], True)
    with pytest.raises(DMError, match="target of two column mapping rules") as caught:
        mapper.compile("schema_1", "table_1", COLUMNS)
    assert caught.value.kind is Code.TaskCheckGenColumnMapping
    with pytest.raises(DMError, match="same patterns") as caught:
        ColumnMapper([partition("1", "", ""), partition("2", "", "", column="ID")], False)
    assert caught.value.kind is Code.ConfigGenColumnMapping


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (partition("1", "", "", column="ids"), "no column `ids`"),
        (partition("1", "", "", column="amount"), "`amount` is decimal"),
        (ColumnMappingRule("schema*", "id", "add prefix", "", "", ("x",)), "`id` is bigint"),
    ],
)
def test_a_rule_that_does_not_fit_the_columns_is_refused(rule: ColumnMappingRule, why: str) -> None:
    with pytest.raises(DMError, match=why):
        ColumnMapper([rule], True).compile("schema_1", "table_1", COLUMNS)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (ColumnMappingRule("", "c", "add prefix", "", "", ("x",)), "schema-pattern"),
        (ColumnMappingRule("a", "", "add prefix", "", "", ("x",)), "target-column"),
        (ColumnMappingRule("a", "c", "", "", "", ("x",)), "expression is missing"),
        (ColumnMappingRule("a", "c", "partition-id", "", "", ("1", "", "")), "'partition-id' is unknown"),
        (ColumnMappingRule("a", "c", "add prefix", "", "", ()), "takes one text"),
        (ColumnMappingRule("a", "c", "add suffix", "", "", ("a", "b")), "takes one text"),
        (ColumnMappingRule("a", "c", "add suffix", "", "", ("",)), "takes one text"),
        (ColumnMappingRule("a", "c", "partition id", "", "", ("1", "")), "3 or 4 arguments"),
        (ColumnMappingRule("a", "c", "partition id", "", "", ("16", "", "")), "'16'"),
        (ColumnMappingRule("a", "c", "partition id", "", "", ("-1", "", "")), "'-1'"),
        (ColumnMappingRule("a", "c", "partition id", "", "", ("", "", "", "_")), "has no effect"),
        (ColumnMappingRule("*a", "c", "partition id", "", "", ("1", "", "")), "allowed only as its last"),
    ],
)
def test_a_rule_that_can_not_be_carried_out_is_refused(rule: ColumnMappingRule, why: str) -> None:
    with pytest.raises(DMError, match="is not valid") as caught:
        ColumnMapper([rule], True)
    assert caught.value.kind is Code.ConfigGenColumnMapping
    assert why in caught.value.message
    assert caught.value.workaround


def test_shards_that_get_the_same_bits_are_found_before_they_overwrite_each_other() -> None:
    rule = partition("1", "", "table", "_")
    tables = [compiled(rule, table=name) for name in ("table", "table_0", "table_1", "table_01", "table_2")]
    target = ("all", "t")
    found = collisions([("s1", target, mapping) for mapping in tables])
    assert [(one[1].table, other[1].table) for one, other in found] == [("table", "table_0"), ("table_1", "table_01")]
    assert collisions([("s1", target, tables[0]), ("s2", target, tables[0])])
    assert not collisions([("s1", target, tables[0]), ("s2", ("all", "u"), tables[0])])
    assert not collisions([("s1", target, tables[0]), ("s1", target, tables[0])])
