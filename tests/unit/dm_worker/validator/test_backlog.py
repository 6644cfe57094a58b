"""Hazard: changes that wait for their comparison are lost, compared twice or out of order, or fill the memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.syncer.execution.spill import FileRange, SpillStore
from dm_worker.syncer.planning.batch import Slice
from dm_worker.validator.backlog import Backlog, WaitingBatch
from dm_worker.validator.differences import Restructured
from pkg.binlog.position import Location, Position


def batch(number: int, size: int = 10, run: int = 1) -> WaitingBatch:
    part = Slice(0, b"x" * size, b"", "f")
    return WaitingBatch(number, run, Location(Position("f", number)), [part], {}, (1, 2, 3), size)


def numbers(found: list[WaitingBatch]) -> list[int]:
    return [one.number for one in found]


def test_batches_come_in_order_up_to_a_statement_a_run_or_a_size() -> None:
    backlog = Backlog(1000, 1000)
    for item in (batch(1), batch(2), Restructured(3, ()), batch(4), batch(5, run=2)):
        backlog.put(item)
    assert backlog.statement() is None
    assert numbers(backlog.first(15)) == [1]
    found = backlog.first(1000)
    assert numbers(found) == [1, 2]
    assert numbers(backlog.first(15, found[:1])) == [2]
    assert backlog.first(1000, found) == []
    assert backlog.done(found)
    assert backlog.first(1000) == []
    assert backlog.statement() == Restructured(3, ())
    assert numbers(backlog.first(1000)) == [4]
    assert backlog.pending == (2, 4, 6)


def test_a_large_batch_is_not_held_up_by_a_limit() -> None:
    backlog = Backlog(1000, 1000)
    backlog.put(batch(1, size=500))
    assert numbers(backlog.first(15)) == [1]


@pytest.mark.parametrize(("rows", "size"), [(12, 10**6), (10**6, 20)])
def test_batches_above_the_memory_limit_wait_in_files_that_are_removed(
    rows: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    backlog = Backlog(rows, size)
    for number in range(1, 6):
        backlog.put(batch(number))
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert len(files) == 3
    found = backlog.first(1000)
    for folder in ("", str(tmp_path)):
        sent = [part for one in found for part in one.sent(SpillStore(folder))]
        assert [part.slice().data for part in sent] == [b"x" * 10] * 5
        assert [isinstance(part.data, FileRange) for part in sent] == [bool(folder)] * 5
    shared = {part.data.path for part in sent if isinstance(part.data, FileRange)}
    assert shared.issuperset(map(str, files)), "files are not written again"
    assert [len(one.slices) for one in found] == [1, 1, 0, 0, 0]
    assert backlog.done(found)
    assert not [one for one in files if one.exists()]
    assert (len(backlog), backlog.pending) == (0, (0, 0, 0))
    backlog.put(batch(6))
    assert backlog.first(1000)[0].spilled == (), "there is room again"


def test_a_cleared_queue_does_not_take_the_end_of_an_older_comparison(tmp_path: Path) -> None:
    backlog = Backlog(1000, 1000)
    backlog.put(batch(1))
    found = backlog.first(1000)
    backlog.clear()
    backlog.put(batch(2))
    assert not backlog.done(found)
    assert numbers(backlog.first(1000)) == [2]
