"""``--remove-meta``: forgets what a task kept in its target, so that it starts from the beginning."""

from __future__ import annotations

import contextlib

from pkg.config.model import TaskConfig
from pkg.meta_tables import meta_tables
from pkg.mysql.connection import classify, connect
from pkg.mysql.names import qualified
from pkg.process.log import get_logger

log = get_logger("service")


def remove_meta(task: TaskConfig) -> None:
    """Drops the task's tables in the target's meta schema. Raises the target's ``DMError``."""
    with contextlib.closing(connect(task.target, scope="downstream")) as connection, connection.cursor() as cursor:
        for table in meta_tables(task.name):
            statement = f"DROP TABLE IF EXISTS {qualified(task.meta_schema, table)}"
            try:
                cursor.execute(statement)
            except Exception as exc:
                raise classify(exc, scope="downstream", statement=statement) from exc
    log.info("removed the task's metadata", task=task.name, schema=task.meta_schema)
