"""Hazard: a worker runs the slow code, or other code than the operator asked for, and nobody can tell."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.compiled import required

SHOW = "from pkg import native; from pkg.binlog.rows import KERNEL; print(native.in_use(), KERNEL is not None)"


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
