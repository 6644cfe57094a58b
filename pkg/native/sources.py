"""The C sources of the compiled parts, and their digest: a part left over from older sources is not taken for theirs.

``setup.py`` runs this file by itself, before the package can be imported.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

#: What every part is built with.
COMMON = "common"


def sources(folder: Path, name: str) -> list[Path]:
    """What ``_<name>`` is compiled from; nothing where the sources are not installed."""
    own = sorted((folder / name).glob("*.c"))
    return own and [*own, *sorted((folder / COMMON).glob("*.c"))]


def headers(folder: Path, name: str) -> list[Path]:
    """What those include."""
    return [*sorted((folder / name).glob("*.h")), *sorted((folder / COMMON).glob("*.h"))]


def digest(folder: Path, name: str) -> str:
    """Of all that ``_<name>`` is made from; '' where there are no sources."""
    found = hashlib.blake2b(digest_size=16)
    compiled = sources(folder, name)
    if not compiled:
        return ""
    for path in (*compiled, *headers(folder, name)):
        text = path.read_bytes()
        found.update(b"%s %d\n" % (path.relative_to(folder).as_posix().encode(), len(text)) + text)
    return found.hexdigest()
