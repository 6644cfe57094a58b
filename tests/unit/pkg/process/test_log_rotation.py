"""Hazard: a log file fills the disk, a rotation loses lines, or renamed files vanish although they should stay."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pkg.process.log_rotation import RotatedFileHandler, rotated_files
from pkg.settings.rotation import Rotation, is_by_time, parse_rotation

_MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Rotation(512 * _MIB, 0)),
        ("day", Rotation(512 * _MIB, 0)),
        ("64MiB", Rotation(64 * _MIB, 0)),
        ("64", Rotation(64 * _MIB, 0)),
        ("1g, 3", Rotation(1024 * _MIB, 3)),
        ("off", Rotation(0, 0)),
    ],
)
def test_the_setting_is_read(text: str, expected: Rotation) -> None:
    assert parse_rotation(text) == expected


@pytest.mark.parametrize("text", ["often", "64MiB,", "64MiB,0", "64MiB,x", "0", "100k", "off,3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rotation(text)


def test_units_of_time_are_known() -> None:
    assert [is_by_time(text) for text in ("day", "Hour", "1g", "")] == [True, True, False, False]


def _logger(path: Path, rotation: Rotation) -> logging.Logger:
    logger = logging.Logger("rotated")
    logger.addHandler(RotatedFileHandler(str(path), rotation))
    return logger


def test_a_full_file_is_renamed_and_no_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "dm-worker.log"
    logger = _logger(path, Rotation(100))
    for number in range(50):
        logger.warning("line %03d, which is as long as this", number)
    files = [*rotated_files(path), path]
    assert len(files) > 5
    assert all(file.name.startswith("dm-worker-20") and file.suffix == ".log" for file in files[:-1])
    lines = [line.partition(",")[0] for file in files for line in file.read_text().splitlines()]
    assert lines == [f"line {number:03d}" for number in range(50)]


def test_only_the_last_renamed_files_stay(tmp_path: Path) -> None:
    path = tmp_path / "[odd] name"
    (tmp_path / "[odd] name-notes").write_text("mine")
    logger = _logger(path, Rotation(30, kept=2))
    for number in range(20):
        logger.warning("line %03d, which is long enough", number)
    assert [file.read_text()[:8] for file in rotated_files(path)] == ["line 017", "line 018"]
    assert (tmp_path / "[odd] name-notes").read_text() == "mine"


def test_a_file_that_others_empty_or_move_is_not_renamed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logger = _logger(path, Rotation(100))
    logger.warning("x" * 200)
    path.write_text("")
    logger.warning("after emptying")
    path.rename(tmp_path / "moved")
    logger.warning("after moving")
    assert (path.read_text(), rotated_files(path)) == ("after moving\n", [])


def test_rotation_can_be_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logger = _logger(path, Rotation(0))
    for _ in range(20):
        logger.warning("x" * 200)
    assert rotated_files(path) == []
