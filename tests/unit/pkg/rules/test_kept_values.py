"""Hazard: a row counts as kept by its text, and the target changes one of its values."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pkg.mysql.literal_text import split_tuple
from pkg.rules.kept_values import kept_rows
from pkg.rules.value_loss import ColumnLoss


def loss(kind: str, limit: int = 0, *members: str, nulls: bool = False) -> ColumnLoss:
    return ColumnLoss("c", "here", "there", nulls, kind, limit, members)


LOSSES = [
    *(loss("scale", limit, nulls=nulls) for limit in (0, 2) for nulls in (False, True)),
    *(loss("fraction", limit) for limit in (0, 3)),
    loss("time of day"),
    *(loss(kind, 3, "varchar", nulls=nulls) for kind in ("spaces", "cut spaces") for nulls in (False, True)),
    loss("member", 0, "enum", "a", "b c", "d"),
    loss("", nulls=True),
]
literals = st.one_of(
    st.sampled_from([b"NULL", b"null", b"''", b"'a '", b"'a'", b"'b c'", b"x'6120'", b"_binary x'00'", b"f(1,'a ')"]),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: str(number).encode()),
    st.from_regex(rb"-?[0-9]{1,40}(\.[0-9]{0,5})?", fullmatch=True),
    st.from_regex(rb"'[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9:]{8})?(\.[0-9]{1,6})?'", fullmatch=True),
    st.lists(st.sampled_from(["\\'", "\\\\", " ", ",", "(", ")", "a", "NULL", "é"])).map(
        lambda parts: b"'" + "".join(parts).encode() + b"'"
    ),
)


@pytest.mark.parametrize("one", LOSSES, ids=lambda one: f"{one.kind} {one.limit} {one.nulls}")
@given(row=st.tuples(literals, literals, literals))
@example(row=(b"1", b"'a\\' '", b"2"))
def test_what_counts_as_kept_is_kept(one: ColumnLoss, row: tuple[bytes, bytes, bytes]) -> None:
    pattern = kept_rows([None, one, None])
    assert pattern is not None
    for text in (b"(" + b",".join(row) + b")", b",".join(row)):
        if pattern.match(text):
            found = split_tuple(text)
            assert len(found) == 3
            assert not one.changes(found[1])


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (loss("scale", 2), b"-12.3400"),
        (loss("fraction"), b"'2024-01-01 10:00:00.000'"),
        (loss("time of day"), b"'2024-01-01 00:00:00'"),
        (loss("spaces"), b"'it\\'s, (a)'"),
        (loss("member", 0, "enum", "a", "b c"), b"'a'"),
        (loss("", nulls=True), b"'NULL'"),
        (loss("spaces"), b"NULL"),
    ],
)
def test_ordinary_rows_count_as_kept(one: ColumnLoss, kept: bytes) -> None:
    pattern = kept_rows([None, one, None])
    assert pattern is not None
    assert pattern.match(b"(1," + kept + b",'x')")
    assert pattern.match(b"_latin1 x'E9'," + kept + b",NULL")


def test_what_takes_more_than_a_form_has_none() -> None:
    assert kept_rows([None, loss("double digits")]) is None
    assert kept_rows([loss("member", 0, "set", "a")]) is None


@example(number="1234567890123456789012345678901234.5", scale=0)
@example(number="12345678901234567890123456789.4567", scale=2)
@given(number=st.from_regex(r"-?[0-9]{1,60}\.[0-9]{1,30}", fullmatch=True), scale=st.integers(0, 30))
def test_long_numbers_are_compared_in_all_of_their_digits(number: str, scale: int) -> None:
    beyond = bool(number.partition(".")[2][scale:].strip("0"))
    assert loss("scale", scale).changes(number.encode()) is beyond
