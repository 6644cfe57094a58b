"""Hazard: a page names a file, or a docstring names a class, that is not there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("dm_master", "dm_worker", "dmctl", "pkg", "tests")
PAGES = sorted(
    [
        *(page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"),  # the history names what is gone
        *(ROOT / "docs").rglob("*.md"),
        *(page for folder in FOLDERS for page in (ROOT / folder).rglob("README.md")),
    ]
)
#: A path from the root: its first folder is one of ours.
_PATH = re.compile(r"`((?:configs|deploy|dm_master|dm_worker|dmctl|docs|pkg|proto|tests)/[\w./-]*)`")

#: A file by its name alone, as pages say within a paragraph about one package.
_NAME = re.compile(r"`(\w+\.(?:py|c|h|sh))`")

#: A file below a README's folder, or beside it.
_BELOW = re.compile(r"`((?:\.\./|[a-z_]+/)+\w+\.(?:py|c|h|sh))`")
#: A target of make, as a command of its own or within a sentence.
_MAKE = re.compile(r"(?:^|`)make ([a-z][a-z-]*)", re.MULTILINE)
#: A class, function or module by its whole name, in a docstring or comment.
_SYMBOL = re.compile(r":(?:mod|class|func|meth|data):`((?:dm_master|dm_worker|dmctl|pkg)\.[\w.]+)`")


def path_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def _file_names() -> frozenset[str]:
    """The names of all files that are in a folder of the repository, without folders whose names begin with a dot."""
    return frozenset(path.name for folder in ROOT.glob("[!.]*/") for path in folder.rglob("*.*"))


def test_the_pages_name_files() -> None:
    assert sum(len(_PATH.findall(page.read_text())) for page in PAGES) > len(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=path_id)
def test_named_files_exist(page: Path) -> None:
    missing = [path for path in _PATH.findall(page.read_text()) if not (ROOT / path).exists()]
    assert not missing, f"{path_id(page)} names files that do not exist"


@pytest.mark.parametrize("page", PAGES, ids=path_id)
def test_files_named_without_a_path_exist(page: Path) -> None:
    missing = set(_NAME.findall(page.read_text())) - _file_names()
    assert not missing, f"{path_id(page)} names files that do not exist"


@pytest.mark.parametrize("page", PAGES, ids=path_id)
def test_files_named_from_a_folder_exist(page: Path) -> None:
    named = _BELOW.findall(page.read_text())
    missing = [path for path in named if not (ROOT / path).exists() and not (page.parent / path).exists()]
    assert not missing, f"{path_id(page)} names files that do not exist"


@pytest.mark.parametrize("page", PAGES, ids=path_id)
def test_named_targets_of_make_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(_MAKE.findall(page.read_text())) <= set(targets)


def _exists(symbol: str) -> bool:
    """Whether the module is there and defines or imports the first name after it."""
    parts = symbol.split(".")
    for end in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:end])
        module = next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)
        if module is not None:
            return end == len(parts) or re.search(rf"\b{parts[end]}\b", module.read_text()) is not None
    return False


def test_named_symbols_exist() -> None:
    named = {
        (path_id(path), symbol)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for symbol in _SYMBOL.findall(path.read_text())
    }
    assert named
    missing = sorted(f"{path}: {symbol}" for path, symbol in named if not _exists(symbol))
    assert not missing, "\n".join(missing)
