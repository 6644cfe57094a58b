"""The full copy of a task that DM began: whether it is complete, or must be refused."""

from __future__ import annotations

from contextlib import closing

import pymysql

from pkg.config.model import SubTaskConfig
from pkg.mysql.connection import classify, connect
from pkg.process.log import get_logger
from pkg.task_meta.dm_progress import DMProgress, copy_obstacle, read_progress

log = get_logger("load")

#: Modes that replicate after a full copy.
_REPLICATING = ("all", "load&sync")


def has_replicated(cfg: SubTaskConfig) -> bool:
    """Whether a checkpoint of the replication exists, so that the full copy before it is complete. Raises DMError."""
    if cfg.task_mode not in _REPLICATING:
        return False
    found = _progress(cfg).checkpoint
    if found is not None:
        log.info(
            "the full copy is done: there is a checkpoint of the replication after it", task=cfg.name,
            source=cfg.source_id, checkpoint=str(found),
        )  # fmt: skip
    return found is not None


def refuse_unfinished(cfg: SubTaskConfig) -> None:
    """Raises 34018 for a copy that DM began and this program can't continue."""
    error = copy_obstacle(_progress(cfg), cfg.name, cfg.source_id)
    if error is not None:
        raise error


def _progress(cfg: SubTaskConfig) -> DMProgress:
    with closing(connect(cfg.to, scope="downstream")) as conn:
        try:
            return read_progress(conn, cfg.meta_schema, cfg.name, cfg.source_id)
        except pymysql.Error as exc:
            raise classify(exc, scope="downstream", table=f"the meta tables of {cfg.name}") from exc
