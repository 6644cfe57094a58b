"""The files of a comparison: every difference as a line of JSON, and the statements that repair the target.

Only the worker's thread writes them, one chunk after the other. Where a chunk's lines end is stored with its result, so
that a restart cuts off what a crash left half written (:meth:`DifferenceFiles.resume`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import TablePair
from dm_worker.diff.repairs import in_order, repair
from dm_worker.diff.spans import readable
from dm_worker.syncer.rows.row_matching import RowMatch
from pkg import errors
from pkg.errors import Code, DMError

#: The session in which the statements mean what the comparison read.
_HEAD = (
    b"SET NAMES utf8mb4;\n"
    b"SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0;\n"
)
_REDACTED = "?"


class DifferenceFiles:
    """``folder`` belongs to one comparison of one source. ``redact``: no values but keys; then no statements either."""

    def __init__(self, folder: Path, *, redact: bool) -> None:
        self._folder = folder
        self._redact = redact
        self.differences = folder / "differences.jsonl"
        self.repairs = folder / "repairs.sql"

    def resume(self, ends: Sequence[tuple[int, int]]) -> bool:
        """Prepares to append behind what is recorded; False, with empty files, where that is not there any more."""
        last = (max((end for end, _ in ends), default=0), max((end for _, end in ends), default=0))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            there = all(_size(path) >= end for path, end in zip(self._paths, last, strict=True))
            for path, end in zip(self._paths, last if there else (0, 0), strict=True):
                descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
                try:
                    os.ftruncate(descriptor, end)
                finally:
                    os.close(descriptor)
            return there
        except OSError as exc:
            raise self._failed(exc) from exc

    @property
    def _paths(self) -> tuple[Path, Path]:
        return self.differences, self.repairs

    def append(self, pair: TablePair, matches: RowMatch, found: Sequence[Difference]) -> tuple[int, int]:
        """Writes the differences of a chunk durably; returns where both files end."""
        try:
            with self.differences.open("ab") as lines, self.repairs.open("ab") as statements:
                if not self._redact and statements.tell() == 0:
                    statements.write(_HEAD)
                for one in found:
                    lines.write(json.dumps(described(pair, one, redact=self._redact)).encode() + b"\n")
                for one in () if self._redact else in_order(found):
                    statements.writelines(statement + b";\n" for statement in repair(pair, matches, one))
                for file in (lines, statements):
                    file.flush()
                    os.fsync(file.fileno())
                return lines.tell(), statements.tell()
        except OSError as exc:
            raise self._failed(exc) from exc

    def _failed(self, exc: OSError) -> DMError:
        return errors.new(
            Code.DiffFiles,
            f"cannot write the differences to {self._folder}: {exc}",
            raw=exc,
            workaround="Check that the folder is writable and has space; the comparison continues by itself.",
            retryable=True,
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def described(pair: TablePair, one: Difference, *, redact: bool) -> dict[str, object]:
    """A difference as the file has it. Redacted: without the values of columns that are not of the key."""
    names = [column.name for column in pair.columns]
    hidden = set(names) - set(pair.key_names) if redact else set()

    def row(values: Sequence[bytes] | None) -> dict[str, str] | None:
        if values is None:
            return None
        return {
            name: _REDACTED if name in hidden else readable(value) for name, value in zip(names, values, strict=True)
        }

    source = pair.sources[one.source].qualified if one.source >= 0 else ""
    shown: dict[str, object] = {
        "table": pair.target.qualified,
        "source": source,
        "kind": one.kind.value,
        "key": {name: readable(value) for name, value in zip(pair.key_names, one.key, strict=True)},
        "columns": list(one.columns),
        "upstream": row(one.upstream),
        "target": row(one.target),
    }
    if one.kind is DifferenceKind.DOUBLED:
        shown["counts"] = {"upstream": one.counts[0], "target": one.counts[1]}
    return shown
