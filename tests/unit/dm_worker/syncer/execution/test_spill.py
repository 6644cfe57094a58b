"""Hazards: bytes that travel by file come back cut, mixed up, or outlive their batch."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from dm_worker.syncer.execution.spill import FileRange, SpillStore, fetch, spill_slices, spill_store_in
from dm_worker.syncer.planning.batch import Slice
from pkg.errors import DMError

SLICES = [Slice(0, b"first", b"i1", "bin.1"), Slice(1, b"", b"", "bin.1"), Slice(2, os.urandom(70_000), b"i3", "bin.2")]


@pytest.mark.parametrize("shared", [False, True])
def test_slices_arrive_as_they_were(tmp_path: Path, shared: bool) -> None:
    with spill_store_in(tmp_path if shared else None) as store:
        sent = pickle.loads(pickle.dumps(spill_slices(SLICES, store)))
        assert [reference.slice() for reference in sent] == SLICES
        assert all(isinstance(reference.data, FileRange) for reference in sent) is shared
        assert len(pickle.dumps(sent)) < 2000 or not shared
    assert not list(tmp_path.iterdir())


def test_files_are_gone_when_the_batch_failed(tmp_path: Path) -> None:
    def fail() -> None:
        with spill_store_in(tmp_path) as store:
            store.keep([b"x"])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(tmp_path.iterdir())


def test_tasks_of_one_batch_keep_out_of_each_others_files(tmp_path: Path) -> None:
    with spill_store_in(tmp_path) as store:
        kept = [store.keep([b"%d" % n, b"-" * n]) for n in range(20)]
        assert [[fetch(content) for content in pair] for pair in kept] == [[b"%d" % n, b"-" * n] for n in range(20)]


def test_a_cut_file_is_an_error(tmp_path: Path) -> None:
    with spill_store_in(tmp_path) as store:
        (content,) = store.keep([b"0123456789"])
        assert isinstance(content, FileRange)
        os.truncate(content.path, 9)
        with pytest.raises(OSError, match="only 9 of 10 bytes"):
            fetch(content)
        os.unlink(content.path)
        with pytest.raises(FileNotFoundError):
            fetch(content)


def test_a_folder_that_takes_nothing_is_reported(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    for attempt in (lambda: SpillStore(str(gone)).keep([b"x"]), lambda: spill_store_in(gone).__enter__()):
        with pytest.raises(DMError, match="temporary folder") as caught:
            attempt()
        assert caught.value.retryable
