"""The state of a comparison: what waits, what is done, and what may be called equal."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.diff.progress import (
    ChunkRepair,
    ChunkWork,
    ComparedChunk,
    ComparedState,
    DiffCounts,
    DiffProgress,
    TableProgress,
    is_in_sample,
    verdict_of,
)
from dm_worker.diff.repair_notes import repaired_chunk
from dm_worker.diff.state_table import RUNNING, DiffRecord, DiffSettings, restored, table_detail

T, U = ("db", "t"), ("db", "u")
EQUAL = ComparedChunk(DiffCounts(), 10, 100, "(bin.000001, 4)", "checksums")
MISSING = ComparedChunk(
    DiffCounts(missing=2), 10, 100, "(bin.000001, 4)", "rows", ("missing (1)", "missing (2)"), (9, 7)
)


def progress(*targets: tuple[str, str]) -> DiffProgress:
    return DiffProgress(TableProgress(target, ("s: `a`.`t`",)) for target in targets)


def compare_all(one: DiffProgress, result: ComparedChunk = EQUAL) -> None:
    for work in one.waiting(1000):
        assert one.compared(work, result)


def test_a_table_is_equal_only_when_all_of_its_chunks_are() -> None:
    one = progress(T)
    assert one.tables[T].state is ComparedState.PENDING
    one.planned(T, ["a", "b"])
    first, second = one.waiting(5)
    one.compared(first, EQUAL)
    assert one.tables[T].state is ComparedState.COMPARING
    assert one.verdict() == "running"
    one.compared(second, EQUAL)
    assert one.tables[T].state is ComparedState.EQUAL
    assert one.verdict() == "equal"


def test_a_table_whose_filters_explain_differences_is_different_or_not_compared_and_never_equal() -> None:
    why = "rows that the target lacks are not judged: why"
    for result, state in ((EQUAL, ComparedState.NOT_COMPARED), (MISSING, ComparedState.DIFFERENT)):
        one = progress(T)
        one.planned(T, ["a", "b"])
        one.tables[T].unjudged = why
        assert (one.tables[T].state, one.tables[T].is_whole) == (ComparedState.COMPARING, False)
        compare_all(one, result)
        assert (one.tables[T].state, one.tables[T].is_whole) == (state, True)
        assert one.tables[T].shown_reason == why
        assert one.verdict() == state


def test_what_is_read_of_repairs_counts_and_keeps_the_ends_that_are_known() -> None:
    one = progress(T, U)
    one.tables[T].repairs = {0: ChunkRepair((0, 0))}
    one.repairs_read(
        {T: {0: ChunkRepair((5, 6), 3, True), 1: ChunkRepair((7, 8), 1, True)}, U: {2: ChunkRepair((9, 9))}}
    )
    assert one.tables[T].repairs == {0: ChunkRepair((0, 0), 3, True), 1: ChunkRepair((7, 8), 1, True)}
    assert (one.tables[T].repaired, one.tables[U].repaired) == (4, 0)
    assert sorted(one.ends) == [(0, 0), (7, 8), (9, 9)]
    one.forget_differences()
    assert set(one.ends) == {(0, 0)}


def test_only_tables_whose_rows_were_all_compared_are_whole() -> None:
    one = progress(T, U)
    one.planned(T, ["a", "b"], sample=50)
    compare_all(one)
    assert not one.tables[T].is_whole
    assert not one.tables[U].is_whole
    one.planned(U, ["a"])
    compare_all(one)
    assert one.tables[U].is_whole
    one.refused(U, "why")
    assert not one.tables[U].is_whole


def test_a_difference_in_one_chunk_makes_the_table_different() -> None:
    one = progress(T)
    one.planned(T, ["a", "b"])
    first, second = one.waiting(5)
    one.compared(first, MISSING)
    one.compared(second, EQUAL)
    assert one.tables[T].state is ComparedState.DIFFERENT
    assert one.tables[T].counts == DiffCounts(missing=2)
    assert one.tables[T].first_keys == ["missing (1)", "missing (2)"]


def test_a_table_that_was_not_compared_is_never_equal() -> None:
    one = progress(T, U)
    one.planned(T, ["a"])
    one.planned(U, ["a", "b"])
    compare_all(one)
    one.refused(U, "it was dropped")
    assert one.tables[U].state is ComparedState.NOT_COMPARED
    assert one.verdict() == "not compared"
    with pytest.raises(ValueError, match="reason"):
        one.refused(T, "")


def test_a_late_result_of_a_table_that_is_not_compared_does_not_count() -> None:
    one = progress(T)
    one.planned(T, ["a"])
    (work,) = one.waiting(1)
    one.refused(T, "it was dropped")
    assert not one.compared(work, EQUAL)
    assert one.tables[T].done == {}


def test_a_result_for_another_part_of_the_table_does_not_count() -> None:
    one = progress(T)
    one.planned(T, ["a"])
    assert not one.compared(ChunkWork(T, 0, "b"), EQUAL)
    assert one.waiting(1) == [ChunkWork(T, 0, "a")]


def test_chunks_of_a_new_plan_have_new_numbers_and_what_was_repaired_stays() -> None:
    one = progress(T)
    one.planned(T, [str(number) for number in range(4)], sample=50)
    compare_all(one)
    one.tables[T].repairs = {0: ChunkRepair((5, 6), 3, True), 2: ChunkRepair((7, 8))}
    assert [work.number for work in one.planned_again(T)] == [0, 2]
    assert one.tables[T].state is ComparedState.PENDING
    one.planned(T, [str(number) for number in range(4)], sample=50)
    assert [work.number for work in one.waiting(5)] == [4, 6]
    assert (one.tables[T].repaired, one.ends) == (3, [(5, 6), (7, 8)])
    assert one.tables[T].is_sample


def test_no_table_at_all_is_not_equal() -> None:
    assert progress().verdict() == "not compared"
    assert verdict_of([]) == "not compared"


def test_a_table_with_columns_that_were_not_compared_is_never_called_equal() -> None:
    one = progress(T)
    one.planned(T, ["a"], unjudged="the target lacks a column")
    compare_all(one)
    assert one.tables[T].state is ComparedState.NOT_COMPARED
    assert one.tables[T].shown_reason == "the target lacks a column"
    assert one.verdict() == "not compared"


def test_a_sample_is_never_called_equal() -> None:
    one = progress(T)
    one.planned(T, [str(number) for number in range(10)], sample=50)
    compare_all(one)
    assert one.tables[T].state is ComparedState.NOT_COMPARED
    assert "sample" in one.tables[T].shown_reason
    assert one.is_done


@given(st.integers(1, 2000), st.floats(0.1, 99.9))
def test_a_sample_has_its_share_and_the_first_chunk(chunks: int, percent: float) -> None:
    chosen = [number for number in range(chunks) if is_in_sample(number, percent)]
    assert chosen[0] == 0
    assert abs(len(chosen) - chunks * percent / 100) <= 2


def test_lost_keys_make_their_chunks_wait_again() -> None:
    one = progress(T)
    one.planned(T, ["a", "b"])
    first, second = one.waiting(2)
    one.compared(first, MISSING)
    one.compared(second, EQUAL)
    assert one.ends == [(9, 7)]
    assert one.forget_differences() == [first]
    assert one.waiting(5) == [first]
    assert one.tables[T].state is ComparedState.COMPARING


@given(st.lists(st.sampled_from([EQUAL, MISSING]), min_size=1, max_size=8), st.integers(0, 8))
def test_a_restart_continues_where_the_rows_of_the_target_say(results: list[ComparedChunk], done: int) -> None:
    spans = [f"span {number}" for number in range(len(results))]
    before = progress(T)
    before.planned(T, ["of an earlier plan"])
    before.planned_again(T)
    before.planned(T, spans, outline="digest", unjudged="why")
    for work, result in list(zip(before.waiting(100), results, strict=True))[:done]:
        before.compared(work, result)
    record = DiffRecord("r1", 1.0, RUNNING, DiffSettings(("s",), ("db.*",), 5.0, lock=True))
    table = before.tables[T]
    table.repairs = {0: ChunkRepair((5, 6), 3, True), 2: ChunkRepair((7, 8))}
    rows = [
        ("r1", ("", ""), -1, asdict(record)),
        *(("r1", T, repaired_chunk(number), repair.to_data()) for number, repair in table.repairs.items()),
        ("r1", T, -1, table_detail(table)),
        *(("r1", T, number, chunk.to_data()) for number, chunk in table.done.items()),
        ("older", T, 0, MISSING.to_data()),
    ]
    read = restored([(run, name, number, json.loads(json.dumps(detail))) for run, name, number, detail in rows])
    assert read is not None
    assert read[0] == record
    assert read[1].tables == before.tables


def test_nothing_stored_is_no_comparison() -> None:
    assert restored([]) is None
