"""How slices reach the tasks: in a file where driver and tasks share a machine, otherwise within Spark's partitions.

Through Spark the bytes are copied half a dozen times, and the JVM's heap holds some of the copies. A file is written
and read once, mostly without ever reaching the disk: it is gone with its batch.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dm_worker.syncer.batch import Slice
from pkg import errors


@dataclass(frozen=True, slots=True)
class Parcel:
    """A slice that waits in ``path``: ``data`` bytes from ``offset`` on, and behind them ``index`` bytes."""

    path: str
    offset: int
    data: int
    index: int
    order: int
    file: str


Shipment = Slice | Parcel


@contextmanager
def shipped(slices: Sequence[Slice], folder: Path | None) -> Iterator[list[Shipment]]:
    """What to hand to Spark for ``slices``. ``folder`` is one that the tasks see, None when they see none.

    Raises DMError when the folder can't be written.
    """
    if folder is None:
        yield list(slices)
        return
    try:
        descriptor, path = tempfile.mkstemp(prefix="slices-", dir=folder)
    except OSError as exc:
        raise _unwritable(folder, exc) from exc
    try:
        with open(descriptor, "wb", buffering=0) as out:
            yield _written(slices, out.fileno(), path, folder)
    finally:
        os.unlink(path)


def _written(slices: Sequence[Slice], descriptor: int, path: str, folder: Path) -> list[Shipment]:
    parcels: list[Shipment] = []
    offset = 0
    for part in slices:
        parcels.append(Parcel(path, offset, len(part.data), len(part.index), part.order, part.file))
        for piece in (part.data, part.index):
            try:
                _write(descriptor, piece)
            except OSError as exc:
                raise _unwritable(folder, exc) from exc
            offset += len(piece)
    return parcels


def _write(descriptor: int, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _unwritable(folder: Path, exc: OSError) -> errors.DMError:
    return errors.new(
        "SyncerUnitPanic",
        f"cannot write a batch to the worker's temporary folder {folder}: {exc}",
        raw=exc,
        workaround="Free space there, or start the worker with another TMPDIR; then resume the task.",
        retryable=True,
    )


def opened(shipment: Shipment) -> Slice:
    """The slice, in the task. Raises ``OSError`` when its file is gone: the driver that asked for it is, too."""
    if isinstance(shipment, Slice):
        return shipment
    descriptor = os.open(shipment.path, os.O_RDONLY)
    try:
        data = _read(descriptor, shipment.data, shipment.offset)
        index = _read(descriptor, shipment.index, shipment.offset + shipment.data)
    finally:
        os.close(descriptor)
    return Slice(shipment.order, data, index, shipment.file)


def _read(descriptor: int, size: int, offset: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    if len(data) == size:
        return data
    # The system reads at most 2 GiB at a time.
    pieces = [data]
    while pieces[-1]:
        got = sum(map(len, pieces))
        pieces.append(os.pread(descriptor, size - got, offset + got))
    data = b"".join(pieces)
    if len(data) != size:
        raise OSError(f"only {len(data)} of {size} bytes are there")
    return data
