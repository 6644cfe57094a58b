"""Hazard: a filter accepts an expression that it cannot decide as the servers do, or misreads a literal of a row."""

from __future__ import annotations

import re
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.errors import Code, DMError
from pkg.mysql.schema import Column
from pkg.rules.expression_filter import compile_filter, parse

TABLE = (
    Column("id", "bigint", "bigint(20) unsigned", unsigned=True),
    Column("name", "varchar", "varchar(20)", charset="utf8mb4", collation="utf8mb4_general_ci"),
    Column("uca", "varchar", "varchar(20)", charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
    Column("exact", "varchar", "varchar(20)", charset="utf8mb4", collation="utf8mb4_0900_bin"),
    Column("old", "varchar", "varchar(20)", charset="gbk", collation="gbk_chinese_ci"),
    Column("latin", "varchar", "varchar(20)", charset="latin1", collation="latin1_swedish_ci"),
    Column("doc", "json", "json"),
    Column("kind", "enum", "enum('new','it''s')", charset="utf8mb4", collation="utf8mb4_general_ci"),
    Column("flags", "set", "set('x','y')", charset="utf8mb4", collation="utf8mb4_general_ci"),
    Column("at", "timestamp", "timestamp"),
    Column("price", "decimal", "decimal(10,2)"),
    Column("raw", "varbinary", "varbinary(9)"),
)
ROW = [
    b"7", b"'O\\'B\\\\'", b"'x'", b"'a'", b"'x'", b"_latin1 x'e4'", b"'{}'", b"2", b"3", b"'2024-02-29 20:00:00'",
    b"1.50", b"x'00ff'",
]  # fmt: skip

#: When the row was changed: 2024-03-01 04:30:05 in the zone below.
NOW = 1709238605


def matches(expression: str, **changed: bytes) -> bool:
    row = [changed.get(column.name, literal) for column, literal in zip(TABLE, ROW, strict=True)]
    zone = timezone(timedelta(hours=8))
    return compile_filter(expression, TABLE, zone=zone).matches(row, NOW)


@pytest.mark.parametrize(
    "expression",
    [
        r"name = 'O\'B\\'",
        "latin = 'ä'",
        "latin = 'A'  or latin = 'Ä'",
        "kind = 'IT''S' AND kind = 2",
        "flags = 'x,y' AND FIND_IN_SET('y', flags)",
        "`at` = '2024-03-01 04:00:00'",
        "price = 1.5 AND price * 2 = 3",
        "raw = x'00FF'",
        "doc IS NOT NULL AND old IS NOT NULL",
        "exact <> 'a '",
        "ID = 7",
        "uca COLLATE utf8mb4_bin = 'x'",
        "1 OR id * 18446744073709551615",
        "NOW() = '2024-03-01 04:30:05' AND current_timestamp = LOCALTIME(0)",
        "`at` = NOW() - INTERVAL 1805 SECOND",
        "CURRENT_DATE = '2024-03-01' AND utc_date() = '2024-02-29' AND CURTIME() = '04:30:05'",
        "UNIX_TIMESTAMP() = 1709238605 AND UTC_TIME = '20:30:05' AND HOUR(UTC_TIMESTAMP) = 20",
    ],
)
def test_true_for_the_row(expression: str) -> None:
    assert matches(expression)
    assert not matches(f"NOT ({expression})")


@pytest.mark.parametrize(("number", "text"), [(b"1", b"'new'"), (b"2", b"'it\\'s'")])
def test_members_are_read_by_number_and_by_name(number: bytes, text: bytes) -> None:
    assert matches("kind = 'new'", kind=number) == matches("kind = 'new'", kind=text)
    assert matches("flags = 3", flags=b"'x,y'")


def test_a_long_list_of_conditions_is_no_deep_tree() -> None:
    many = " OR ".join(f"id = {n}" for n in range(5000))
    assert matches(many)
    assert not matches(many, id=b"5000")
    with pytest.raises(DMError, match="levels of operators"):
        parse("1" + " + 1" * 500)


def test_unknown_is_not_true() -> None:
    assert not matches("name = 'a'", name=b"NULL")
    assert not matches("NOT name = 'a'", name=b"NULL")
    assert matches("(name = 'a') IS UNKNOWN", name=b"NULL")


@pytest.mark.parametrize(
    ("expression", "column", "what"),
    [
        ("", 1, "the end of the expression"),
        ("id = ", 6, "the end of the expression"),
        ("id = 1 name", 8, "found 'name'"),
        ("(id = 1", 8, "expected )"),
        ("id = 'x", 1, "is not closed"),
        ("id in ()", 8, "found ')'"),
        ("NOW(6) > 1", 5, "whole seconds only"),
        ("UNIX_TIMESTAMP(0) > 1", 16, "takes no argument"),
        ("SYSDATE() > '2024-01-01'", 1, "SYSDATE is not supported"),
        ("id + SLEEP(1)", 6, "SLEEP is not supported. Operators: "),
        ("id = (SELECT 1)", 7, "found 'SELECT'"),
        ("t.id = 1", 2, "without schema and table"),
        ("doc->'$.a' = 1", 4, "JSON"),
        ("LEFT(name) = 'a'", 1, "takes 2 to 2 arguments, not 1"),
        ("id = :x", 6, "found ':'"),
        ("id IS 5", 7, "NULL, TRUE, FALSE or UNKNOWN"),
        ("CAST(id AS JSON)", 12, "found 'JSON'"),
        ("(" * 200 + "1" + ")" * 200, 41, "levels"),
        ("NOT " * 2000 + "1", 161, "levels"),
    ],
)
def test_what_is_no_expression_is_refused_when_parsed_with_its_column(expression: str, column: int, what: str) -> None:
    with pytest.raises(DMError, match=rf"column {column}: .*{re.escape(what)}") as caught:
        parse(expression)
    assert caught.value.kind is Code.ConfigExprFilterWrongGrammar


@pytest.mark.parametrize(
    ("expression", "column", "what"),
    [
        ("id = 1 AND nme = 2", 12, "no column `nme`; the table has `id`, `name`"),
        ("uca COLLATE utf8mb4_0900_as_cs = 'x'", 5, "collation utf8mb4_0900_as_cs cannot be reproduced exactly"),
        ("INSTR(uca, 'x') = 1", 1, "a search in text of collation utf8mb4_0900_ai_ci cannot be reproduced exactly"),
        ("LENGTH(LOWER(uca)) = 1", 8, "letters' case in collation utf8mb4_0900_ai_ci cannot be reproduced exactly"),
        ("old = 'x'", 1, "text in gbk"),
        ("doc = '{}'", 1, "only test with IS NULL"),
        ("id = '1x'", 6, "without quotes"),
        ("`at` > 'yesterday'", 8, "is not a date"),
        ("`at` > 20240101", 6, "quote the date"),
        ("name = x'61'", 8, "hex literal next to text"),
        ("latin = 'ж'", 9, "cannot be written in latin1"),
        ("latin = name", 7, "cannot be combined"),
        ("price / 3 * 3 = price", 7, "quotient"),
        ("kind + 1 = 2", 1, "CAST AS SIGNED"),
        ("COALESCE(kind, 'x') = 'x'", 1, "its number or its text"),
        ("price / 3 IN (1, 2)", 7, "a quotient in BETWEEN or IN"),
        ("NULLIF(0x01, id) = 1", 8, "NULLIF of ENUM, SET, BIT"),
        (r"name REGEXP '\\d'", 13, "not supported"),
        ("name REGEXP '(a+)+'", 13, "repeats a group"),
        ("name REGEXP '[b'", 13, "not supported"),
        ("IF(id, 1, 'a') = 1", 1, "as one result"),
        ("name = `at`", 1, "unless it is a literal"),
    ],
)
def test_what_can_not_be_decided_exactly_is_refused_with_its_column(expression: str, column: int, what: str) -> None:
    with pytest.raises(DMError, match=rf"column {column}: .*{re.escape(what)}") as caught:
        compile_filter(expression, TABLE)
    assert caught.value.kind is Code.ConfigExprFilterWrongGrammar


def test_a_row_that_overflows_is_an_error_not_a_decision() -> None:
    with pytest.raises(DMError, match=r"'id - 8 > 0'.*BIGINT UNSIGNED value is out of range: -1") as caught:
        matches("id - 8 > 0")
    assert caught.value.kind is Code.SyncerUnitParseStmt
    assert matches("id - 7 = 0")


def test_columns_are_reported_so_that_a_dropped_one_can_be_noticed() -> None:
    assert parse("a = 1 AND (`b c` > 2 OR A IS NULL OR a < 3)").columns == ("a", "b c", "A")


def test_a_new_structure_is_compiled_again() -> None:
    expression = parse("id > 5")
    before = expression.compile(TABLE)
    after = expression.compile((TABLE[1], TABLE[0]))
    assert before.matches(ROW, NOW)
    assert after.matches([b"'x'", b"6"], NOW)
    assert not after.matches([b"'x'", b"5"], NOW)


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        assert parse(text).text == text
    except DMError as exc:
        if exc.kind is not Code.ConfigExprFilterWrongGrammar:
            raise
