"""Hazard: a dump shows that it is nearly done when most of its tables are still to come."""

from __future__ import annotations

from dm_worker.dumper.dump_unit import dump_progress


def _value(text: str) -> float:
    return float(text.split()[0])


def test_tables_without_rows_are_work_as_well() -> None:
    # 117 of 304 tables have all the rows.
    assert _value(dump_progress(50_000, 50_000, 117, 304)) < 50
    assert _value(dump_progress(50_000, 50_000, 303, 304)) > 95


def test_an_estimate_that_is_too_low_never_shows_a_complete_dump() -> None:
    assert _value(dump_progress(9_000_000, 9_000_000, 9, 9)) < 100
    assert _value(dump_progress(0, 0, 0, 0)) == 0
