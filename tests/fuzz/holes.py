"""How the code was when it had a known hole: replacements for functions of the product, for the proof alone.

A hole whose name has no entry here is one that the code has today.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

#: Puts a hole back; returns what takes it out again.
Install = Callable[[], Callable[[], None]]

INSTALL: Mapping[str, Install] = {}


@contextmanager
def open_hole(name: str) -> Iterator[None]:
    """The product with the hole of this name."""
    close = INSTALL[name]() if name in INSTALL else None
    try:
        yield
    finally:
        if close is not None:
            close()
