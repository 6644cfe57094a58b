"""Writes the SQL files of one chunk: INSERT statements and files bounded in bytes."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from dm_worker.dumper.files import FILES_PER_CHUNK, data_file
from dm_worker.dumper.literals import RowRenderer, Value
from pkg import errors

HEADER = b"/*!40101 SET NAMES utf8mb4*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\n"
#: A literal takes at most this many times its text's bytes (hex), so batches of a fraction of a statement stay below it.
_FRACTION = 4


class ChunkWriter:
    """Collects rendered rows into statements and statements into files.

    ``sizes`` maps the names of the written files to their bytes. A single row above the bounds is written whole.
    """

    def __init__(
        self,
        folder: Path,
        schema: str,
        table: str,
        chunk: int,
        head: bytes,
        renderer: RowRenderer,
        *,
        limits: tuple[int, int],
    ) -> None:
        self.sizes: dict[str, int] = {}
        self._folder, self._schema, self._table = folder, schema, table
        self._number = chunk * FILES_PER_CHUNK
        self._last_number = self._number + FILES_PER_CHUNK - 1
        self._head = head
        self._renderer = renderer
        self._statement_size, self._file_size = limits
        self._rows: list[bytes] = []
        self._pending = 0
        self._file: BinaryIO | None = None
        self._name = ""

    def add(self, values: list[Value], rows: int, size: int) -> None:
        """Adds ``rows`` rows of ``size`` bytes of text, lying one after the other in ``values``."""
        step = max(1, rows * self._statement_size // (_FRACTION * max(size, 1)))
        if step >= rows:
            self._add(self._renderer.render(values, rows))
            return
        width = len(values) // rows
        for start in range(0, rows, step):
            part = values[start * width : (start + step) * width]
            self._add(self._renderer.render(part, len(part) // width))

    def close(self) -> None:
        """Ends the last statement and file."""
        self._end_statement()
        self._end_file()

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()

    def _add(self, text: bytes) -> None:
        if self._rows and len(self._head) + self._pending + len(text) + 2 > self._statement_size:
            self._end_statement()
        self._rows.append(text)
        self._pending += len(text) + 2

    def _end_statement(self) -> None:
        if not self._rows:
            return
        statement = self._head + b",\n".join(self._rows) + b";\n"
        self._rows, self._pending = [], 0
        if self._file is not None and self.sizes[self._name] + len(statement) > self._file_size:
            self._end_file()
        if self._file is None:
            self._begin_file()
        assert self._file is not None
        self._file.write(statement)
        self.sizes[self._name] += len(statement)

    def _begin_file(self) -> None:
        if self._number > self._last_number:
            raise errors.new(
                "DumpUnitRuntime",
                f"a part of {self._schema}.{self._table} needs more than {FILES_PER_CHUNK} files",
                workaround="Set a larger chunk-filesize.",
            )
        self._name = data_file(self._schema, self._table, self._number)
        self._number += 1
        self._file = (self._folder / self._name).open("wb", buffering=0)
        self._file.write(HEADER)
        self.sizes[self._name] = len(HEADER)

    def _end_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
