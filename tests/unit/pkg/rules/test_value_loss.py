"""Hazards: a value that the target changes is taken for one that it keeps, or one that stays stops a task."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pkg.mysql.schema import Column, TableInfo
from pkg.rules.value_loss import EVERY, ColumnLoss, column_loss, describe, table_losses, way_out


def _column(column_type: str, **more: object) -> Column:
    text = {"charset": "utf8mb4"} if column_type.split("(")[0].endswith(("char", "text")) else {}
    return Column("c", column_type.split("(")[0].split()[0], column_type, **{**text, **more})  # type: ignore[arg-type]


def _loss(here: str, there: str) -> ColumnLoss | None:
    return column_loss(_column(here), _column(there))


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("int(11)", "int"),
        ("int(10) unsigned", "bigint(20)"),
        ("bigint(20)", "int(11)"),  # out of range is an error
        ("smallint", "float"),
        ("int", "double"),
        ("float", "double"),
        ("decimal(9,2)", "decimal(12,4)"),
        ("decimal(9,2)", "varchar(20)"),
        ("datetime", "datetime(6)"),
        ("timestamp(3)", "datetime(3)"),
        ("date", "datetime"),
        ("time(2)", "time(6)"),
        ("datetime(6)", "varchar(40)"),
        ("char(9)", "varchar(9)"),
        ("varchar(9)", "varchar(20)"),
        ("varchar(255)", "text"),
        ("varchar(9)", "json"),
        ("json", "longtext"),
        ("varchar(9)", "longblob"),
        ("binary(16)", "varbinary(16)"),
        ("enum('a','b')", "enum('b','a','c')"),
        ("enum('a','')", "enum('','a')"),
        ("enum('a','b')", "varchar(9)"),
        ("uuid", "char(36)"),
        ("geometry", "longblob"),
        ("geomcollection", "geometrycollection"),
        ("year(4)", "year"),
    ],
)
def test_types_that_keep_or_refuse_every_value_are_not_looked_through(here: str, there: str) -> None:
    assert _loss(here, there) is None


@pytest.mark.parametrize(
    ("charset", "there", "kept", "changed"),
    [
        ("latin1", "blob", [b"'a'", b"''", b"_latin1 x'e4'"], [b"'\xc3\xa4'"]),
        ("gbk", "varbinary(9)", [b"'a'", b"_gbk x'b0a1'"], [b"'\xe5\x95\x8a'"]),
        ("latin1", "binary(2)", [b"'ab'", b"_latin1 x'e4e4'"], [b"'\xc3\xa4'", b"'a'"]),
        ("ucs2", "blob", [b"_ucs2 x'0061'", b"''"], [b"'a'"]),
    ],
)
def test_text_becomes_bytes_only_where_its_literal_has_them(
    charset: str, there: str, kept: list[bytes], changed: list[bytes]
) -> None:
    """A full copy has text in UTF-8, in which other charsets have other bytes."""
    loss = column_loss(_column("varchar(9)", charset=charset), _column(there))
    assert loss is not None
    assert [one for one in (*kept, *changed) if loss.changes(one)] == changed


@pytest.mark.parametrize(
    ("here", "there", "kept", "changed"),
    [
        ("datetime(6)", "datetime(3)", b"'2020-01-01 00:00:00.123000'", b"'2020-01-01 00:00:00.123001'"),
        ("timestamp(1)", "datetime", b"'2020-01-01 00:00:00.0'", b"'2020-01-01 00:00:00.5'"),
        ("time(6)", "time", b"'-838:59:59.000000'", b"'00:00:00.000001'"),
        ("datetime(6)", "date", b"'2020-01-01 00:00:00.000000'", b"'2020-01-01 00:00:00.000001'"),
        ("decimal(9,4)", "decimal(9,2)", b"-1.2500", b"1.2501"),
        ("decimal(9,4)", "int", b"7.0000", b"7.5000"),
        ("double", "decimal(9,2)", b"0.25e0", b"0.255e0"),
        ("double", "bigint", b"1e+18", b"1.5e0"),
        ("double", "float", b"0.10000000149011612e0", b"0.1e0"),
        ("double", "float(7,1)", b"0.5e0", b"0.25e0"),
        ("decimal(9,4)", "float", b"0.1", b"12345.6789"),
        ("decimal(30,4)", "double", b"0.1", b"12345678901234567890.1234"),
        ("int", "float", b"16777216", b"16777217"),
        ("bigint", "double", b"9007199254740992", b"9007199254740993"),
        ("int", "year", b"0", b"99"),
        ("varchar(9)", "year", b"'1999'", b"'99'"),
        ("varchar(9)", "int", b"'x'", b"'1.5'"),
        ("varchar(9)", "double", b"'1.5'", b"'0.12345678901234567890'"),
        ("varchar(9)", "datetime", b"'2020-01-01 00:00:00'", b"'10:00:00'"),
        ("varchar(9)", "date", b"'20200101'", b"'2020-01-01 10:00:00'"),
        ("varchar(9)", "char(9)", b"'a \\' b'", b"_ucs2 x'00610020'"),
        ("text", "varchar(3)", b"'ab '", b"'abc '"),
        ("varchar(20000)", "text", b"'a '", b"'" + b"a" * 65535 + b" '"),
        ("varbinary(4)", "binary(2)", b"x'6162'", b"x'61'"),
        ("varchar(9)", "enum('a','it''s')", b"'it\\'s'", b"'A'"),
        ("varchar(9)", "set('a','b')", b"'b,a'", b"'c'"),
        ("enum('a','b')", "enum('A','b')", b"'b'", b"'a'"),
        # Number 0, whose text is empty, is no member.
        ("enum('a')", "enum('','a')", b"'a'", b"''"),
        ("enum('a','b')", "enum('','a')", b"'a'", b"''"),
        ("enum('','a')", "varchar(9)", b"''", b"0"),
        ("char(36)", "uuid", b"'6ccd780c-baba-1026-9564-5b8c656024db'", b"'6CCD780C-BABA-1026-9564-5B8C656024DB'"),
    ],
)
def test_a_value_stays_or_is_reported(here: str, there: str, kept: bytes, changed: bytes) -> None:
    loss = _loss(here, there)
    assert loss is not None
    assert not loss.every
    assert not loss.changes(b"NULL")
    assert not loss.changes(kept)
    assert loss.changes(changed)
    assert loss.changes(b"JSON_ARRAY(1)")
    assert here in describe(loss)
    assert f"MODIFY `c` {here}" in way_out(("d", "t"), loss)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("time", "datetime"),
        ("datetime", "time"),
        ("int", "date"),
        ("int", "enum('a')"),
        ("bit(8)", "varchar(9)"),
        ("int", "binary(9)"),
        ("varchar(9)", "inet6"),
        ("varbinary(16)", "bigint"),
    ],
)
def test_types_without_common_values_are_refused_as_a_whole(here: str, there: str) -> None:
    loss = _loss(here, there)
    assert loss is not None
    assert loss.every
    assert "lossy-conversions: allow" in way_out(("d", "t"), loss)


@pytest.mark.parametrize("side", ["upstream", "target"])
def test_a_column_that_one_side_computes_is_refused(side: str) -> None:
    plain, computed = _column("int"), _column("int", generated="STORED")
    loss = column_loss(computed, plain) if side == "upstream" else column_loss(plain, computed)
    assert loss is not None
    assert loss.every
    assert column_loss(computed, computed) is None


@pytest.mark.parametrize(
    ("here", "there", "kind"),
    [
        (("int", "STORED"), ("int", ""), None),
        (("int", "STORED"), ("datetime", ""), EVERY),
        (("int", "VIRTUAL"), ("int", ""), EVERY),
        (("int", ""), ("int", "STORED"), EVERY),
    ],
)
def test_rows_bring_the_values_of_stored_generated_columns(
    here: tuple[str, str], there: tuple[str, str], kind: str | None
) -> None:
    tables = [TableInfo("d", "t", (replace(_column(name), generated=way),)) for name, way in (here, there)]
    found = table_losses(tables[0], tables[1], allowed=False, logged=True)
    assert [loss.kind for loss in found] == ([] if kind is None else [kind])
    # A full copy has no such values.
    assert (here[1] == there[1]) == (table_losses(tables[0], tables[1], allowed=False) == [])


def test_null_stays_null_even_where_values_may_change() -> None:
    here = TableInfo("d", "t", (_column("datetime(6)"),))
    there = TableInfo("d", "t", (_column("timestamp", nullable=False),))
    (allowed,) = table_losses(here, there, allowed=True)
    assert allowed.changes(b"NULL")
    assert not allowed.changes(b"'2020-01-01 00:00:00.5'")
    assert "NULL;" in way_out(("d", "t"), allowed)
    (refused,) = table_losses(here, there, allowed=False)
    assert refused.changes(b"NULL")
    assert refused.changes(b"'2020-01-01 00:00:00.5'")
    nullable = TableInfo("d", "t", (_column("timestamp"),))
    assert table_losses(nullable, nullable, allowed=True) == []
