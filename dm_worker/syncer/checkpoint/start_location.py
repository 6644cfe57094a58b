"""Where a subtask without a checkpoint begins, and which of the dump's files contain table structures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dm_worker.dumper.file_names import parse, table_file
from dm_worker.dumper.metadata import dump_dir, read_dump_metadata
from dm_worker.meta.load_progress import stored_state
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import Code

FULL_MODES = ("all", "full", "load&sync")


def start_location(cfg: SubTaskConfig) -> tuple[Location, Location | None]:
    """The start location, and where safe mode ends when the copy before it was not at one point in time.

    Raises DMError when neither the full copy nor the task's ``meta`` has a location.
    """
    if cfg.task_mode in FULL_MODES:
        return _after_copy(cfg)
    if cfg.meta is None:
        raise errors.new(
            Code.ConfigMetaInvalid,
            f"task {cfg.name} has neither a checkpoint for source {cfg.source_id} nor a `meta` position to start from",
            workaround="In the task file, give mysql-instances[].meta with binlog-name and binlog-pos (for a source "
            f"with enable-gtid: binlog-gtid); then `dmctl stop-task {cfg.name}` and start-task with the file.",
        )
    location = Location(Position(cfg.meta.binlog_name, cfg.meta.binlog_pos or 4), cfg.meta.binlog_gtid)
    return location.of_upstream(), None


def _after_copy(cfg: SubTaskConfig) -> tuple[Location, Location | None]:
    state = stored_state(cfg)
    if state is not None and not state.finished:
        raise errors.new(
            Code.LoadTaskCheckPointNotMatch,
            f"replication of source {cfg.source_id} has no checkpoint, and the full copy before it is not "
            "finished: the target went back to a state during the copy",
            scope="downstream",
            workaround=f"`dmctl stop-task {cfg.name}` and start-task: the copy continues from the target's state. If "
            "its files have been removed (clean-dump-file), empty the target tables and start with "
            "--remove-meta.",
        )
    if state is not None and state.location is not None:
        return state.location, state.exit_location
    metadata = read_dump_metadata(dump_dir(cfg))
    if metadata.location is None:
        raise errors.new(
            Code.MetadataNoBinlogLoc,
            f"the dump in {dump_dir(cfg)} has no binlog position to start replication from",
            workaround="Dump again with a consistency other than none and with the binlog on.",
        )
    return metadata.location, metadata.exit_location


def dump_schema_files(cfg: SubTaskConfig) -> Callable[[str, str], Path | None]:
    """Finds the schema file of a table in the dump's folder; None where there is none."""
    folder = dump_dir(cfg) if cfg.task_mode in FULL_MODES else None

    def find(schema: str, table: str) -> Path | None:
        if folder is None:
            return None
        path = folder / table_file(schema, table)
        return path if path.is_file() else None

    return find


def dumped_tables(cfg: SubTaskConfig) -> set[tuple[str, str]]:
    """The tables whose structures are in the dump's folder; none for a task without a full copy."""
    folder = dump_dir(cfg) if cfg.task_mode in FULL_MODES else None
    if folder is None or not folder.is_dir():
        return set()
    found = (parse(path.name) for path in folder.iterdir())
    return {(file.schema, file.table) for file in found if file is not None and file.kind == "table"}
