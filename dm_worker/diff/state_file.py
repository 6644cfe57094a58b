"""A file of the worker with the state of a comparison without a task, so that the servers are only read.

Each line is one change, as a row of :mod:`state_table` would have it; without a detail the row is forgotten. The first
line identifies what is compared. A line that a crash or a full disk left half written is cut off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from dm_worker.diff.progress import ChunkWork, ComparedChunk, DiffProgress, TableProgress
from dm_worker.diff.state_table import NO_TABLE, WHOLE_TABLE, DiffRecord, restored, table_detail
from pkg import errors
from pkg.errors import Code
from pkg.mysql.names import TableId


class DiffStateFile:
    """``identity`` changes with the servers, rules and settings: the state of another comparison is not continued.

    Raises 43106 where the file can't be written. See :class:`dm_worker.diff.run.StateKeeper`.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self._path = path
        self._identity = identity

    def read(self) -> tuple[DiffRecord, DiffProgress] | None:
        """The stored comparison; None if the file has none of this identity."""
        try:
            self._cut()
            whole = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise _failed(self._path, exc) from exc
        first, *lines = whole.splitlines() or [b"null"]
        if json.loads(first) != self._identity:
            return None
        rows: dict[tuple[str, TableId, int], dict[str, object]] = {}
        for line in lines:
            run, schema, table, number, detail = json.loads(line)
            row = (run, (schema, table), number)
            if detail is None:
                rows.pop(row, None)
            else:
                rows[row] = detail
        return restored([(*row, detail) for row, detail in rows.items()])

    def replace(self, record: DiffRecord) -> None:
        """Replaces an earlier comparison by a new one."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as exc:
            raise _failed(self._path, exc) from exc
        self._write(json.dumps(self._identity).encode() + b"\n" + _line(record.run, NO_TABLE, WHOLE_TABLE,
                                                                      asdict(record)), "wb")  # fmt: skip

    def note(self, record: DiffRecord) -> None:
        self._append(record.run, NO_TABLE, WHOLE_TABLE, asdict(record))

    def note_table(self, run: str, table: TableProgress) -> None:
        self._append(run, table.target, WHOLE_TABLE, table_detail(table))

    def note_chunk(self, run: str, target: TableId, number: int, chunk: ComparedChunk) -> None:
        self._append(run, target, number, chunk.to_data())

    def forget_chunks(self, run: str, chunks: Iterable[ChunkWork]) -> None:
        for chunk in chunks:
            self._append(run, chunk.target, chunk.number, None)

    def _append(self, run: str, target: TableId, number: int, detail: object) -> None:
        try:
            self._cut()
        except OSError as exc:
            raise _failed(self._path, exc) from exc
        self._write(_line(run, target, number, detail), "ab")

    def _cut(self) -> None:
        """Cuts off a line without its end. Raises ``OSError``."""
        with self._path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if file.read(1) in (b"", b"\n"):
                return
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)

    def _write(self, data: bytes, mode: str) -> None:
        flags = os.O_CREAT | os.O_WRONLY | (os.O_APPEND if mode == "ab" else os.O_TRUNC)
        try:
            with open(os.open(self._path, flags, 0o600), mode) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as exc:
            raise _failed(self._path, exc) from exc


def _line(run: str, target: TableId, number: int, detail: object) -> bytes:
    return json.dumps([run, *target, number, detail]).encode() + b"\n"


def _failed(path: Path, exc: OSError) -> errors.DMError:
    return errors.new(
        Code.DiffFiles,
        f"cannot read or write the comparison's state {path}: {exc}",
        raw=exc,
        workaround="Check that the folder is writable and has space; the comparison continues by itself.",
        retryable=True,
    )
