"""Replays the statements of a server's own test files, file by file, and compares what the target has then."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.subtask.unit import UnitOutcome
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.mysql.introspect import list_schemas, list_tables
from pkg.mysql.names import qualified
from pkg.rules.model import BlockAllowList
from tests.harness.mysqltest import statements
from tests.integration.syncer.support import location, running, subtask

_DROPS = re.compile(r"DROP\s+(TABLE|DATABASE|SCHEMA)\b", re.I)
#: A file drops its tables at its end, and what they held is what is compared: only each third of these runs, each
#: other one starts a new schema.
_DROPS_OF_ONE = 3
_AUTO_INCREMENT = re.compile(r" AUTO_INCREMENT=\d+")
_PLACES = re.compile(r"startLocation: \[position: \(([^,]+), (\d+)\).*endLocation: \[position: \([^,]+, (\d+)\)")
_SESSION = "SET max_statement_time = 10, lock_wait_timeout = 2, innodb_lock_wait_timeout = 2"


@dataclass(slots=True)
class Replayed:
    """What became of a file: how many statements ran, tables compared, schemas refused with the error, differences."""

    ran: int
    compared: int = 0
    refused: dict[str, DMError] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)


def replay(path: Path, upstream: SQLServer, target: SQLServer, spark: SparkEngine) -> Replayed:
    """Runs ``path``'s statements at ``upstream`` and migrates them.

    A schema whose statements are refused is left out, and all others are migrated again from the start.
    """
    prefix = f"f_{re.sub('[^a-z0-9]', '_', path.stem.lower())}"
    cfg = replace(subtask(upstream, target), online_ddl=False)
    result = Replayed(run_file(upstream, path, prefix))
    while True:
        target.wipe()
        ignored = BlockAllowList(ignore_dbs=tuple(result.refused))
        outcome = _migrate(replace(cfg, block_allow_list=ignored), upstream, spark)
        if not outcome.errors:
            break
        error = outcome.errors[0]
        schema = _refused_schema(upstream, str(error), prefix)
        assert schema not in result.refused, error
        result.refused[schema] = error
    _compare(upstream, target, result)
    return result


def _migrate(cfg: SubTaskConfig, upstream: SQLServer, spark: SparkEngine) -> UnitOutcome:
    """Replicates to the end of the upstream's binlog, or to an error."""
    end = str(location(upstream).position)
    with running(cfg, spark) as run:
        wait_until(
            lambda: run.outcome is not None or run.unit.status().syncerBinlog == end, "it is replicated", WAIT_TIMEOUT
        )
        return run.stop() if run.outcome is None else run.outcome


def _refused_schema(upstream: SQLServer, message: str, prefix: str) -> str:
    """The schema that an error is about, from the upstream's own account of the events that it names."""
    places = _PLACES.search(message)
    assert places, message
    name, start, end = places.groups()
    events = upstream.execute(f"SHOW BINLOG EVENTS IN '{name}' FROM {start}")
    told = " ".join(str(event[5]) for event in events if int(event[1]) < int(end))
    found = re.search(rf"{prefix}_\d{{3}}", told)
    assert found, f"{message}: {told}"
    return found[0]


def run_file(server: SQLServer, path: Path, prefix: str) -> int:
    """Runs the file's statements, errors ignored; how many had none."""
    ran = schemas = drops = 0
    conn: Connection[Any] | None = None
    try:
        for statement in statements(path.read_text("utf-8", "replace")):
            if conn is None or not conn.open:
                conn = server.connect(init_command=_SESSION)
                schemas = _next_schema(conn, prefix, schemas)
            if _DROPS.match(statement):
                drops += 1
                if drops % _DROPS_OF_ONE:
                    schemas = _next_schema(conn, prefix, schemas)
                    continue
            ran += _succeeds(conn, statement)
    finally:
        if conn is not None and conn.open:
            conn.close()
    return ran


def _next_schema(conn: Connection[Any], prefix: str, number: int) -> int:
    for statement in ("ROLLBACK", f"CREATE DATABASE {prefix}_{number:03}", f"USE {prefix}_{number:03}"):
        _succeeds(conn, statement)
    return number + 1


def _succeeds(conn: Connection[Any], statement: str) -> bool:
    try:
        with conn.cursor() as cursor:
            cursor.execute(statement)
            while cursor.nextset():
                pass
    except (pymysql.Error, UnicodeError):
        return False
    return True


def _compare(upstream: SQLServer, target: SQLServer, result: Replayed) -> None:
    with upstream.connect() as source, target.connect() as there:
        schemas = [name for name in list_schemas(source) if name not in result.refused]
        for schema in schemas:
            tables = list_tables(source, schema)
            if tables != (found := list_tables(there, schema)):
                result.differences.append(f"{schema}: tables {tables} became {found}")
                continue
            for table in tables:
                result.compared += 1
                name = qualified(schema, table)
                if (want := _content(source, name)) != (found_content := _content(there, name)):
                    result.differences.append(f"{name}: {want} became {found_content}")


def _content(conn: Connection[Any], table: str) -> tuple[Any, ...]:
    """The structure, without the counter that both servers move by themselves, and the checksum of all rows."""
    with conn.cursor() as cursor:
        cursor.execute(f"SHOW CREATE TABLE {table}")
        ((_, create),) = cursor.fetchall()
        cursor.execute(f"CHECKSUM TABLE {table}")
        ((_, checksum),) = cursor.fetchall()
    return _AUTO_INCREMENT.sub("", create), checksum
