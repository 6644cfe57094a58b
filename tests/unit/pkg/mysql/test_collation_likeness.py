"""Hazard: a collation is advised that takes two of the upstream's keys for one."""

from __future__ import annotations

from pkg.mysql.collation_likeness import PAIRS, difference


def test_a_target_that_joins_strings_differs_more_than_one_that_parts_them() -> None:
    upstream = [False, False, True, True]
    assert difference(upstream, upstream) == 0
    assert 0 < difference(upstream, [False, False, True, False]) < difference(upstream, [True, False, True, True])


def test_the_sample_has_no_pair_twice_and_none_of_a_text_with_itself() -> None:
    assert len(set(PAIRS)) == len(PAIRS)
    assert all(one != other for one, other in PAIRS)
