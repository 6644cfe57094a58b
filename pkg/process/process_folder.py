"""A process's own temporary folder: removed at its end, or by the next process if its owner was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_LOCK = ".lock"


class ProcessFolder:
    """Creates ``<base>/<prefix><random>`` and locks a file in it, so that others see that its owner is alive.

    ``base`` is the system's temporary folder unless given. Only this user may enter the folder.
    Raises ``OSError`` when ``base`` is not writable.
    """

    def __init__(self, prefix: str, base: Path | None = None) -> None:
        base = base or Path(tempfile.gettempdir())
        _remove_orphans(base, prefix)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if self.path.exists():
                return
            # Another process removed it as an orphan's before it was locked.
            os.close(self._lock)

    def remove(self) -> None:
        """Deletes the folder. Idempotent."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _remove_orphans(base: Path, prefix: str) -> None:
    for lock in base.glob(f"{prefix}*/{_LOCK}"):
        try:
            descriptor = os.open(lock, os.O_RDWR)
        except OSError:
            continue  # another user's, or removed just now
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        except BlockingIOError:
            continue  # its owner lives
        finally:
            os.close(descriptor)
