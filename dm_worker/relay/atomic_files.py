"""Small files that are complete or absent after a crash."""

from __future__ import annotations

import os
from pathlib import Path

#: The suffix of a file's name while it is being written.
PENDING = ".tmp"


def replace_file(path: Path, text: str) -> None:
    """Replaces ``path``: after a crash it has the old text or the new one, never a part. Raises ``OSError``."""
    temporary = path.with_name(path.name + PENDING)
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Makes the names of the files in ``path`` durable. Raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
