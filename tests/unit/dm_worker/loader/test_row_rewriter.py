"""Hazard: a row of a dump file is mapped differently than by the syncer, or a value escapes the rules."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dm_worker.loader import tuples
from dm_worker.loader.dump_literals import plain_literal
from dm_worker.loader.row_rewriter import RowRewriter, RowRules
from dm_worker.loader.sql_file import read_statements
from pkg.errors import Code, DMError
from pkg.mysql.schema import Column
from pkg.rules.column_mapping import ColumnMapper, PartitionId
from pkg.rules.model import ColumnMappingRule
from tests.compiled import required
from tests.sweeps import examples

COLUMNS = (
    Column("id", "int", "int(11)"),
    Column("name", "varchar", "varchar(40)", charset="latin1"),
    Column("twice", "int", "int(11)", generated="VIRTUAL"),
    Column("Ref", "varchar", "varchar(20)", charset="utf8mb4"),
    Column("raw", "varbinary", "varbinary(20)"),
)
BASE = 1 << 59 | 2 << 52 | 3 << 44


def _rule(column: str, expression: str, *arguments: str, source: str = "") -> ColumnMappingRule:
    return ColumnMappingRule("*", column, expression, "", source, arguments)


PARTITION = _rule("id", "partition id", "1", "s_", "t_")


def _rules(*mappings: ColumnMappingRule, extracted: Sequence[tuple[str, str]] = ()) -> RowRules:
    mapping = ColumnMapper(mappings, False, "load").compile("s_2", "t_3", COLUMNS)
    names = tuple(column.name for column in COLUMNS)
    stored = tuple(column.name for column in COLUMNS if not column.generated)
    return RowRules(names, names, stored, mapping, tuple(extracted))


def _rewritten(rules: RowRules, text: bytes, charset: str = "utf8mb4") -> bytes:
    statement = next(read_statements(io.BytesIO(text), 0, "s_2.t_3.1.sql"))
    return bytes(RowRewriter(rules, "s_2.t_3.1.sql", lambda: charset).rewrite(statement).text)


@pytest.fixture(params=["python", "native"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(tuples, "_NATIVE", None)
    else:
        required("sqlscan")
    return str(request.param)


def test_whole_numbers_get_the_partition_id(kernel: str) -> None:
    first, rest = b"(`Name`,`ID`", b"\n('a(,);''\\'b', %b) ,\n(NULL,%b),(\"x\",%b),(-1,%b)"
    text = b"INSERT INTO `t_3` " + first + b") VALUES" + rest % (b"7", b"'0009'", b"NULL", b"17592186044415") + b";"
    found = _rewritten(_rules(PARTITION, extracted=[("src", "it's")]), text)
    mapped = (BASE + 7, BASE + (1 << 44) - 1)
    values = (b"%d,'it''s'" % mapped[0], b"'%d','it''s'" % (BASE + 9), b"NULL,'it''s'", b"%d,'it''s'" % mapped[1])
    assert found == first + b",`src`) VALUES " + rest.lstrip() % values


def test_statements_follow_each_other(kernel: str) -> None:
    # A view of the reader's memory that stays open would stop the reader.
    data = b"SET NAMES utf8mb4;" + b"INSERT INTO t_3 (id,name) VALUES (1,'a'),(2,'b');\n" * 3
    rewriter = RowRewriter(_rules(PARTITION, _rule("name", "add suffix", "x")), "f", lambda: "utf8mb4")
    found = [bytes(rewriter.rewrite(s).text) for s in read_statements(io.BytesIO(data), 0, "f") if s.kind == "rows"]
    assert found == [b"(`id`,`name`) VALUES (%d,'ax'),(%d,'bx')" % (BASE + 1, BASE + 2)] * 3


@pytest.mark.parametrize("bad", [b"-1", b"17592186044416", b"1.5", b"'x'", b"1e3", b"9" * 20, b"TRUE"])
def test_a_value_that_does_not_fit_is_named_with_its_location(kernel: str, bad: bytes) -> None:
    before = b"SET NAMES utf8mb4;\n-- a comment; with a semicolon\n"
    text = b"INSERT INTO t_3 (id) VALUES (1),\n(2), (%b);" % bad
    statements = read_statements(io.BytesIO(before + text), 0, "f")
    statement = next(statement for statement in statements if statement.kind == "rows")
    with pytest.raises(DMError) as caught:
        RowRewriter(_rules(PARTITION), "the.file.sql", lambda: "utf8mb4").rewrite(statement)
    assert caught.value.kind is Code.LoadUnitDoColumnMapping
    for part in ("`s_2`.`t_3`", "`id`", bad.decode().strip("'"), "the.file.sql"):
        assert part in caught.value.message
    assert caught.value.message.endswith(f"at byte {(before + text).index(b'(' + bad)}")


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        (b"INSERT INTO t_3 VALUES (1,'a',DEFAULT,'7',x'00');", b"`id`,`name`,`twice`,`Ref`,`raw`"),
        (b"INSERT INTO t_3 VALUES (1,'a','7',x'00');", b"`id`,`name`,`Ref`,`raw`"),
        (b"REPLACE INTO `t_3`(id, name,`ref`, raw)values(1,'a','7',x'00');", b"`id`,`name`,`ref`,`raw`"),
    ],
)
def test_the_columns_are_listed_whatever_the_file_lists(kernel: str, text: bytes, listed: bytes) -> None:
    found = _rewritten(_rules(PARTITION, extracted=[("a`b", "x"), ("c", "")]), text)
    assert found.startswith(b"(%b,`a``b`,`c`) VALUES (%d,'a'," % (listed, BASE + 1))
    assert found.endswith(b",'7',x'00','x','')")


@pytest.mark.parametrize(
    ("text", "code", "what"),
    [
        (b"INSERT INTO t_3 (name) VALUES ('a');", 34011, "no column `id`"),
        (b"INSERT INTO t_3 (id,SRC) VALUES (1,2);", 34010, "has a column `src`"),
        (b"INSERT INTO t_3 VALUES (1,2);", 34003, "2 values and no list of columns"),
        (b"INSERT INTO t_3 (id,name) VALUES (1);", 34003, "1 values for 2 columns"),
        (b"INSERT INTO t_3 (id) VALUES (1) ON DUPLICATE KEY UPDATE id = 1;", 34003, "followed by neither"),
        (b"INSERT INTO t_3 (id) VALUES (1),;", 34003, "row is missing"),
        (b"INSERT INTO t_3 (id,name) VALUES (1,);", 34003, "missing"),
        (b"INSERT INTO t_3 (id) VALUES ((1);", 34003, "not terminated"),
        (b"INSERT INTO t_3 SELECT 1;", 34003, "no VALUES"),
    ],
)
def test_a_file_that_does_not_suit_the_rules_is_refused_with_its_location(
    kernel: str, text: bytes, code: int, what: str
) -> None:
    with pytest.raises(DMError, match=what) as caught:
        _rewritten(_rules(PARTITION, extracted=[("src", "x")]), text)
    assert caught.value.code == code
    assert "s_2.t_3.1.sql at byte" in caught.value.message
    assert caught.value.workaround


def test_a_mapped_column_may_come_from_another(kernel: str) -> None:
    rules = _rules(_rule("Ref", "partition id", "1", "", "", source="id"), _rule("id", "partition id", "2", "", ""))
    found = _rewritten(rules, b"INSERT INTO t_3 (Ref,id) VALUES ('old',5);")
    assert found == b"(`Ref`,`id`) VALUES (%d,%d)" % (1 << 59 | 5, 2 << 59 | 5)


@pytest.mark.parametrize(
    ("column", "charset", "literal", "expected"),
    [
        ("name", "utf8mb4", b"'a'", "'é-a'".encode()),
        ("name", "utf8mb4", b'"it\'s ""x"" \\""', "'é-it''s \"x\" \\\"'".encode()),
        ("name", "utf8mb4", b"null", b"NULL"),
        # What follows SET NAMES binary is in the column's charset; after SET NAMES latin1, in latin1.
        ("name", "binary", b'"\xe9\\\\"', b"_latin1 x'e92de95c'"),
        ("Ref", "binary", b"'a'", "_utf8mb4 x'{}'".format("é-a".encode().hex()).encode()),
        ("Ref", "latin1", b"'\xe9'", b"_latin1 x'e92de9'"),
        ("raw", "utf8mb4", b"_binary 'a\\0\\'\\Z\\%'", "x'{}'".format("é-a\0'\x1a\\%".encode().hex()).encode()),
        ("raw", "utf8mb4", b"0x41", "x'{}'".format("é-A".encode().hex()).encode()),
    ],
)
def test_what_is_added_to_a_string_is_in_its_charset(
    kernel: str, column: str, charset: str, literal: bytes, expected: bytes
) -> None:
    rules = _rules(_rule(column, "add prefix", "é-"))
    assert _rewritten(rules, b"INSERT INTO t_3 (%b) VALUES (%b);" % (column.encode(), literal), charset) == (
        b"(`%b`) VALUES (%b)" % (column.encode(), expected)
    )


@pytest.mark.parametrize(
    ("text", "charset", "expected"),
    [
        ("a'b", "latin1", b"'a''b'"),
        ("é", "utf8mb4", "'é'".encode()),
        ("é", "latin1", b"_utf8mb4 x'c3a9'"),
        ("é", "binary", b"_utf8mb4 x'c3a9'"),
        ("a\\", "utf8mb4", b"_utf8mb4 x'615c'"),
    ],
)
def test_an_extracted_string_is_equal_in_every_session(kernel: str, text: str, charset: str, expected: bytes) -> None:
    found = _rewritten(_rules(extracted=[("c", text)]), b"INSERT INTO t_3 (id) VALUES (1);", charset)
    assert found == b"(`id`,`c`) VALUES (1,%b)" % expected


_TEXTS = (
    b"''", b"'a,b'", b"'('", b"')'", b"'it''s'", rb"'\'\\'", b'"x""y"', b"x'00'", b"1+(2*(3))", b"-1", b"- 1",
    b"/*,*/ 2", b"`a,b`", b"NOW()", b"'a' 'b'", b"'%b'" % (b"z," * 40), b"_utf8mb4 'a'", b"1.5e3", b"2 # )\n",
)  # fmt: skip
_NUMBERS = st.one_of(
    st.integers(0, (1 << 44) - 1).map(lambda n: b"%d" % n),
    st.integers(0, 999).map(lambda n: b"'%03d'" % n),
    st.sampled_from([b"NULL", b'"12"', b"null", b"+1", b"000000000000000000000000012"]),
)
_BLANKS = st.sampled_from([b"", b" ", b"\n\t"])


@st.composite
def _statements(draw: st.DrawFn) -> tuple[bytes, tuple[int | None, ...]]:
    bases = tuple(draw(st.lists(st.sampled_from([None, 0, 1 << 44, BASE]), min_size=1, max_size=5)))
    rows = draw(st.integers(1, 4))
    text = []
    for _ in range(rows):
        values = [draw(st.sampled_from(_TEXTS) if base is None else _NUMBERS) for base in bases]
        text.append(b"(" + b",".join(draw(_BLANKS) + value + draw(_BLANKS) for value in values) + b")")
    return (draw(_BLANKS) + b",").join(text) + draw(_BLANKS), bases


def _in_python(text: bytes, start: int, bases: tuple[int | None, ...], more: bytes, head: bytes) -> bytes:
    mappings = {
        i: replace(_partition(), source=i, target=i, base=base) for i, base in enumerate(bases) if base is not None
    }

    def change(row: list[bytes]) -> list[tuple[int, bytes]]:
        return [(i, t.literal(plain_literal(row[i], t, ""))) for i, t in mappings.items()]

    return tuples.change_rows(text, start, len(bases), change, more, head)


def _partition() -> PartitionId:
    mapping = _rules(PARTITION).mapping
    assert mapping is not None
    (transform,) = mapping.transforms
    assert isinstance(transform, PartitionId)
    return transform


@given(_statements(), st.sampled_from([b"", b",'x'"]), st.sampled_from([b"", b"(`a`) VALUES "]))
@settings(max_examples=examples(400))
def test_rows_are_mapped_alike_in_c_and_in_python(
    statement: tuple[bytes, tuple[int | None, ...]], more: bytes, head: bytes
) -> None:
    native = required("sqlscan").map_rows
    text, bases = statement
    expected = _in_python(b"VALUES" + text, 6, bases, more, head)
    found = native(b"VALUES" + text, 6, bases, more, head)
    unusual = any(word in text for word in (b"null", b"+1", b"0000000000000000000"))
    assert found == expected or (found is None and unusual)


_TOKENS = st.sampled_from(
    [*(b"'", b'"', b"`", b"\\", b";", b"-", b"--", b"-- ", b"#", b"/", b"/*", b"*/", b"\n", b"''", b"(", b")", b","),
     *_TEXTS, b"12", b"NULL", b"'3'"]
)  # fmt: skip


@given(st.lists(_TOKENS, max_size=14), st.integers(1, 4), st.booleans())
@example([b"1", b"--\n"], 1, True)
@settings(max_examples=examples(800))
def test_any_sql_is_mapped_as_in_python_or_left_to_it(tokens: list[bytes], width: int, around: bool) -> None:
    native = required("sqlscan").map_rows
    text = b"".join(tokens)
    text = b"(" + text + b")" if around else text
    bases = (BASE, *(None,) * (width - 1))
    found = native(bytearray(text), 0, bases, b",1", b"")
    if found is not None:
        assert found == _in_python(text, 0, bases, b",1", b"")


def test_the_compiled_code_refuses_what_is_no_base() -> None:
    native = required("sqlscan").map_rows
    for bases, error in (((), ValueError), ((-1,), ValueError), (("1",), TypeError), ((1 << 70,), OverflowError)):
        with pytest.raises(error):
            native(b"(1)", 0, bases, b"", b"")
    with pytest.raises(ValueError, match="outside"):
        native(b"(1)", 4, (1,), b"", b"")


def test_text_as_bytes_becomes_utf_8_for_a_target_that_takes_no_bytes() -> None:
    """A file after SET NAMES binary has each column's text in the column's own charset."""
    text = b"INSERT INTO `t_3` (`latin`,`id`) VALUES('\xe9',1),('it''s',2),(NULL,3);"
    statement = next(read_statements(io.BytesIO(text), 0, "f"))
    column = Column("latin", "varchar", "varchar(20)", charset="latin1")
    mapping = ColumnMapper([_rule("latin", "add prefix", "é-")], False, "load").compile("s_2", "t_3", [column])
    rules = RowRules(("latin", "id"), ("latin", "id"), ("latin", "id"), mapping, ())
    found = bytes(RowRewriter(rules, "f", lambda: "binary", lambda: False).rewrite(statement).text)
    texts = [b"_utf8mb4 x'%b'" % text.encode().hex().encode() for text in ("é-é", "é-it's")]
    assert found == b"(`latin`,`id`) VALUES (%b,1),(%b,2),(NULL,3)" % (*texts,)
