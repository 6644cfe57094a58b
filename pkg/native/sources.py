"""Which C sources a compiled part was made from, so that one left over from older sources is not taken for theirs.

``setup.py`` runs this file by itself, before the package can be imported.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest(folder: Path, name: str) -> str:
    """Of what ``_<name>`` is made from: ``<name>.c`` and all headers in ``folder``; '' where there are no sources."""
    source = folder / f"{name}.c"
    if not source.is_file():
        return ""
    found = hashlib.blake2b(digest_size=16)
    for path in (source, *sorted(folder.glob("*.h"))):
        text = path.read_bytes()
        found.update(b"%s %d\n" % (path.name.encode(), len(text)) + text)
    return found.hexdigest()
