"""Writes the SQL files: the content of a schema file, and the files of one chunk, limited in bytes."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from dm_worker.dumper.file_names import FILES_PER_CHUNK, data_file
from pkg import errors
from pkg.ddl import parse, with_collations
from pkg.errors import Code
from pkg.schema_tracker import ServerDefaults

HEADER = b"/*!40101 SET NAMES utf8mb4*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\n"


def schema_text(created: str, schema: str, collations_of: ServerDefaults | None) -> bytes:
    """The content of the schema file for the SHOW CREATE of a table in ``schema``, or of the schema itself.

    ``collations_of``: that server's default collations are written explicitly. Then raises 36067 for SQL that is not
    understood.
    """
    if collations_of is not None:
        server = collations_of
        parsed = parse(created, default_schema=schema, flavor=server.flavor, version=server.version)
        created = with_collations(parsed, server.default_collation)
    return HEADER.splitlines(keepends=True)[0] + f"{created};\n".encode()


class ChunkWriter:
    """Writes statements into files. ``sizes`` maps the names of the written files to their bytes.

    A file ends before the statement that would exceed ``file_size``. A statement above ``statement_size`` (a single
    row) counts only with that size: its length is unknown when its first piece is written.
    """

    def __init__(
        self, folder: Path, schema: str, table: str, chunk: int, *, statement_size: int, file_size: int
    ) -> None:
        self.sizes: dict[str, int] = {}
        self._folder, self._schema, self._table = folder, schema, table
        self._number = chunk * FILES_PER_CHUNK
        self._last_number = self._number + FILES_PER_CHUNK - 1
        self._statement_size, self._file_size = statement_size, file_size
        self._file: BinaryIO | None = None
        self._name = ""

    def write(self, starts: bool, text: bytes) -> None:
        """Appends a piece of a statement; ``starts`` when it is the first."""
        if starts and self._file is not None:
            size = self.sizes[self._name] + min(len(text), self._statement_size)
            if size > self._file_size:
                self.close()
        if self._file is None:
            self._file = self._begin_file()
        self._file.write(text)
        self.sizes[self._name] += len(text)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_file(self) -> BinaryIO:
        if self._number > self._last_number:
            raise errors.new(
                Code.DumpUnitRuntime,
                f"a part of {self._schema}.{self._table} needs more than {FILES_PER_CHUNK} files",
                workaround="Set a larger chunk-filesize.",
            )
        self._name = data_file(self._schema, self._table, self._number)
        self._number += 1
        file = (self._folder / self._name).open("wb")
        file.write(HEADER)
        self.sizes[self._name] = len(HEADER)
        return file
