"""Shared by the full-copy tests: configurations, and the comparison of upstream and target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.local.mysql import SQLServer
from dm_worker.dumper import DumpUnit
from dm_worker.dumper.metadata import dump_dir, read_dump_metadata
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from pkg.binlog.position import Location
from pkg.config.model import LoaderConfig, MydumperConfig, SubTaskConfig, TaskMode


def config(
    upstream: SQLServer,
    target: SQLServer,
    folder: Path,
    *,
    mode: TaskMode = "all",
    threads: int = 3,
    extra_args: str = "",
    rows: int = 0,
    pool_size: int = 3,
    on_duplicate: str = "",
    **changes: Any,
) -> SubTaskConfig:
    cfg = SubTaskConfig(
        name="copy",
        source_id="source-1",
        task_mode=mode,
        from_=upstream.db_config,
        to=target.db_config,
        flavor=upstream.flavor,
        mydumper=MydumperConfig(threads=threads, rows=rows, extra_args=extra_args),
        loader=LoaderConfig(pool_size=pool_size, dir=str(folder / "dump"), on_duplicate_logical=on_duplicate),
    )
    return replace(cfg, **changes)


def dump(cfg: SubTaskConfig, engine: SparkEngine) -> DumpUnit:
    unit = DumpUnit(cfg, engine)
    outcome = unit.run()
    assert outcome.finished, [str(error) for error in outcome.errors]
    return unit


def load(cfg: SubTaskConfig, engine: SparkEngine) -> LoadUnit:
    unit = LoadUnit(cfg, engine)
    outcome = unit.run()
    assert outcome.finished, [str(error) for error in outcome.errors]
    return unit


def contents(server: SQLServer, table: str) -> list[tuple[Any, ...]]:
    """Every row of ``table``, with the values that the driver reads, in a fixed order."""
    schema, name = table.split(".")
    columns = server.execute(
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{name}' ORDER BY ORDINAL_POSITION"
    )
    # A FLOAT's text loses bits; a double shows all of them.
    fields = ", ".join(f"`{column}`*1e0" if kind == "float" else f"`{column}`" for column, kind in columns)
    return sorted(server.execute("SET time_zone='+00:00'", f"SELECT {fields} FROM {table}"), key=repr)


def snapshot_location(cfg: SubTaskConfig) -> Location:
    """The binlog location of the dump's snapshot."""
    location = read_dump_metadata(dump_dir(cfg)).location
    assert location is not None
    return location
