"""Hazard: CI calls a real failure flaky and passes, or one accident in hours of tests hides what the tests found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "flaky.py"
#: Pytest starts in a third of the time without the plugins of other packages.
PLAIN = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
#: Fails in the first run of each parameter.
ACCIDENT = """
    import pathlib, pytest
    @pytest.mark.parametrize("number", range({count}))
    def test_accident(number):
        seen = pathlib.Path(f"seen-{{number}}")
        if not seen.exists():
            seen.touch()
            raise AssertionError(number)
    def test_sound(): pass
"""
FAULT = "def test_fault(): assert not 'always'\ndef test_sound(): pass\n"
TORN_DOWN = """
    import pathlib, pytest
    @pytest.fixture
    def server():
        yield
        seen = pathlib.Path("seen")
        if not seen.exists():
            seen.touch()
            raise RuntimeError("cannot stop")
    def test_with_a_server(server): pass
"""


@pytest.mark.parametrize(
    ("source", "passes", "message"),
    [
        (ACCIDENT.format(count=1), True, "FLAKY: tests/unit/test_it.py::test_accident[0] failed in the whole run"),
        (ACCIDENT.format(count=2), True, "FLAKY: tests/unit/test_it.py::test_accident[1]"),
        (ACCIDENT.format(count=3), False, "3 failed tests; at most 2 are run again"),
        (TORN_DOWN, True, "FLAKY: tests/unit/test_it.py::test_with_a_server"),
        (FAULT, False, "test_fault fails again"),
        ("import no_such_module", False, "the run failed for another reason than a test"),
    ],
    ids=["one", "two", "three", "teardown", "fault", "collection"],
)
def test_only_a_failure_that_does_not_repeat_is_forgiven(
    tmp_path: Path, source: str, passes: bool, message: str
) -> None:
    tests = tmp_path / "tests" / "unit"
    tests.mkdir(parents=True)
    for folder in (tests, tests.parent):
        (folder / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    lines = [line.removeprefix("    ") for line in source.splitlines()]
    (tests / "test_it.py").write_text("\n".join(lines) + "\n")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml", "tests"]
    assert subprocess.run(run, cwd=tmp_path, env=PLAIN, capture_output=True, check=False).returncode != 0
    done = _flaky(tmp_path, "report.xml")
    assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert message in done.stdout + done.stderr


def test_a_run_without_a_report_fails(tmp_path: Path) -> None:
    done = _flaky(tmp_path, "report.xml")
    assert done.returncode == 1
    assert "no report" in done.stderr


def _flaky(folder: Path, report: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), report], cwd=folder, env=PLAIN, capture_output=True, text=True, check=False
    )
