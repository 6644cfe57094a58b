"""The C sources of the compiled parts, and their digest, which detects a part that was built from older sources.

``setup.py`` runs this file by itself, before the package can be imported.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

#: The sources that all parts include.
COMMON = "common"


def sources(folder: Path, name: str) -> list[Path]:
    """The sources of ``_<name>``; empty where they are not installed."""
    own = sorted((folder / name).glob("*.c"))
    return own and [*own, *sorted((folder / COMMON).glob("*.c"))]


def headers(folder: Path, name: str) -> list[Path]:
    """The headers that those include."""
    return [*sorted((folder / name).glob("*.h")), *sorted((folder / COMMON).glob("*.h"))]


def digest(folder: Path, name: str) -> str:
    """The digest of all sources of ``_<name>``; '' where there are none."""
    found = hashlib.blake2b(digest_size=16)
    compiled = sources(folder, name)
    if not compiled:
        return ""
    for path in (*compiled, *headers(folder, name)):
        text = path.read_bytes()
        found.update(b"%s %d\n" % (path.relative_to(folder).as_posix().encode(), len(text)) + text)
    return found.hexdigest()
