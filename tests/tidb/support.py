"""A migration of a whole upstream into TiDB: full copy, then replication."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.local.mysql import SQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import LoaderConfig
from tests.harness.full_copy import dump, load
from tests.integration.syncer.support import Running, running, subtask


@contextmanager
def migrating(
    upstream: SQLServer, tidb: TiDBServer, spark: SparkEngine, folder: Path, **changes: Any
) -> Iterator[Running]:
    """All that ``upstream`` has is copied; it is replicated while the block runs. ``changes``: of the configuration."""
    cfg = subtask(upstream, tidb, task_mode="all", meta=None, loader=LoaderConfig(dir=str(folder / "dump")))
    cfg = replace(cfg, **changes)
    dump(cfg, spark)
    load(cfg, spark)
    with running(cfg, spark) as run:
        yield run
