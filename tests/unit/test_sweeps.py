"""Hazard: property tests with all their examples make `make check` too slow to run before each commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

from tests import sweeps

ROOT = Path(__file__).resolve().parents[2]
_COUNT = re.compile(r"max_examples=(?!examples\()")


@pytest.mark.parametrize(
    ("whole", "quick"),
    [(1000, 250), (100, 25), (40, 10), (20, 10), (8, 8)],
)
def test_a_quick_run_draws_a_quarter_of_the_examples(whole: int, quick: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "QUICK", False)
    assert sweeps.examples(whole) == whole
    monkeypatch.setattr(sweeps, "QUICK", True)
    assert sweeps.examples(whole) == quick


def test_the_default_number_of_examples_follows_the_kind_of_run() -> None:
    assert settings().max_examples == sweeps.examples(100)


def test_each_number_of_examples_follows_the_kind_of_run() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "tests/unit/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [ROOT / name for name in listed.stdout.splitlines() if name != "tests/unit/test_sweeps.py"]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in files if path.exists()}
    assert sum(text.count("max_examples=examples(") for text in texts.values()) > 40
    assert [name for name, text in texts.items() if _COUNT.search(text)] == []
