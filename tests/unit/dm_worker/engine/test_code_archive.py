"""Hazard: executors lack a part of the code, or receive files that are none of it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dm_worker.engine import code_archive


def test_compiled_parts_are_shipped_with_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dm_worker/a.py", "pkg/native/_x.so", "pkg/native/x.c", "pkg/secret.pem"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(code_archive, "_ROOT", tmp_path)
    with zipfile.ZipFile(code_archive.pack_code(tmp_path / "code.zip")) as archive:
        assert sorted(archive.namelist()) == ["dm_worker/a.py", "pkg/native/_x.so"]


def test_the_code_that_is_shipped_is_that_of_this_program(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_archive.pack_code(tmp_path / "code.zip")) as archive:
        assert {"dm_worker/engine/code_archive.py", "pkg/errors/__init__.py"} <= set(archive.namelist())
    assert Path(code_archive.source_paths("")[0]) == Path(code_archive.__file__).parents[2]
