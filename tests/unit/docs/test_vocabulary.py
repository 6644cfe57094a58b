"""Hazard: house terms return beside the field's terms for the same things."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: What has a word of the field now: a regular expression, and the word that docs/glossary.md defines. Some old names
#: remain as quoted text in what is stored (dm_worker/meta/stored_text.py): tasks go on from it.
REPLACED = {
    r"\b_?Tape\b": "event buffer",
    r"\b_?Course\b": "stream follower",
    r"\b_?Puller\b": "relay client",
    r"\b_?Tail\b": "readable end",
    r"\bwish(es)?\b": "desired stage, or what a source wants of a lock: lock request",
    r"\berrands?\b": "reopen reason",
    r"\bcrumbs?\b": "tiny batches",
    r"\bhungry\b": "idle",
    r"\btake_jump\b": "reopen",
    r"\bmoves_rows\b": "what the statement changes",
    r"\bcanons?\b(?!\")": "key normalization",
    r"\b_?Folding\b(?!\()": "collation weights",
    r"\bscatter\b": "partition",
    r"\b_?Parcel\b": "slice reference",
    r"\b_?Heap\b(?!\()": "bucket buffer",
    r"\b_?Ticket\b": "write token",
    r"\b_?Level2\b|\blevel2\b": "lock service",
    r"\bshard_talk\b": "lock protocol",
    r"\bShardLink\b|\bshard_link\b": "lock client",
    r"\b_?Owed\b": "pending acknowledgement",
    r"\bPATIENCE\b|_PATIENCE\b": "what times out",
    r"\blocated\(": "exc.at(…)",
    r"\bways out\b|\bways_out\b": "operator actions",
}
#: Pictures and archives are no text.
BINARY = (".bin", ".png", ".xz")
#: The history of releases keeps its words, and this test needs them.
SKIPPED = ("CHANGELOG.md", "tests/unit/docs/test_vocabulary.py", "tests/harness/axe/axe.min.js")


@cache
def pages() -> dict[str, str]:
    """The text of every text file of the repository, by its path."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return {
        name: (ROOT / name).read_text(errors="replace")
        for name in names
        if name and name not in SKIPPED and not name.endswith(BINARY) and (ROOT / name).is_file()
    }


def test_the_repository_is_read() -> None:
    assert "README.md" in pages()
    assert len(pages()) > 500


@pytest.mark.parametrize("pattern", REPLACED)
def test_replaced_words_stay_away(pattern: str) -> None:
    word = re.compile(pattern)
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in pages().items()
        if word.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if word.search(line)
    ]
    assert not found, f"{pattern}: say '{REPLACED[pattern]}'\n" + "\n".join(found)
