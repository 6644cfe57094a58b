"""Hazard: a file is loaded twice or never, or one task gets all the work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.loader.load_plan import MIN_TASK_BYTES, share_out
from dm_worker.loader.load_task import FileSpec


def test_finished_files_are_not_shared_out_and_tasks_are_even() -> None:
    specs = [FileSpec(f"f{n}", 10 << 20, "s", "t", "s", "t") for n in range(8)]
    left = {spec.name: 10 << 20 for spec in specs[1:]}
    shares = share_out(specs, left, 3)
    assert sorted(len(share) for share in shares) == [2, 2, 3]
    assert {file.name for share in shares for file in share} == set(left)


@given(st.lists(st.tuples(st.sampled_from("tuvw"), st.integers(0, 100 << 20)), max_size=40), st.integers(1, 8))
def test_each_file_has_one_task_and_no_task_has_more_than_its_part_and_a_file(
    found: list[tuple[str, int]], tasks: int
) -> None:
    specs = [FileSpec(f"f{n}", size, "s", table, "s", table) for n, (table, size) in enumerate(found)]
    left = {spec.name: spec.size for spec in specs}
    shares = share_out(specs, left, tasks)
    assert sorted(file.name for share in shares for file in share) == sorted(left)
    assert len(shares) <= tasks
    total, most = sum(left.values()), max(left.values(), default=0)
    for share in shares:
        assert sum(file.size for file in share) <= max(total / len(shares), MIN_TASK_BYTES) + most


def test_a_tables_files_stay_together() -> None:
    specs = [FileSpec(f"{table}.{n}", 10 << 20, "s", table, "s", table) for n in range(4) for table in ("t", "u", "v")]
    shares = share_out(specs, {spec.name: spec.size for spec in specs}, 3)
    assert [{file.table for file in share} for share in shares] == [{"t"}, {"u"}, {"v"}]
