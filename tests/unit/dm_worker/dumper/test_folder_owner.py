"""Hazard: two workers that were started in one directory mix the files of two sources."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dm_worker.dumper import folder_owner
from dm_worker.dumper.folder import DumpWorkFolder
from pkg.errors import Code, DMError


def _never(source_id: str) -> bool:
    return False


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "dump.task"
    yield path
    folder_owner.release(path)


@pytest.fixture
def elsewhere(folder: Path) -> Iterator[None]:
    """Another process that has the folder for source-1."""
    program = (
        "import sys; from pathlib import Path; from dm_worker.dumper import folder_owner;"
        "folder_owner.claim(Path(sys.argv[1]), 'source-1', lambda source: False);"
        "print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield
    process.communicate()


@pytest.mark.usefixtures("elsewhere")
def test_a_folder_in_use_by_another_worker_is_refused(folder: Path) -> None:
    (folder / "rows.sql").touch()
    with pytest.raises(DMError) as caught:
        folder_owner.claim(folder, "source-2", lambda source: True)
    assert caught.value.kind is Code.DumpUnitRuntime
    assert "source-1" in str(caught.value)
    assert "working directory of its own" in str(caught.value)
    assert folder_owner.owner_of(folder) == "source-1"
    assert (folder / "rows.sql").exists()


@pytest.mark.usefixtures("elsewhere")
def test_a_source_that_moves_to_a_worker_in_the_same_directory_keeps_its_folder(folder: Path) -> None:
    folder_owner.claim(folder, "source-1", _never)
    assert folder_owner.owner_of(folder) == "source-1"


def test_a_dump_left_behind_goes_only_when_nobody_waits_for_it(folder: Path) -> None:
    folder.mkdir()
    (folder / folder_owner.OWNER_FILE).write_text("source-1")
    with pytest.raises(DMError):
        folder_owner.claim(folder, "source-2", _never)
    assert folder_owner.owner_of(folder) == "source-1"
    folder_owner.claim(folder, "source-2", lambda source: source == "source-1")
    assert folder_owner.owner_of(folder) == "source-2"


def test_a_restarted_worker_holds_its_own_folder_only(folder: Path) -> None:
    folder.mkdir()
    (folder / folder_owner.OWNER_FILE).write_text("source-1")
    for source_id, held in (("source-2", False), ("source-1", True)):
        folder_owner.hold(folder, source_id)
        program = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        tried = subprocess.run(
            [sys.executable, "-c", program, str(folder / folder_owner.OWNER_FILE)], capture_output=True, check=False
        )
        assert (b"BlockingIOError" in tried.stderr) is held


def test_emptying_a_folder_keeps_the_claim(folder: Path) -> None:
    folder_owner.claim(folder, "source-1", _never)
    (folder / "old").mkdir()
    (folder / "old.sql").touch()
    work = DumpWorkFolder(folder, "token")
    work.create()
    assert sorted(path.name for path in folder.iterdir()) == [folder_owner.OWNER_FILE, work.path.name]


def test_a_late_writer_of_a_dead_attempt_does_not_keep_the_next_one_from_starting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_owner.claim(folder, "source-1", _never)
    dead, work = DumpWorkFolder(folder, "dead"), DumpWorkFolder(folder, "next")
    dead.create()
    rmdir = os.rmdir

    def emptied(path: Any, **options: Any) -> None:
        with contextlib.suppress(FileNotFoundError):
            (dead.path / "late.sql").touch()
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", emptied)
    work.create()
    assert sorted(path.name for path in folder.iterdir()) == [folder_owner.OWNER_FILE, work.path.name]
    dead.request_stop()


def test_a_removed_folder_can_be_claimed_again(folder: Path) -> None:
    folder_owner.claim(folder, "source-1", _never)
    (folder / folder_owner.OWNER_FILE).unlink()
    folder.rmdir()
    folder_owner.claim(folder, "source-2", _never)
    assert folder_owner.owner_of(folder) == "source-2"
