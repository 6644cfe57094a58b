"""The dump's folder: its work area while tasks write, its manifest once it is complete."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dm_worker.dumper.dump_task import DONE, PROGRESS, STOP_FILE
from dm_worker.dumper.file_names import MANIFEST, METADATA
from dm_worker.dumper.folder_owner import OWNER_FILE
from dm_worker.dumper.metadata import DumpMetadata, write_metadata
from dm_worker.meta.stored_text import stored_text
from pkg.config.model import SubTaskConfig
from pkg.process.log import get_logger

log = get_logger("dumper")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a complete dump; ``fingerprint`` identifies the configuration that made it, ``token`` the dump.
    ``otherwise``: generated columns (schema, table, column) with values that a session in UTC does not compute."""

    fingerprint: str
    tables: int
    rows: int
    files: Mapping[str, int]
    otherwise: Sequence[tuple[str, str, str]] = ()
    token: str = ""

    @property
    def size(self) -> int:
        return sum(self.files.values())


def fingerprint(cfg: SubTaskConfig) -> str:
    """Changes when a dump of ``cfg`` would contain other rows or files."""
    source = replace(cfg.from_, password="", session=(), security=None)
    strict = ("strict",) if cfg.collation_compatible == "strict" else ()
    parts = (cfg.name, cfg.source_id, source, cfg.block_allow_list, cfg.case_sensitive, cfg.mydumper, *strict)
    return hashlib.sha256(stored_text(parts).encode()).hexdigest()[:32]


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a complete dump of a worker; None when the dump is unfinished or another tool's."""
    if not (folder / METADATA).exists():
        return None
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        otherwise = tuple((schema, table, column) for schema, table, column in data.get("otherwise", ()))
        token = data.get("token", "")
        return Manifest(data["fingerprint"], data["tables"], data["rows"], data["files"], otherwise, token)
    except (OSError, ValueError, KeyError, TypeError):
        return None


class DumpWorkFolder:
    """``<dump folder>/.work-<token>``: where one attempt writes. Late writers of an ended attempt find it removed."""

    def __init__(self, folder: Path, token: str) -> None:
        self._folder = folder
        self.path = folder / f".work-{token}"

    def create(self) -> None:
        """Empties the dump's folder: a dump never continues an older one, whose snapshot is gone.

        The folder must have been claimed before; the claim stays.
        """
        old = sorted(path for path in self._folder.iterdir() if path.name != OWNER_FILE)
        if old:
            log.info(
                "a new dump begins; the files of an earlier one are removed from its folder",
                folder=self._folder,
                entries=len(old),
                first=old[0].name,
            )
        for path in old:
            if path.is_dir() and not path.is_symlink():
                # Renamed first: late writers would add files during the removal.
                gone = path.rename(path.with_name(f".gone-{path.name}"))
                shutil.rmtree(gone)
            else:
                path.unlink()
        self.path.mkdir()

    def request_stop(self) -> None:
        # Without a folder the attempt has ended.
        with contextlib.suppress(FileNotFoundError):
            (self.path / STOP_FILE).touch()

    def progress(self) -> tuple[int, int, set[int]]:
        """Rows and bytes so far, and the numbers of the finished chunks, over all tasks."""
        rows = size = 0
        done: set[int] = set()
        for path in self.path.glob("progress.*"):
            record = path.read_bytes()
            if len(record) == PROGRESS.size:
                task_rows, task_size = PROGRESS.unpack(record)
                rows, size = rows + task_rows, size + task_size
        for path in self.path.glob("done.*"):
            record = path.read_bytes()
            done.update(number for (number,) in DONE.iter_unpack(record[: len(record) // DONE.size * DONE.size]))
        return rows, size, done

    def publish(self, manifest: Manifest, metadata: DumpMetadata) -> None:
        """Moves the files into the dump's folder; the metadata comes last and makes the dump complete."""
        for name in manifest.files:
            (self.path / name).rename(self._folder / name)
        data = {
            "fingerprint": manifest.fingerprint,
            "tables": manifest.tables,
            "rows": manifest.rows,
            "files": dict(manifest.files),
            "otherwise": list(manifest.otherwise),
            "token": manifest.token,
        }
        with (self._folder / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        write_metadata(self._folder, metadata)
        shutil.rmtree(self.path, ignore_errors=True)
