"""Ranges and keys as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import KeyRange
from dm_worker.diff.spans import key_text, range_of, span_of

literals = st.lists(st.binary(max_size=8), max_size=3).map(tuple)


@given(literals, literals, st.lists(literals, max_size=3).map(tuple))
def test_a_range_is_read_as_it_was_written(
    lower: tuple[bytes, ...], upper: tuple[bytes, ...], points: tuple[tuple[bytes, ...], ...]
) -> None:
    assert range_of(span_of(KeyRange(lower, upper, points))) == KeyRange(lower, upper, points)


def test_a_key_is_shown_and_a_row_without_one_by_its_values() -> None:
    assert key_text(Difference(DifferenceKind.MISSING, (b"1", b"'a'"), (), (b"1", b"'a'", b"2"), None)) == (
        "missing (1, 'a')"
    )
    assert key_text(Difference(DifferenceKind.EXTRA, (), (), None, (b"7", b"NULL"))) == "extra (7, NULL)"


def test_a_long_key_is_cut() -> None:
    shown = key_text(Difference(DifferenceKind.MISSING, (b"'" + b"x" * 5000 + b"'",), (), (b"1",), None))
    assert len(shown) < 300
    assert shown.endswith("…")
