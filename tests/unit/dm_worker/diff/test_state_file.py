"""Hazard: after a crash a comparison without a task forgets a difference, or continues another comparison."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dm_worker.diff.progress import ChunkWork, ComparedChunk, DiffCounts, TableProgress
from dm_worker.diff.state_file import DiffStateFile
from dm_worker.diff.state_table import FINISHED, RUNNING, DiffRecord, DiffSettings
from pkg.errors import Code, DMError

T = ("db", "t")
RECORD = DiffRecord("r1", 5.0, RUNNING, DiffSettings(("s1",), chunk_rows=7))


def chunk(number: int) -> ComparedChunk:
    return ComparedChunk(DiffCounts(missing=number), 10, 20, "here", "checksums", ("missing (1)",), (number, number))


@pytest.fixture
def state(tmp_path: Path) -> DiffStateFile:
    made = DiffStateFile(tmp_path / "a" / "state.jsonl", "shop")
    made.begin(RECORD)
    made.note_table("r1", TableProgress(T, ("s1: t",), 100))
    # The chunk's line comes before the last one of its table.
    made.note_chunk("r1", T, 0, chunk(3))
    made.note_table("r1", TableProgress(T, ("s1: t",), 100, 2, {0: "a", 1: "b"}))
    return made


def test_what_was_noted_is_read_again(state: DiffStateFile) -> None:
    found = state.read()
    assert found is not None
    record, progress = found
    assert record == RECORD
    assert progress.tables[T].done == {0: chunk(3)}
    assert progress.tables[T].spans == {0: "a", 1: "b"}


def test_a_later_stage_counts_and_a_forgotten_chunk_does_not(state: DiffStateFile) -> None:
    state.forget_chunks("r1", [ChunkWork(T, 0, "a")])
    state.note(RECORD.at(FINISHED))
    found = state.read()
    assert found is not None
    assert (found[0].stage, found[1].tables[T].done) == (FINISHED, {})


def test_a_line_that_is_half_written_is_cut_off(state: DiffStateFile, tmp_path: Path) -> None:
    path = tmp_path / "a" / "state.jsonl"
    path.write_bytes(path.read_bytes() + b'["r1", "db", "t", 1, {"coun')
    assert state.read() is not None
    state.note_chunk("r1", T, 1, chunk(4))
    found = state.read()
    assert found is not None
    assert found[1].tables[T].done == {0: chunk(3), 1: chunk(4)}


def test_the_state_of_another_comparison_is_not_continued(state: DiffStateFile, tmp_path: Path) -> None:
    other = DiffStateFile(tmp_path / "a" / "state.jsonl", "other rules")
    assert other.read() is None
    assert DiffStateFile(tmp_path / "b" / "state.jsonl", "shop").read() is None


def test_only_the_workers_user_can_read_it(state: DiffStateFile, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "a" / "state.jsonl").stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DMError, match="cannot read or write the comparison's state") as raised:
        DiffStateFile(tmp_path / "file" / "state.jsonl", "shop").begin(RECORD)
    assert raised.value.kind is Code.DiffFiles
