"""A cache outside the checkout for files that are fetched or built once per machine."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

CACHE = Path(os.environ.get("DM_TEST_CACHE", Path.home() / ".cache" / "dm-tests"))


def once(name: str, make: Callable[[Path], None]) -> Path:
    """A cached folder; the first process that needs it creates it, and others wait."""
    CACHE.mkdir(parents=True, exist_ok=True)
    final = CACHE / name
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            unfinished = CACHE / f"{name}.partial"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(final)
    return final
