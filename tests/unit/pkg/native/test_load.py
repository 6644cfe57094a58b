"""Hazard: a compiled part that was built for another machine is loaded, or keeps the program from starting."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

import pytest

import pkg.native


def test_a_kernel_of_another_platform_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"_bogus{importlib.machinery.EXTENSION_SUFFIXES[0]}").write_bytes(b"\x7fELF of some other machine")
    (tmp_path / "_other.cpython-399-riscv64-linux-gnu.so").write_bytes(b"")
    monkeypatch.setattr(pkg.native, "__path__", [str(tmp_path)])
    monkeypatch.setattr(pkg.native, "CHOICE", "")
    assert pkg.native.load("bogus") is None
    assert pkg.native.load("other") is None
