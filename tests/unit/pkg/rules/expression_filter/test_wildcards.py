"""LIKE. Hazard: a filter's pattern over one long value that keeps a task busy for minutes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.rules.expression_filter.wildcards import wildcards
from tests.unit.pkg.rules.expression_filter.test_expressions import matches


def table_of(text: str, pattern: str, escape: str) -> bool:
    """By the table of all pairs of what is left: the definition, step by step."""
    wanted: list[tuple[str, bool]] = []
    i = 0
    while i < len(pattern):
        escaped = pattern[i] == escape and i + 1 < len(pattern)
        i += escaped
        wanted.append((pattern[i], escaped))
        i += 1
    row = [True, *[False] * len(text)]
    for char, escaped in wanted:
        below = [False] * (len(text) + 1)
        for n in range(len(text) + 1):
            if char == "%" and not escaped:
                below[n] = row[n] or (n > 0 and below[n - 1])
            else:
                same = n > 0 and ((char == "_" and not escaped) or text[n - 1] == char)
                below[n] = same and row[n - 1]
        row = below
    return row[-1]


LETTERS = "ab%_!"


@given(st.text(LETTERS, max_size=12), st.text(LETTERS, max_size=9), st.sampled_from(["!", "\\", ""]))
def test_a_text_is_like_a_pattern_by_the_definition(text: str, pattern: str, escape: str) -> None:
    assert wildcards(pattern, escape, str).matches(text) == table_of(text, pattern, escape)


@pytest.mark.parametrize("pattern", ["%a%a%a%a%a%a%a%b%", "%_a_%_a_%_a_%_a_%b"])
def test_many_wildcards_over_a_long_value_take_no_time(pattern: str) -> None:
    began = time.process_time()
    assert not matches(f"name LIKE '{pattern}'", name=b"'%b'" % (b"a" * 1000))
    assert time.process_time() - began < 1
