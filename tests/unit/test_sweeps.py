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
    ("whole", "half", "quick"),
    [(1000, 500, 250), (100, 50, 25), (40, 20, 10), (20, 10, 10), (8, 8, 8)],
)
def test_a_long_run_and_a_search_draw_all_examples_and_others_a_part(
    whole: int, half: int, quick: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QUICK", "LONG", "SEARCHES"):
        monkeypatch.setattr(sweeps, name, False)
    assert sweeps.examples(whole) == half
    for name, expected in (("LONG", whole), ("SEARCHES", whole), ("QUICK", quick)):
        with monkeypatch.context() as only:
            only.setattr(sweeps, name, True)
            assert sweeps.examples(whole) == expected


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


def test_each_case_runs_on_one_place_and_on_all_in_a_long_run() -> None:
    places = {"a": "xyz", "b": "xyz", "c": "xyz", "d": "y"}
    made = sweeps.each_on_one(list(places), lambda case: places[case], str.upper, first=1)
    assert [one.values for one in made] == [(place, case) for case in places for place in places[case]]
    assert [one.id for one in made if not one.marks] == ["y-A", "z-B", "x-C", "y-D"]
    assert {mark.name for one in made for mark in one.marks} == {"slow"}
