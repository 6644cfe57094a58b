"""Which files of a running dump are complete."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection

from dm_worker.dumper.early_rows import RunningDump
from dm_worker.dumper.file_names import FILES_PER_CHUNK, parse
from pkg.mysql.names import TableId

#: The end of the dump waits for files that are being loaded.
_MOST_BYTES = 128 << 20


class CompleteFiles:
    """The data files of ``tables``, each given once.

    A file is complete when its chunk is, or when a later file of the chunk exists: a task writes one at a time.
    """

    def __init__(self, dump: RunningDump, tables: Collection[TableId]) -> None:
        self._dump = dump
        self._tables = frozenset(tables)
        self._taken: set[str] = set()

    def take(self, most: int) -> dict[TableId, dict[str, int]]:
        """Complete files that were not taken yet, with their bytes; about ``most`` bytes in all."""
        _, _, done = self._dump.work.progress()
        ended = {(chunk.schema, chunk.table, chunk.number) for chunk in (self._dump.chunks[i] for i in done)}
        chunks: dict[tuple[str, str, int], list[str]] = defaultdict(list)
        for name in sorted(os.listdir(self._dump.work.path)):
            file = parse(name)
            if file is not None and file.kind == "data" and (file.schema, file.table) in self._tables:
                number = int(name.split(".")[-2])
                chunks[file.schema, file.table, number // FILES_PER_CHUNK].append(name)
        found: dict[TableId, dict[str, int]] = defaultdict(dict)
        total = 0
        for (schema, table, number), names in chunks.items():
            complete = names if (schema, table, number) in ended else names[:-1]
            for name in complete:
                if total >= most or name in self._taken:
                    continue
                self._taken.add(name)
                size = (self._dump.work.path / name).stat().st_size
                if size <= _MOST_BYTES:
                    found[schema, table][name] = size
                    total += size
        return dict(found)
