"""Hazard: a glossary that names modules which are gone, or gives one term two meanings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GLOSSARY = ROOT / "docs" / "glossary.md"
HEAD = ["term", "meaning", "owned by"]


def rows() -> list[list[str]]:
    """The cells of all rows, without heads and rules."""
    lines = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != HEAD and not set(row[0]) <= set("-: ")]


ROWS = rows()


def test_every_row_has_a_term_a_meaning_and_an_owner() -> None:
    for row in ROWS:
        assert len(row) == len(HEAD), row
        assert all(row), row
        assert row[1].endswith("."), f"the meaning of {row[0]} is not a sentence"


def test_a_term_has_one_meaning() -> None:
    twice = [term for term, count in Counter(row[0].casefold() for row in ROWS).items() if count > 1]
    assert not twice


@pytest.mark.parametrize("owner", sorted({row[2] for row in ROWS}))
def test_the_owner_is_a_module_that_exists(owner: str) -> None:
    assert owner == f"`{owner.strip('`')}`", f"{owner} is not a path in backticks"
    assert (ROOT / owner.strip("`")).exists(), f"docs/glossary.md names {owner}, which does not exist"
