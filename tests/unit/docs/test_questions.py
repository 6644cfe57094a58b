"""Hazard: an answer to a new reader's question names a file that does not define what is sought."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_PAGE = (ROOT / "docs" / "development.md").read_text()
_ROW = re.compile(r"^\| [^|]+ \| `([\w/]+\.py)`: `(\w+)` \|$", re.MULTILINE)
ANSWERS = _ROW.findall(_PAGE)


def defined(path: Path) -> set[str]:
    """The names that a module defines at its top: classes, functions and values."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_each_question_has_an_answer() -> None:
    section = _PAGE.partition("## Where is it?")[2].partition("\n## ")[0]
    assert section.count("? | `") == len(ANSWERS) >= 14


@pytest.mark.parametrize(("path", "name"), ANSWERS)
def test_the_file_defines_what_is_sought(path: str, name: str) -> None:
    assert name in defined(ROOT / path)


@pytest.mark.parametrize("path", [path for path, _ in ANSWERS])
def test_the_readme_of_the_package_names_the_file(path: str) -> None:
    """Who looks for the answer without this page reads the README of the package."""
    file = ROOT / path
    readme = next(folder / "README.md" for folder in file.parents if (folder / "README.md").exists())
    assert readme.parent != ROOT, "a package without a README"
    assert f"`{file.relative_to(readme.parent)}`" in readme.read_text()


def test_the_code_asks_nowhere_whether_there_is_sharding() -> None:
    """A run without sharding has its own implementation (``NoSharding``): callers do not distinguish."""
    texts = {
        path: path.read_text() for folder in ("dm_master", "dm_worker", "pkg") for path in (ROOT / folder).rglob("*.py")
    }
    assert any("NoSharding" in text for text in texts.values())
    asked = re.compile(r"\bsharding is (not )?None")
    assert [str(path.relative_to(ROOT)) for path, text in texts.items() if asked.search(text)] == []
