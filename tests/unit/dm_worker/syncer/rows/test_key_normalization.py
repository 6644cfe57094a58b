"""Hazard: two values that the target calls equal get different bytes, and two writers fight over one row."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.rows import key_normalization
from dm_worker.syncer.rows.key_normalization import (
    KeyNormalizer,
    TargetCharsets,
    normalize_function,
    normalizer_of,
    split_literals,
)
from pkg.binlog.rows.literals import EnumByName, MembersByName, marked
from pkg.mysql.collation_weights import NEAR, CollationWeights, weights
from pkg.mysql.schema import Column

literal = st.one_of(
    st.integers().map(lambda n: b"%d" % n),
    st.just(b"NULL"),
    st.binary(max_size=9).map(lambda raw: b"x'%b'" % raw.hex().encode()),
    st.text().map(lambda text: b"'%b'" % text.encode().replace(b"\\", b"\\\\").replace(b"'", b"\\'")),
    st.binary(min_size=1, max_size=9).map(lambda raw: b"_gbk x'%b'" % raw.hex().encode()),
)


@given(st.lists(literal, min_size=1, max_size=5))
def test_joined_literals_come_apart_again(parts: list[bytes]) -> None:
    assert split_literals(b",".join(parts)) == parts


@given(st.decimals(-1000, 1000, places=4), st.integers(0, 6))
def test_decimals_meet_when_the_target_stores_one_number(value: Decimal, places: int) -> None:
    make = normalize_function(KeyNormalizer(key_normalization.DECIMAL, places))
    made = make(str(value).encode())
    assert make(made) == made
    assert make(b"%b00" % str(value).encode()) == made
    assert abs(Decimal(made.decode()) - value) <= Decimal(5).scaleb(-places - 1)


def column(name: str, kind: str, **more: str) -> Column:
    return Column("c", name, kind, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("here", "there", "kind"),
    [
        (column("int", "int"), column("bigint", "bigint unsigned"), key_normalization.EXACT),
        (column("int", "int"), column("double", "double"), key_normalization.INCOMPARABLE),
        (column("float", "float"), column("double", "double"), key_normalization.FLOAT),
        (column("float", "float(7,2)"), column("float", "float(7,3)"), key_normalization.INCOMPARABLE),
        (column("enum", "enum('a','b')"), column("enum", "enum('a','b','c')"), key_normalization.EXACT),
        (
            marked(MembersByName, column("enum", "enum('b','a')")),
            column("enum", "enum('a','b')"),
            key_normalization.MEMBERS,
        ),
        (column("enum", "enum('z')"), column("enum", "enum('a')"), key_normalization.INCOMPARABLE),
        (column("binary", "binary(4)"), column("binary", "binary(6)"), key_normalization.BINARY),
        (column("varbinary", "varbinary(4)"), column("blob", "blob"), key_normalization.EXACT),
        (column("varchar", "varchar(9)", charset="utf8mb4"), column("blob", "blob"), key_normalization.INCOMPARABLE),
        (column("json", "json"), column("json", "json"), key_normalization.INCOMPARABLE),
        (column("int", "int", generated="STORED"), column("int", "int"), key_normalization.INCOMPARABLE),
    ],
)
def test_normalizers_by_types(here: Column, there: Column, kind: str) -> None:
    assert normalizer_of(here, there, 0, key_normalization.UNKNOWN_CHARSETS).kind == kind


def test_members_by_name_and_by_number_meet() -> None:
    there = column("enum", "enum('a','it''s')")
    by_name = normalize_function(
        normalizer_of(marked(EnumByName, column("enum", "enum('it''s')")), there, 0, key_normalization.UNKNOWN_CHARSETS)
    )
    assert (by_name(b"'it\\'s'"), by_name(b"'a'"), by_name(b"''")) == (b"2", b"1", b"0")
    there = column("enum", "enum('a','')")
    by_name = normalize_function(
        normalizer_of(marked(EnumByName, column("enum", "enum('')")), there, 0, key_normalization.UNKNOWN_CHARSETS)
    )
    assert (by_name(b"''"), by_name(b"0")) == (b"2", b"0")


def text_normalizer(
    table: list[bytes], *, prefix: int = 0, far: bytes = b"", here: str = "utf8mb4"
) -> Callable[[bytes], bytes]:
    there = column("varchar", "varchar(9)", charset="utf8mb4", collation="utf8mb4_x_ci")
    collation_weights = CollationWeights.of("utf8mb4_x_ci", table, far)
    assert weights(collation_weights) == tuple(table)
    known = TargetCharsets(lambda *_: collation_weights, lambda _: "".join(chr(0x20 + n % 0x60) for n in range(256)))
    return normalize_function(normalizer_of(column("varchar", "varchar(9)", charset=here), there, prefix, known))


def test_texts_become_weights_without_trailing_spaces() -> None:
    table = [b"\0%c" % n for n in range(128)]
    table[ord("B")] = table[ord("b")]
    table[ord("-")] = b""
    table[ord("w")] = table[ord("v")] * 2
    make = text_normalizer(table)
    assert make(b"'aB-- '") == make(b"'ab'") != make(b"' ab'")
    assert make(b"'w'") == make(b"'v-v '")
    assert make(b"'a\\'\\\\'") == b"\0a\0'\0\\"
    assert text_normalizer(table, prefix=2)(b"'a  b'") == make(b"'a'")
    # Beyond the table a character stands for itself, or all are one.
    assert make("'\U0001f600'".encode()) != make("'\U0001f601'".encode())
    all_one = text_normalizer(table, far=b"??")
    assert all_one("'\U0001f600 '".encode()) == all_one("'\U0010ffff'".encode()) == b"??"
    assert text_normalizer([b"%c" % (n % 251) for n in range(NEAR + 0x1000)])("'\U000e0001'".encode()) == b"%c" % (
        (NEAR + 1) % 251
    )


def test_texts_of_other_charsets_become_weights_of_their_characters() -> None:
    table = [b"%c" % n for n in range(128)]
    assert text_normalizer(table, here="latin1")(b"_latin1 x'0121'") == b"!A"
    assert text_normalizer(table, here="utf16")(b"_utf16 x'00410020'") == b"A"
