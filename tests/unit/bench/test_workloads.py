"""Choices of keys: hot ones must be hot, and those that are never used again must not be."""

from __future__ import annotations

import math
import random
import re

import pytest

from tests.bench.workloads import _PRIME, all_workloads, scattered, zipf


def test_hot_keys_follow_zipfs_law() -> None:
    rows, draws = 10_000, 50_000
    rnd = random.Random(7)
    counts: dict[int, int] = {}
    for _ in range(draws):
        key = zipf(rows, rnd.random())
        counts[key] = counts.get(key, 0) + 1
    assert 1 <= min(counts) <= max(counts) <= rows
    for key in (1, 2, 5, 20):
        expected = draws * math.log(1 + 1 / key) / math.log(rows)
        assert abs(counts[key] - expected) < 5 * math.sqrt(expected), key


@pytest.mark.parametrize("rows", [1000, 400_000 // 100, 99_991 // 7])
def test_scattered_ids_are_all_different(rows: int) -> None:
    sql = scattered("{0}", rows)
    found = {eval(sql.format(n), {}) for n in range(5, 5 + rows)}  # the same arithmetic in SQL and Python
    assert found == set(range(1, rows + 1))


def test_scattered_ids_refuse_a_size_that_repeats_early() -> None:
    with pytest.raises(ValueError, match="stepped"):
        scattered("n", 2 * _PRIME)


def test_each_workload_says_how_many_rows_a_transaction_changes() -> None:
    known = all_workloads()
    assert len(known) == 12
    for name in ("oltp", "update-heavy", "mixed", "uniques"):
        statements = re.findall(r"(?:UPDATE|DELETE FROM|INSERT INTO) sb\.", known[name].body(1000))
        assert len(statements) == known[name].changes, name
