"""Hazard: a copy that does not move, or whose remaining time counts the wait for the first row."""

from __future__ import annotations

from typing import Any

from deploy.demo.progress import CopyProgress


def _state(unit: str, **detail: Any) -> dict[str, Any]:
    return {"unit": unit, "stage": "Running", unit.lower(): detail}


def test_the_copy_shows_rows_percent_and_the_time_left() -> None:
    copy = CopyProgress(total_rows=1000)
    copy.note(_state("Dump", finishedRows=0), 0, 10.0)
    assert copy.line().endswith("0 of 1,000 rows · starting")
    copy.note(_state("Dump", finishedRows=200), 0, 60.0)
    assert copy.line().endswith(" 200 of 1,000 rows · starting"), (
        "the wait for the first rows is no measure of their pace"
    )
    copy.note(_state("Dump", finishedRows=400), 0, 61.0)
    assert " 40% " in copy.line()
    assert copy.line().endswith(" 400 of 1,000 rows · 3.0 s left · 200/s")


def test_the_copy_counts_loaded_rows_and_ends_with_the_times_of_both_units() -> None:
    copy = CopyProgress(total_rows=1000)
    assert copy.note(_state("Dump", finishedRows=1000), 0, 0.0)
    assert copy.note(_state("Load"), 0, 4.0)
    assert not copy.note(_state("Load"), 100, 5.0)
    assert not copy.note(_state("Load"), 500, 5.8)
    assert " 50% " in copy.line()
    assert copy.line().endswith(" 500 of 1,000 rows · 1.0 s left · 500/s")
    assert not copy.is_over
    copy.note(_state("Sync"), 0, 6.0)
    assert copy.is_over
    assert copy.line().endswith("1,000 rows · reading 4.0 s · writing 2.0 s")
