"""DM's meta tables in a target, created and filled as DM does."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from deploy.local.mysql import SQLServer
from pkg.binlog.position import Location

_MODELS = Path(__file__).with_name("tidb_models.jsonl")
_TIMES = (
    "create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
    " update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
)
_EXIT_SAFE = (
    " exit_safe_binlog_name VARCHAR(128) DEFAULT '', exit_safe_binlog_pos INT UNSIGNED DEFAULT 0,"
    " exit_safe_binlog_gtid TEXT,"
)
#: Fields that only TiDB's newer versions write.
_LATE = frozenset(
    {
        "ElemsIsBinaryLit", "Array", "mv_index", "is_global", "vector_index", "inverted_index", "full_text_index",
        "backfill_state", "ref_schema", "constraint_info", "cache_table_status", "policy_ref_info", "stats_options",
        "exchange_partition_info", "ttl_info", "revision", "is_columnar", "temp_table_type", "hidden",
    }
)  # fmt: skip


@cache
def models() -> dict[str, tuple[list[str], str]]:
    """By name: the statements that created ``d.t``, and its structure as TiDB's JSON."""
    lines = [json.loads(line) for line in _MODELS.read_text(encoding="utf-8").splitlines()]
    return {line["name"]: (line["sql"], json.dumps(line["table_info"])) for line in lines}


def without_late_fields(model: Any) -> Any:
    """A structure as earlier versions of TiDB wrote it."""
    if isinstance(model, dict):
        return {key: without_late_fields(value) for key, value in model.items() if key not in _LATE}
    return [without_late_fields(one) for one in model] if isinstance(model, list) else model


class DMState:
    """The meta tables of ``task`` in ``target``, rows of ``source``."""

    def __init__(self, target: SQLServer, *, task: str = "t", source: str = "source-1") -> None:
        self._target = target
        self._task = task
        self._source = source
        target.execute("CREATE DATABASE IF NOT EXISTS dm_meta")

    def _put(self, suffix: str, **values: object) -> None:
        conn = self._target.connect(autocommit=True)
        try:
            with conn.cursor() as cursor:
                marks = ", ".join(["%s"] * len(values))
                cursor.execute(
                    f"REPLACE INTO dm_meta.`{self._task}_{suffix}` ({', '.join(values)}) VALUES ({marks})",
                    tuple(values.values()),
                )
        finally:
            conn.close()

    def make_checkpoint(self, *, gtid: str = "TEXT", exit_safe: bool = True) -> None:
        """``gtid``: the column's type, shorter before 2.0; ``exit_safe``: without its columns before 2.0."""
        self._target.execute(
            f"CREATE TABLE dm_meta.`{self._task}_syncer_checkpoint` (id VARCHAR(32) NOT NULL,"
            " cp_schema VARCHAR(128) NOT NULL, cp_table VARCHAR(128) NOT NULL, binlog_name VARCHAR(128),"
            f" binlog_pos INT UNSIGNED, binlog_gtid {gtid},{_EXIT_SAFE if exit_safe else ''} table_info JSON NOT NULL,"
            f" is_global BOOLEAN, {_TIMES}, UNIQUE KEY uk_id_schema_table (id, cp_schema, cp_table))"
        )

    def put_checkpoint(self, place: Location, exit_safe: Location | None = None, *, sub_dir: str = "") -> None:
        """Writes the global row. ``sub_dir``: the relay's, which DM puts into a file's name."""
        self._put(
            "syncer_checkpoint", id=self._source, cp_schema="", cp_table="", table_info="null", is_global=1,
            **self._place(place, sub_dir),
            **({} if exit_safe is None else {f"exit_safe_{k}": v for k, v in self._place(exit_safe, sub_dir).items()}),
        )  # fmt: skip

    def put_table(self, schema: str, table: str, place: Location, model: str) -> None:
        """Writes the row of one table; ``model`` is the name of one of :func:`models`."""
        info = models()[model][1]
        self._put(
            "syncer_checkpoint", id=self._source, cp_schema=schema, cp_table=table, table_info=info, is_global=0,
            **self._place(place, ""),
        )  # fmt: skip

    @staticmethod
    def _place(place: Location, sub_dir: str) -> dict[str, object]:
        name = place.position.name
        if sub_dir:
            base, _, number = name.rpartition(".")
            name = f"{base}|{sub_dir}.{number}"
        return {"binlog_name": name, "binlog_pos": place.position.pos, "binlog_gtid": place.gtid_set}

    def put_online_change(self, ghost: tuple[str, str], real: tuple[str, str], *statements: str) -> None:
        """Writes DM's record of a ghost table."""
        self._target.execute(
            f"CREATE TABLE IF NOT EXISTS dm_meta.`{self._task}_onlineddl` (id VARCHAR(32) NOT NULL,"
            " ghost_schema VARCHAR(128) NOT NULL, ghost_table VARCHAR(128) NOT NULL, ddls TEXT, update_time"
            " TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
            " UNIQUE KEY uk_id_schema_table (id, ghost_schema, ghost_table))"
        )
        text = json.dumps({"schema": real[0], "table": real[1], "ddls": list(statements)})
        self._put("onlineddl", id=self._source, ghost_schema=ghost[0], ghost_table=ghost[1], ddls=text)

    def put_shard_group(
        self, target: str, place: Location, statements: list[str], sources: list[str], *, active: int = 0
    ) -> None:
        """Writes unresolved DDL of merged shards: the group's sequence, and that of each of ``sources``."""
        self._target.execute(
            f"CREATE TABLE IF NOT EXISTS dm_meta.`{self._task}_syncer_sharding_meta` (source_id VARCHAR(32) NOT NULL,"
            " target_table_id VARCHAR(144) NOT NULL, source_table_id VARCHAR(144) NOT NULL, active_index INT,"
            f" is_global BOOLEAN, data JSON NOT NULL, {_TIMES},"
            " UNIQUE KEY uk_source_id_table_id_source (source_id, target_table_id, source_table_id))"
        )
        first = {"Name": place.position.name, "Pos": place.position.pos}
        for table in ["", *sources]:
            items = [
                {"ddls": [sql], "source": table or sources[0], "first-position": first, "first-gtid-set": ""}
                for sql in statements
            ]
            self._put(
                "syncer_sharding_meta", source_id=self._source, target_table_id=target, source_table_id=table,
                active_index=active, is_global=int(not table), data=json.dumps(items),
            )  # fmt: skip

    def put_copy(self, status: str) -> None:
        """Writes the full copy's status: ``init``, ``running`` or ``finished``."""
        self._target.execute(
            f"CREATE TABLE IF NOT EXISTS dm_meta.`{self._task}_lightning_checkpoint_list` (task_name VARCHAR(255)"
            " NOT NULL, source_name VARCHAR(255) NOT NULL, status VARCHAR(10) NOT NULL DEFAULT 'init',"
            " PRIMARY KEY (task_name, source_name))"
        )
        self._put("lightning_checkpoint_list", task_name=self._task, source_name=self._source, status=status)

    def put_old_copy(self, file: str, offset: int, end: int) -> None:
        """Writes the record of a file of the full copy by DM's first loader."""
        self._target.execute(
            f"CREATE TABLE IF NOT EXISTS dm_meta.`{self._task}_loader_checkpoint` (id VARCHAR(32) NOT NULL,"
            " filename VARCHAR(255) NOT NULL, cp_schema VARCHAR(128) NOT NULL, cp_table VARCHAR(128) NOT NULL,"
            f" `offset` BIGINT NOT NULL, end_pos BIGINT NOT NULL, {_TIMES}, UNIQUE KEY uk_id_f (id, filename))"
        )
        self._put(
            "loader_checkpoint", id=self._source, filename=file, cp_schema="d", cp_table="t", end_pos=end,
            **{"`offset`": offset},
        )  # fmt: skip
