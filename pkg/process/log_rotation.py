"""A log file that is renamed when it is full, as in DM. Other programs may move or truncate it too."""

from __future__ import annotations

import logging
import logging.handlers
import os
import time
from pathlib import Path

from pkg.settings.rotation import Rotation


class RotatedFileHandler(logging.handlers.WatchedFileHandler):
    """Appends to ``path``; opens it again after it was moved away, and renames it when it is full."""

    def __init__(self, path: str, rotation: Rotation) -> None:
        super().__init__(path, encoding="utf-8")
        self._rotation = rotation

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._rotate_if_full()
        except OSError:
            # A full disk, or a folder without write permission: the file stays, and grows.
            self.handleError(record)
        super().emit(record)

    def _rotate_if_full(self) -> None:
        """Asks for the file's size instead of counting, because others may have truncated the file."""
        if not self._rotation.size:
            return
        self.reopenIfNeeded()
        if self.stream is None or os.fstat(self.stream.fileno()).st_size < self._rotation.size:
            return
        path = Path(self.baseFilename)
        os.rename(path, self._unused(path))
        self.reopenIfNeeded()
        if self._rotation.kept:
            for old in rotated_files(path)[: -self._rotation.kept]:
                old.unlink(missing_ok=True)

    def _unused(self, path: Path) -> Path:
        """DM's form: the time of the renaming is before the suffix. Microseconds keep the names in order."""
        moment = time.time()
        while True:
            stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(moment)) + f".{int(moment * 1e6) % 1_000_000:06d}"
            name = path.with_name(f"{path.stem}-{stamp}{path.suffix}")
            if not name.exists():
                return name
            moment += 1e-6


def rotated_files(path: Path) -> list[Path]:
    """The renamed files of the log ``path``, oldest first."""
    digits = "[0-9]" * 4 + "-" + "[0-9]" * 2
    return sorted(path.parent.glob(f"{_escaped(path.stem)}-{digits}-*T*{_escaped(path.suffix)}"))


def _escaped(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)
