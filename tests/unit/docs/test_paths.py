"""Hazard: a page that names a file of the code or of the tests which is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
#: A path from the root: its first folder is one of ours.
_PATH = re.compile(r"`((?:configs|deploy|dm_master|dm_worker|dmctl|docs|pkg|proto|tests)/[\w./-]*)`")

#: A file by its name alone, as pages say within a paragraph about one package.
_NAME = re.compile(r"`(\w+\.(?:py|c|h|sh))`")


def test_the_pages_name_files() -> None:
    assert sum(len(_PATH.findall(page.read_text())) for page in PAGES) > len(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    missing = [path for path in _PATH.findall(page.read_text()) if not (ROOT / path).exists()]
    assert not missing, f"{page.name} names files that do not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_without_a_path_exist(page: Path) -> None:
    missing = [name for name in _NAME.findall(page.read_text()) if not next(ROOT.glob(f"[!.]*/**/{name}"), None)]
    assert not missing, f"{page.name} names files that do not exist"
