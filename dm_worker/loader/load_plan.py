"""The files of a load, their distribution to tasks, and the tasks' parameters. No I/O except for listing the folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dm_worker.dumper.file_names import METADATA, DumpFile, parse
from dm_worker.loader.load_task import FileSpec, LoadSpec
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.config.target_session import writing_session
from pkg.errors import Code
from pkg.rules.value_loss import ALLOW

#: Fewer bytes than this do not justify another task.
MIN_TASK_BYTES = 1 << 20
#: The target must accept every value of an upstream, and refuse a value that does not fit rather than change it.
SESSION = {
    "time_zone": "+00:00",
    "sql_mode": "STRICT_TRANS_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO",
}
#: Settings that a session cannot change.
FIXED_SESSION = {"foreign_key_checks": "0", "default_storage_engine": "InnoDB"}
_COMPRESSED = (".gz", ".zst", ".snappy", ".lz4", ".bz2", ".xz")


@dataclass(frozen=True, slots=True)
class DumpListing:
    """The files of a dump folder by kind, with their bytes."""

    databases: tuple[DumpFile, ...]
    tables: tuple[DumpFile, ...]
    data: tuple[DumpFile, ...]
    sizes: Mapping[str, int]
    dump_id: str


def list_dump(folder: Path) -> DumpListing:
    """Raises DMError 34014 without the folder, 34002 for files that cannot be loaded."""
    if not folder.is_dir():
        raise errors.new(
            Code.LoadUnitDumpDirNotFound,
            f"the dump's folder {folder} does not exist",
            workaround="Set `dir` of loaders to the folder of the dump on this worker, or start the task on the worker"
            " that has it.",
        )
    kinds: dict[str, list[DumpFile]] = {"database": [], "table": [], "data": [], "ignored": []}
    sizes: dict[str, int] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_file():
            continue
        file = parse(path.name)
        if file is not None:
            kinds[file.kind].append(file)
            sizes[path.name] = path.stat().st_size
        elif path.name.endswith((".sql", *_COMPRESSED, ".csv", ".parquet")):
            raise errors.new(
                Code.LoadUnitInvalidFileEnding,
                f"{path} is not a file that can be loaded",
                workaround="Data files are named db.table.sql or db.table.N.sql and are not compressed.",
            )
    return DumpListing(
        tuple(kinds["database"]), tuple(kinds["table"]), tuple(kinds["data"]), sizes, _identify(folder, sizes)
    )


def _identify(folder: Path, sizes: Mapping[str, int]) -> str:
    digest = hashlib.sha256()
    metadata = folder / METADATA
    if metadata.exists():
        digest.update(metadata.read_bytes())
    digest.update(repr(sorted(sizes.items())).encode())
    return digest.hexdigest()[:32]


def check_complete(listing: DumpListing, expected: Mapping[str, int], folder: Path) -> None:
    """Raises DMError 34018 when a file of our own dump is missing or its size has changed since it was written."""
    wrong = [name for name, size in expected.items() if listing.sizes.get(name) != size]
    if wrong:
        raise errors.new(
            Code.LoadTaskCheckPointNotMatch,
            f"the dump in {folder} is damaged: these files are missing or changed: {', '.join(sorted(wrong)[:5])}",
            workaround="Restore the files, or stop the task and start it with --remove-meta to copy again.",
        )


def file_specs(listing: DumpListing, route: Callable[[str, str], tuple[str, str]]) -> list[FileSpec]:
    return [
        FileSpec(file.name, listing.sizes[file.name], file.schema, file.table, *route(file.schema, file.table))
        for file in listing.data
    ]


def load_session(cfg: SubTaskConfig) -> dict[str, str]:
    """The variables of a load's sessions. The rows are consistent as a whole, and files are loaded in any order."""
    return {**writing_session(SESSION, dict(cfg.to.session)), **FIXED_SESSION}


def load_spec(
    cfg: SubTaskConfig, *, table: str, epoch: int, folder: Path, transaction_bytes: int, retry_seconds: float
) -> LoadSpec:
    """The parameters of a load's tasks."""
    return LoadSpec(
        cfg.to,
        load_session(cfg),
        table,
        cfg.source_id,
        epoch,
        cfg.loader.on_duplicate_logical,
        str(folder.absolute()),
        transaction_bytes,
        retry_seconds,
        cfg.flavor,
        cfg.lossy_conversions == ALLOW,
    )


def share_out(files: Iterable[FileSpec], left: Mapping[str, int], tasks: int) -> list[list[FileSpec]]:
    """Assigns each unfinished file to one of at most ``tasks`` tasks, with about the same bytes each.

    ``left`` maps the unfinished files to their remaining bytes. A table's files stay together: writers of one table
    wait for each other at the target (:mod:`turns`), so they should be few, and other tasks have other tables.
    """
    pending = sorted((file for file in files if file.name in left), key=lambda file: (file.target, file.name))
    total = sum(left[file.name] for file in pending)
    count = max(1, min(tasks, len(pending), 1 + total // MIN_TASK_BYTES))
    shares: list[list[FileSpec]] = []
    for tasks_left in range(count, 0, -1):
        taken, size = 0, 0
        # The border is where it is nearest to an even share of the rest.
        while taken < len(pending) and (not taken or (size + left[pending[taken].name] / 2) * tasks_left <= total):
            size += left[pending[taken].name]
            taken += 1
        shares.append(pending[:taken])
        pending, total = pending[taken:], total - size
    return [share for share in shares if share]


def unique_targets(files: Sequence[DumpFile], route: Callable[[DumpFile], tuple[str, str]]) -> list[DumpFile]:
    """One file for each target: the first shard's structure counts for merged shards."""
    chosen: dict[tuple[str, str], DumpFile] = {}
    for file in files:
        chosen.setdefault(route(file), file)
    return list(chosen.values())
