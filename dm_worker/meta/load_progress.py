"""The progress of a load in the target: the progress of each file, the epoch, and where replication continues.

Table ``<task>_loader_progress`` in the meta schema has one row per source and file, and one row per source with an
empty file name for the load as a whole. A file's progress row is updated in the transaction that inserts its rows. A
new run raises the epoch of all rows first, so that a transaction of an older run does not find its row and rolls back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.meta.epoch import next_epoch
from pkg import errors
from pkg.binlog.position import FileIdentity, Location, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import classify, connect, error_number
from pkg.mysql.introspect import query
from pkg.mysql.names import qualified, quote

_MISSING = frozenset({1049, 1146})
_INSERT_BATCH = 500


@dataclass(frozen=True, slots=True)
class LoadState:
    """The load as a whole. ``dump_id`` identifies the dump, so that no other dump is continued by mistake."""

    finished: bool
    epoch: int
    dump_id: str
    location: Location | None
    exit_location: Location | None


def progress_table(cfg: SubTaskConfig) -> str:
    return qualified(cfg.meta_schema, f"{cfg.name}_loader_progress")


def read_state(conn: Connection[Any], cfg: SubTaskConfig) -> LoadState | None:
    """The load's state; None if no load has begun (or its meta was removed). Raises ``pymysql.Error``."""
    try:
        rows = query(
            conn,
            f"SELECT finished, epoch, detail FROM {progress_table(cfg)} WHERE id = %s AND file = ''",
            (cfg.source_id,),
        )
    except pymysql.Error as exc:
        if error_number(exc) in _MISSING:
            return None
        raise
    return _state(*rows[0]) if rows else None


def stored_state(cfg: SubTaskConfig) -> LoadState | None:
    """Like :func:`read_state`, over its own connection. Raises DMError."""
    conn = connect(cfg.to, scope="downstream")
    try:
        return read_state(conn, cfg)
    except pymysql.Error as exc:
        raise classify(exc, scope="downstream", table=progress_table(cfg)) from exc
    finally:
        conn.close()


def begin_load(
    conn: Connection[Any],
    cfg: SubTaskConfig,
    dump_id: str,
    files: Mapping[str, int],
    location: Location | None,
    exit_location: Location | None,
) -> int:
    """Takes the load over: records ``files`` (name → bytes) and raises the epoch, which is returned.

    Raises DMError 34018 when another dump was being loaded, and ``pymysql.Error``.
    """
    table = progress_table(cfg)
    create_progress(conn, cfg.meta_schema, table)
    detail = {"dump": dump_id, "location": _plain(location), "exit": _plain(exit_location)}
    with conn.cursor() as cursor:
        conn.begin()
        cursor.execute(
            f"INSERT IGNORE INTO {table} (id, file, size, `offset`, finished, epoch, detail)"
            " VALUES (%s, '', %s, 0, 0, 0, %s)",
            (cfg.source_id, sum(files.values()), json.dumps(detail)),
        )
        cursor.execute(
            f"SELECT finished, epoch, detail FROM {table} WHERE id = %s AND file = '' FOR UPDATE", (cfg.source_id,)
        )
        state = _state(*cursor.fetchall()[0])
        cursor.execute(f"SELECT file, size FROM {table} WHERE id = %s AND file <> ''", (cfg.source_id,))
        known = {_text(name): int(size) for name, size in cursor.fetchall()}
        if state.dump_id != dump_id or any(files.get(name) != size for name, size in known.items()):
            conn.rollback()
            raise _other_dump(cfg)
        epoch = next_epoch(state.epoch)
        missing = [(cfg.source_id, name, size, epoch) for name, size in files.items() if name not in known]
        for start in range(0, len(missing), _INSERT_BATCH):
            cursor.executemany(
                f"INSERT INTO {table} (id, file, size, `offset`, finished, epoch) VALUES (%s, %s, %s, 0, 0, %s)",
                missing[start : start + _INSERT_BATCH],
            )
        cursor.execute(f"UPDATE {table} SET epoch = %s WHERE id = %s", (epoch, cfg.source_id))
        conn.commit()
    return epoch


def ensure_current(cfg: SubTaskConfig, epoch: int, conn: Connection[Any]) -> None:
    """Raises DMError 34018 when the load is complete or a newer run has begun, and ``pymysql.Error``."""
    state = read_state(conn, cfg)
    if state is None or state.finished or state.epoch != epoch:
        raise fenced(cfg.source_id, "")


def fence_off(conn: Connection[Any], cfg_table: str, source_id: str, epoch: int) -> None:
    """Ends the run of ``epoch``: its transactions fail from now on. Does nothing when a newer run has begun."""
    with conn.cursor() as cursor:
        cursor.execute(f"UPDATE {cfg_table} SET epoch = epoch + 1 WHERE id = %s AND epoch = %s", (source_id, epoch))


def unfinished_files(conn: Connection[Any], cfg: SubTaskConfig) -> dict[str, int]:
    """The files still to be loaded, with the bytes left of each."""
    rows = query(
        conn,
        f"SELECT file, size - `offset` FROM {progress_table(cfg)} WHERE id = %s AND file <> '' AND finished = 0",
        (cfg.source_id,),
    )
    return {_text(name): int(left) for name, left in rows}


def loaded_bytes(conn: Connection[Any], cfg: SubTaskConfig) -> int:
    rows = query(
        conn, f"SELECT SUM(`offset`) FROM {progress_table(cfg)} WHERE id = %s AND file <> ''", (cfg.source_id,)
    )
    return int(rows[0][0] or 0)


def end_load(conn: Connection[Any], cfg: SubTaskConfig, epoch: int, files: Collection[str]) -> None:
    """Records that everything is loaded. ``files`` are the files of this load, all of them finished.

    Raises DMError 34018 when a newer run has begun or a file is unfinished.
    """
    table = progress_table(cfg)
    with conn.cursor() as cursor:
        conn.begin()
        found = cursor.execute(
            f"UPDATE {table} SET finished = 1 WHERE id = %s AND file = '' AND epoch = %s", (cfg.source_id, epoch)
        )
        left = unfinished_files(conn, cfg)
        if found != 1 or left:
            conn.rollback()
            raise fenced(cfg.source_id, "") if not left else _left(cfg, left, files)
        conn.commit()


def remove_progress(cfg: SubTaskConfig) -> None:
    """Forgets the source's load. Raises DMError when the target refuses."""
    conn = connect(cfg.to, scope="downstream")
    try:
        with conn.cursor() as cursor:
            cursor.execute(f"DELETE FROM {progress_table(cfg)} WHERE id = %s", (cfg.source_id,))
    except pymysql.Error as exc:
        if error_number(exc) not in _MISSING:
            raise classify(exc, scope="downstream", table=progress_table(cfg)) from exc
    finally:
        conn.close()


def fenced(source_id: str, file: str) -> DMError:
    """The error of a run that is no longer the current one."""
    return errors.new(
        Code.LoadTaskCheckPointNotMatch,
        f"another run has taken over the load of source {source_id}, its progress was removed, or the target went "
        "back to a state before this run" + (f" (noticed at {file})" if file else ""),
        workaround="Nothing was written twice. Resume the task unless another worker runs it.",
    )


def _left(cfg: SubTaskConfig, left: Mapping[str, int], files: Collection[str]) -> DMError:
    again = sorted(name for name in left if name in files)
    if again:
        return errors.new(
            Code.LoadTaskCheckPointNotMatch,
            f"the target went back to an earlier state: its load progress shows files of source {cfg.source_id} "
            f"that this run has loaded as unfinished: {', '.join(again[:5])}",
            scope="downstream",
            workaround="Nothing was written twice, and the missing rows are loaded again automatically. Find out why "
            "the target lost committed transactions (a failover to a replica that lags behind, a restored "
            "backup).",
            retryable=True,
        )
    return errors.new(
        Code.LoadTaskCheckPointNotMatch,
        f"the load progress shows files of source {cfg.source_id} as unfinished that are not part of this load: "
        + ", ".join(sorted(left)[:5]),
        workaround="Restore the block-allow-list that the load began with, or start the task with --remove-meta.",
    )


def _other_dump(cfg: SubTaskConfig) -> DMError:
    return errors.new(
        Code.LoadTaskCheckPointNotMatch,
        f"the load of source {cfg.source_id} began with another dump than the one that is in the folder now",
        workaround="Restore the first dump, or stop the task, empty the target tables and start it with --remove-meta.",
    )


def create_progress(conn: Connection[Any], meta_schema: str, table: str) -> None:
    """Creates a table of progress by file, and its schema, if they are missing. Raises ``pymysql.Error``."""
    with conn.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quote(meta_schema)}")
        # File names are bytes: compared exactly, and short enough for the index limits of old servers.
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {table} ("
            "id VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, file VARBINARY(255) NOT NULL,"
            " size BIGINT NOT NULL, `offset` BIGINT NOT NULL, finished TINYINT(1) NOT NULL, epoch BIGINT NOT NULL,"
            " detail TEXT CHARACTER SET utf8mb4, update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP"
            " ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (id, file)) ENGINE=InnoDB"
        )


def _state(finished: int, epoch: int, detail: str) -> LoadState:
    data = json.loads(detail)
    return LoadState(bool(finished), int(epoch), data["dump"], _location(data["location"]), _location(data["exit"]))


def _plain(location: Location | None) -> dict[str, Any] | None:
    return None if location is None else asdict(location)


def _location(data: dict[str, Any] | None) -> Location | None:
    if data is None:
        return None
    # Loads by earlier versions did not store the file's identity.
    file = data.get("file")
    identity = None if file is None else FileIdentity(**file)
    return Location(Position(**data["position"]), data["gtid_set"], data["rows_events"], file=identity)


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
