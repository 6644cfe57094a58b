"""Hazard: a schema with very many tables makes the monitoring fall over."""

from __future__ import annotations

from dm_worker.syncer.figures.table_counts import MOST_TABLES, OTHERS, TableCounts


def test_of_ten_thousand_tables_the_later_ones_are_counted_together() -> None:
    counts = TableCounts()
    for number in range(10_000):
        counts.add(("d", f"t{number}"), (1, 2, 0))
    counts.add(("d", "t3"), (0, 0, 5))
    found = dict(counts.items())
    assert len(found) == MOST_TABLES + 1
    assert found["d", "t3"] == {"insert": 1, "update": 2, "delete": 5}
    rest = 10_000 - MOST_TABLES
    assert found[OTHERS] == {"insert": rest, "update": 2 * rest}
    assert counts.total == 30_005 == sum(sum(one.values()) for one in found.values())
