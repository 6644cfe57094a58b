"""Hazards: text goes to a target in a charset that it does not read; a row is looked for by a value it cannot have."""

from __future__ import annotations

import pytest

from dm_worker.syncer.rows.key_normalization import TEXT, normalize_function
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.row_matching import around, condition, digest_form, literal_text
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog.rows.literals import MembersByName, TextInUtf8, codec_for, marked
from pkg.errors import Code, DMError
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.mysql.target_values import EXACT_VALUES, TargetValues
from pkg.rules.expression_filter import compile_filter

IN_UTF8 = TargetValues(text_by_bytes=False, negative_zero=False, compares_wide_sets=False)
MANY = ",".join(f"'v{n}'" for n in range(64))


def text(charset: str) -> Column:
    return Column("v", "varchar", "varchar(20)", nullable=False, charset=charset, collation=f"{charset}_bin")


def plan(here: Column, values: TargetValues, there: Column | None = None) -> TablePlan:
    key = (Index("PRIMARY", (IndexPart("v"),), unique=True),)
    upstream, target = (TableInfo("d", "t", (column,), key) for column in (here, there or here))
    return build(1, 1, b"", upstream, target, PlanOptions(values=values))


def literal(column: Column, raw: bytes) -> bytes:
    """Of a VARCHAR."""
    return codec_for(15, 80, column).literal(raw)


@pytest.mark.parametrize(
    ("charset", "raw", "wanted"),
    [
        ("latin1", b"\xe4'\x80", "'ä\\'€'"),
        ("latin1", b"plain\\", "'plain\\\\'"),
        ("latin1", b"", "''"),
        ("cp1251", b"\xc6", "'Ж'"),
        ("armscii8", b"\xff\xb2", "'\\'Ա'"),
        ("swe7", b"[\\]", "'ÄÖÅ'"),
        ("gbk", b"\xd6\xd0\\", "'中\\\\'"),
        ("sjis", b"\x95\x5c", "'表'"),
        ("euckr", b"\x81\x41", "'갂'"),
        ("ujis", b"\xf5\xa1", "'\ue000'"),
        ("eucjpms", b"\xad\xa1\x8f\xf3\xf3\xa1\xc1", "'①ⅰ～'"),
        ("big5", b"\xf9\xd6", "'碁'"),
        ("gb18030", b"\xa8\xbc\x94\x39\xda\x33", "'ḿ💩'"),
        ("utf16", b"\xd8\x3d\xde\x00", "'😀'"),
        ("ucs2", b"\0'\0\\", "'\\'\\\\'"),
    ],
)
def test_text_of_every_charset_is_written_in_utf8(charset: str, raw: bytes, wanted: str) -> None:
    (column,) = plan(text(charset), IN_UTF8).columns
    assert isinstance(column, TextInUtf8)
    assert literal(column, raw) == wanted.encode()
    assert type(plan(text(charset), EXACT_VALUES).columns[0]) is Column


@pytest.mark.parametrize("charset", ["utf8mb4", "utf8mb3", "binary"])
def test_text_that_is_utf8_and_bytes_stay(charset: str) -> None:
    assert type(plan(text(charset), IN_UTF8).columns[0]) is Column


@pytest.mark.parametrize(
    ("charset", "raw"),
    [("cp1251", b"a\x98"), ("ascii", b"\x80"), ("gbk", b"\xa1\x40"), ("big5", b"\xa1\x5a"), ("utf16", b"\xd8\x00")],
)
def test_bytes_that_cannot_be_decoded_are_an_error_and_not_a_question_mark(charset: str, raw: bytes) -> None:
    (column,) = plan(text(charset), IN_UTF8).columns
    with pytest.raises(DMError) as caught:
        literal(column, raw)
    assert caught.value.kind is Code.BinlogColumnTypeNotSupport
    assert f"`v` (varchar(20)) has the bytes {raw.hex()}, which are not valid text in {charset}" in str(caught.value)


def test_keys_in_utf8_are_compared_without_asking_for_the_charset() -> None:
    made = plan(text("cp1251"), IN_UTF8, text("utf8mb4"))
    assert made.spread
    assert made.normalizers[0].kind == TEXT
    (column,) = made.columns
    assert normalize_function(made.normalizers[0])(literal(column, b"\xc6 ")) == "Ж".encode()
    assert not plan(text("cp1251"), EXACT_VALUES, text("utf8mb4")).spread


def test_rows_without_a_key_are_found_by_the_text_that_the_target_keeps() -> None:
    (column,) = plan(text("latin1"), IN_UTF8).columns
    assert around(condition(column, text("utf8mb4"), IN_UTF8), b"'x'") == b"CAST(`v` AS BINARY) <=> CAST('x' AS BINARY)"
    assert around(condition(column, text("gbk"), IN_UTF8), b"'x'") == (
        b"CAST(`v` AS BINARY) <=> CAST(CONVERT('x' USING gbk) AS BINARY)"
    )


def test_filters_read_text_in_utf8() -> None:
    (column,) = plan(text("latin1"), IN_UTF8).columns
    compiled = compile_filter("v = 'ä'", (column,))
    assert compiled.matches([literal(column, b"\xe4")], 0)
    assert not compiled.matches([literal(column, b"\xc3\xa4")], 0)


def test_negative_zero_is_looked_for_as_the_zero_that_the_target_keeps() -> None:
    number = Column("v", "double", "double")
    assert around(condition(number, number, IN_UTF8), b"-0e0") == b"`v` <=> -0e0"
    assert digest_form(number, number, IN_UTF8) == ("`v`*1e0+0e0", ("", "*1e0+0e0"))
    assert b"LEFT(" in around(condition(number, number), b"-0e0")


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (Column("v", "double", "double"), Column("v", "double", "double")),
        (Column("v", "json", "json"), Column("v", "json", "json")),
        (text("latin1"), text("latin1")),
        (text("utf8mb4"), text("gbk")),
        (Column("v", "int", "int"), text("utf8mb4")),
        (text("utf8mb4"), Column("v", "blob", "blob")),
        (Column("v", "datetime", "datetime"), Column("v", "timestamp", "timestamp")),
        (marked(MembersByName, Column("v", "enum", "enum('a')")), Column("v", "enum", "enum('b','a')")),
    ],
    ids=lambda column: f"{column.column_type} {column.charset}",
)
def test_values_that_may_be_written_in_several_ways_have_no_text(here: Column, there: Column) -> None:
    assert literal_text(here, there) == ""


def test_a_wide_set_is_written_by_names_where_the_target_can_not_compare_its_number() -> None:
    wide = Column("v", "set", f"set({MANY})", nullable=False, charset="utf8mb4", collation="utf8mb4_bin")
    assert isinstance(plan(wide, IN_UTF8).columns[0], MembersByName)
    assert type(plan(wide, EXACT_VALUES).columns[0]) is Column
    narrow = Column("v", "set", "set('a','b')", nullable=False, charset="utf8mb4", collation="utf8mb4_bin")
    assert type(plan(narrow, IN_UTF8).columns[0]) is Column
