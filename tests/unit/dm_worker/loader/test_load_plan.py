"""Hazard: a file is loaded twice or never, or one task gets all the work."""

from __future__ import annotations

from dm_worker.loader.load_plan import share_out
from dm_worker.loader.load_task import FileSpec


def test_finished_files_are_not_shared_out_and_tasks_are_even() -> None:
    specs = [FileSpec(f"f{n}", 10 << 20, "s", "t", "s", "t") for n in range(8)]
    left = {spec.name: 10 << 20 for spec in specs[1:]}
    shares = share_out(specs, left, 3)
    assert sorted(len(share) for share in shares) == [2, 2, 3]
    assert {file.name for share in shares for file in share} == set(left)


def test_tasks_begin_with_different_tables() -> None:
    specs = [FileSpec(f"{table}.{n}", 10 << 20, "s", table, "s", table) for n in range(4) for table in ("t", "u")]
    shares = share_out(specs, {spec.name: spec.size for spec in specs}, 2)
    assert [share[0].table for share in shares] == ["t", "u"]
    assert sorted(file.name for share in shares for file in share) == sorted(spec.name for spec in specs)
