"""Which source a dump folder belongs to: two sources of one task never write into one folder.

A file in the folder names the source and stays locked while its worker lives. The lock ends with the process, which
distinguishes a folder in use from one that a dead worker left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pkg import errors
from pkg.errors import Code

OWNER_FILE = ".dm-owner"


@dataclass(frozen=True, slots=True)
class _Held:
    descriptor: int
    inode: int


#: The locks of this process: a second lock on the same file would wait for the first, even within one process.
_held: dict[Path, _Held] = {}
_guard = threading.Lock()


def hold(folder: Path, source_id: str) -> None:
    """Locks a folder that already belongs to ``source_id``, if that is possible."""
    with _guard, contextlib.suppress(OSError):
        if owner_of(folder) == source_id:
            _lock(folder)


def claim(folder: Path, source_id: str, may_replace: Callable[[str], bool]) -> None:
    """Makes ``folder`` (created when missing) the dump folder of ``source_id``.

    ``may_replace`` returns whether the dump that another source left there may be removed. Raises DMError 32001 when it
    may not, or when a running worker uses the folder; ``OSError`` when the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _guard:
        locked = _lock(folder)
        owner = owner_of(folder)
        if owner == source_id:
            return  # perhaps locked by the former worker of the source; the masters ensure that it has stopped
        if not locked:
            raise _taken(folder, source_id, owner)
        if owner and not may_replace(owner):
            _release(folder)
            raise _taken(folder, source_id, owner)
        (folder / OWNER_FILE).write_text(source_id, encoding="utf-8")


def release(folder: Path) -> None:
    """Releases the folder. Idempotent."""
    with _guard:
        _release(folder)


def owner_of(folder: Path) -> str:
    """The source whose dump ``folder`` contains; '' when it is not recorded."""
    try:
        return (folder / OWNER_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _lock(folder: Path) -> bool:
    """Locks the folder for this process; False when another process has it."""
    path = folder / OWNER_FILE
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    inode = os.fstat(descriptor).st_ino
    held = _held.get(folder.resolve())
    if held is not None and held.inode == inode:
        os.close(descriptor)
        return True
    _release(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(descriptor)
        if isinstance(exc, BlockingIOError):
            return False
        raise
    _held[folder.resolve()] = _Held(descriptor, inode)
    return True


def _release(folder: Path) -> None:
    held = _held.pop(folder.resolve(), None)
    if held is not None:
        os.close(held.descriptor)


def _taken(folder: Path, source_id: str, owner: str) -> errors.DMError:
    return errors.new(
        Code.DumpUnitRuntime,
        f"the folder {folder.resolve()} holds the dump of source {owner or 'another worker'}, so {source_id} "
        "cannot dump into it",
        workaround="Give each worker a working directory of its own (or an absolute `dir` of loaders that other "
        "sources' workers do not share), then resume the task. If the other dump is no longer needed, "
        "remove the folder.",
    )
