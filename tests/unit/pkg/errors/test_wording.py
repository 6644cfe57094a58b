"""Hazard: messages, advice, log lines and pages fall back into phrases that operators have to guess at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
#: Texts with fewer blanks are names, keys or SQL words.
LEAST_BLANKS = 2
#: A phrase, and what to write.
BANNED = {
    r"\banew\b": "again",
    r"\b(nobody|somebody|whoever|whatever)\b": "name who or what it is",
    r"\b(go(es)?|going|went) on\b": "continue",
    r"\b(tells?|told|telling)\b": "show, report, list",
    r"\bmend": "fix",
    r"\bput (it|them|this) right\b": "fix",
    r"\bways? (out|past)\b": "operator action",
    r"(?<!there )\b(is|are) none\b": "is not one of",
    r"(?<!there )\b(is|are) no (?!longer|such\b)": "is not a",
    r"\blets? \S+ through\b": "includes",
    r"\bby way of\b": "through",
    r"\bshall\b": "must, will",
    r"\bfalls? back|fell back\b": "goes back to an earlier state",
    r"\bstands? still\b": "is blocked, has stopped",
    r"\bgiven up\b": "abandoned",
    r"\bunder way\b": "running",
    r"\bpass(ed|es)? over\b": "skip, ignore",
}  # fmt: skip


PAGES = sorted(
    [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *(ROOT / "docs").rglob("*.md")]
)
#: Phrases that pages may use: "there is no", in its many forms, and what the glossary's fallen-back target did.
ONLY_IN_MESSAGES = (r"\b(is|are) no ", r"fell back")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every literal of a module that reads as prose; values of f-strings become ``{}``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            silent.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            silent.update(child for child in ast.walk(node) if child is not node)
    for node in ast.walk(tree):
        if node in silent or not isinstance(node, (ast.Constant, ast.JoinedStr)):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        if text.count(" ") >= LEAST_BLANKS:
            yield node.lineno, text


@pytest.mark.parametrize("package", ["pkg", "dm_master", "dm_worker", "dmctl"])
def test_messages_use_plain_words(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}: instead of {match[0]!r} write: {advice}"
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
        for line, text in texts(path)
        for phrase, advice in BANNED.items()
        if (match := re.search(phrase, text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_plain_words(page: Path) -> None:
    lines = page.read_text(encoding="utf-8")
    text = lines.replace("\n", " ")
    found = [
        f"{page.name}:{lines.count(chr(10), 0, match.start()) + 1}: instead of {match[0]!r} write: {advice}"
        for phrase, advice in BANNED.items()
        if not any(part in phrase for part in ONLY_IN_MESSAGES)
        for match in re.finditer(phrase, text)
    ]
    assert not found, "\n".join(found)


def test_a_text_that_spans_lines_and_values_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""It goes on here."""\nraise ValueError(f"the task {name} " "goes " f"on at {place}")\n')
    assert list(texts(module)) == [(2, "the task {} goes on at {}")]
