"""Hazard: a worker runs the slow code, or other code than the operator asked for, and nothing shows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pkg import native
from pkg.native.sources import COMMON, digest
from tests.compiled import required

FOLDER = Path(native.__file__).parent
SHOW = (
    "from pkg import native; from pkg.binlog.rows.row_decoder import KERNEL; print(native.in_use(), KERNEL is not None)"
)


def shown(choice: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DM_KERNEL": choice}
    return subprocess.run([sys.executable, "-c", SHOW], env=env, capture_output=True, text=True)


def test_the_environment_switches_the_kernel_off() -> None:
    assert shown("python").stdout == "python False\n"


def test_the_compiled_kernel_is_used_and_named_when_it_is_there() -> None:
    required("rows")
    name, loaded = shown("native").stdout.rsplit(" ", 1)
    assert name.startswith("native (")
    assert "rows" in name
    assert loaded == "True\n"


def test_another_choice_is_an_error() -> None:
    failed = shown("quick")
    assert failed.returncode
    assert "DM_KERNEL=quick" in failed.stderr


def test_the_parts_are_those_that_have_sources() -> None:
    assert {*native.PARTS, COMMON} == {source.parent.name for source in FOLDER.glob("*/*.c")}


def test_a_part_that_cannot_be_loaded_is_reported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    required("rows")
    assert native.missing() == {}
    assert native.trouble() == ""
    monkeypatch.setitem(sys.modules, "pkg.native._scan", None)
    assert list(native.missing()) == ["scan"]
    assert native.in_use() == "native (compare, dump, relay, rows, sqlscan)"
    assert native.trouble().startswith("the compiled code of scan is not in use")
    assert "ModuleNotFoundError: import of pkg.native._scan halted" in native.trouble()


def test_what_was_switched_off_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "CHOICE", "python")
    assert native.missing() == dict.fromkeys(native.PARTS, "DM_KERNEL=python")
    assert native.trouble() == ""


@pytest.mark.parametrize("name", native.PARTS)
def test_every_compiled_part_shows_what_it_was_built_from(name: str) -> None:
    assert digest(FOLDER, name) == required(name).SOURCES


@pytest.mark.parametrize("changed", ["rows/merge.c", "rows/merge.h", "common/map.c", "common/map.h"])
def test_a_part_left_over_from_older_sources_is_an_error(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required("rows")
    for source in FOLDER.glob("*/*.[ch]"):
        (tmp_path / source.parent.name).mkdir(exist_ok=True)
        shutil.copy(source, tmp_path / source.parent.name)
    monkeypatch.setattr(native, "__file__", str(tmp_path / "__init__.py"))
    assert native.load("rows") is not None
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    with pytest.raises(RuntimeError, match="make kernel"):
        native.load("rows")


def test_where_no_sources_are_nothing_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    required("rows")
    monkeypatch.setattr(native, "__file__", str(tmp_path / "__init__.py"))
    assert native.load("rows") is not None
