"""Hazard: executors lack a part of the code, or receive files that are none of it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dm_worker.engine import code_archive


def test_compiled_parts_and_data_are_shipped_with_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dm_worker/a.py", "pkg/native/_x.so", "pkg/native/x.c", "pkg/x.bin", "pkg/secret.pem"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(code_archive, "_ROOT", tmp_path)
    with zipfile.ZipFile(code_archive.pack_code(tmp_path / "code.zip")) as archive:
        assert sorted(archive.namelist()) == ["dm_worker/a.py", "pkg/native/_x.so", "pkg/x.bin"]


def test_the_code_that_is_shipped_is_that_of_this_program(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_archive.pack_code(tmp_path / "code.zip")) as archive:
        assert {"dm_worker/engine/code_archive.py", "pkg/errors/__init__.py"} <= set(archive.namelist())
    assert Path(code_archive.source_paths("")[0]) == Path(code_archive.__file__).parents[2]


def test_an_executor_reads_the_data_of_the_code_that_it_unpacks(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_archive.pack_code(tmp_path / "code.zip")) as archive:
        archive.extractall(tmp_path / "unpacked")
    program = (
        "from pkg.rules.expression_filter import case_maps, uca_900\n"
        "weights = uca_900.WEIGHTS\n"
        "print(case_maps.__file__, case_maps.GENERAL_WEIGHTS[ord('a')], weights[ord('a')] == weights[ord('A')])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path / "unpacked", capture_output=True, text=True, check=True
    ).stdout.split()
    assert shown[1:] == ["65", "True"]
    assert Path(shown[0]).is_relative_to(tmp_path)
