"""Hazard: a prefix reads or deletes keys that do not begin with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pkg.etcd.messages import range_end

keys = st.text(st.characters(codec="utf-8"))


@given(prefix=keys.filter(bool), rest=keys, other=keys)
def test_a_prefix_means_exactly_the_keys_that_begin_with_it(prefix: str, rest: str, other: str) -> None:
    start, end = prefix.encode(), range_end(prefix)
    assert start <= (prefix + rest).encode() < end
    assert (start <= other.encode() < end) == other.startswith(prefix)
