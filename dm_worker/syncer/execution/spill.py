"""How a batch's bytes reach the tasks: in files if driver and tasks share a machine, otherwise through Spark.

Spark copies the bytes half a dozen times, and the JVM's heap holds some of the copies. A file is written and read once,
mostly without reaching the disk: it is removed with its batch. Spark then sends only references.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from dm_worker.syncer.planning.batch import Slice
from pkg import errors
from pkg.errors import Code


@dataclass(frozen=True, slots=True)
class FileRange:
    """``size`` bytes from ``offset`` on in the file ``path``."""

    path: str
    offset: int
    size: int


Spilled = bytes | FileRange


def written(pieces: Sequence[bytes], folder: str) -> list[FileRange]:
    """Writes pieces into a new file of the folder. Raises ``OSError``."""
    descriptor, path = tempfile.mkstemp(dir=folder)
    with open(descriptor, "wb") as out:
        out.writelines(pieces)
    ends = list(accumulate(map(len, pieces)))
    return [FileRange(path, end - len(piece), len(piece)) for piece, end in zip(pieces, ends, strict=True)]


@dataclass(frozen=True, slots=True)
class SpillStore:
    """Stores the bytes of one batch: in a folder that driver and tasks share, or, without one, in memory."""

    folder: str = ""

    def keep(self, pieces: Sequence[bytes]) -> list[Spilled]:
        """Spills pieces; returns picklable references for :func:`fetch`. Raises DMError for a full disk."""
        if not self.folder or not pieces:
            return list(pieces)
        try:
            return list(written(pieces, self.folder))
        except OSError as exc:
            raise _unwritable(self.folder, exc) from exc


@dataclass(frozen=True, slots=True)
class SliceReference:
    """A slice whose bytes are spilled."""

    order: int
    data: Spilled
    index: Spilled
    file: str

    def slice(self) -> Slice:
        """The slice, in the task. Raises ``OSError`` when its file is gone: then the batch has ended."""
        return Slice(self.order, fetch(self.data), fetch(self.index), self.file)


@contextmanager
def spill_store_in(folder: Path | None) -> Iterator[SpillStore]:
    """A store for one batch within ``folder``, which the tasks share; None for no folder. Raises DMError."""
    if folder is None:
        yield SpillStore()
        return
    try:
        room = tempfile.TemporaryDirectory(prefix="batch-", dir=folder, ignore_cleanup_errors=True)
    except OSError as exc:
        raise _unwritable(str(folder), exc) from exc
    with room as path:
        yield SpillStore(path)


def spill_slices(slices: Sequence[Slice], store: SpillStore) -> list[SliceReference]:
    """References to the slices, whose bytes are spilled. Raises DMError."""
    return _references(slices, store.keep(_pieces(slices)))


def written_slices(slices: Sequence[Slice], folder: str) -> list[SliceReference]:
    """References to the slices, whose bytes are in one file of the folder. Raises ``OSError``."""
    return _references(slices, written(_pieces(slices), folder))


def _pieces(slices: Iterable[Slice]) -> list[bytes]:
    return [piece for part in slices for piece in (part.data, part.index)]


def _references(slices: Iterable[Slice], kept: Iterable[Spilled]) -> list[SliceReference]:
    left = iter(kept)
    return [SliceReference(part.order, next(left), next(left), part.file) for part in slices]


def fetch(content: Spilled) -> bytes:
    """The spilled bytes. Raises ``OSError`` when their file is missing or truncated."""
    if isinstance(content, bytes):
        return content
    with open(content.path, "rb", buffering=0) as source:
        source.seek(content.offset)
        data = source.read(content.size)
        # The system reads at most 2 GiB at a time.
        while data and len(data) < content.size and (more := source.read(content.size - len(data))):
            data += more
    if len(data) != content.size:
        raise OSError(f"{content.path} has only {len(data)} of {content.size} bytes from {content.offset} on")
    return data


def fetch_result(content: Spilled) -> bytes:
    """What a task has kept, in the driver. Raises DMError."""
    try:
        return fetch(content)
    except OSError as exc:
        raise errors.new(
            Code.SyncerUnitPanic,
            f"cannot read a task's result in the worker's temporary folder: {exc}",
            raw=exc,
            workaround="Check that nothing removes files in the worker's TMPDIR; then resume the task.",
            retryable=True,
        ) from exc


def _unwritable(folder: str, exc: OSError) -> errors.DMError:
    return errors.new(
        Code.SyncerUnitPanic,
        f"cannot store a batch in the worker's temporary folder {folder}: {exc}",
        raw=exc,
        workaround="Free space there, or start the worker with another TMPDIR; then resume the task.",
        retryable=True,
    )
