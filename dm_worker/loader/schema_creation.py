"""Creates the target's databases and tables from a dump's schema files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.dumper.file_names import DumpFile
from dm_worker.loader.load_plan import DumpListing, unique_targets
from dm_worker.loader.schema_files import create_statement
from pkg import errors
from pkg.ddl.creation import creation_text, creation_words
from pkg.ddl.target_collations import TargetCollations
from pkg.errors import Code
from pkg.mysql.connection import classify
from pkg.mysql.introspect import query, server_info, show_create_if_there
from pkg.mysql.names import TableId, qualified
from pkg.process.log import get_logger
from pkg.schema_tracker import fetch_collations

Route = Callable[[str, str], tuple[str, str]]
_EXISTS = frozenset({1007, 1050})

log = get_logger("loader.schema")


@dataclass(frozen=True, slots=True)
class SchemaCreation:
    """The result of the schema file ``file`` at the target: a table, or a schema when ``table`` is empty."""

    file: str
    schema: str
    table: str
    statement: str


def schema_creations(folder: Path, listing: DumpListing, route: Route, flavor: str) -> list[SchemaCreation]:
    """The creations in the order of execution: databases, then tables, each target once, routed.

    Raises DMError 34005 for a file that cannot be read or has no statement, and the parser's errors.
    """
    databases = unique_targets(listing.databases, lambda file: route(file.schema, ""))
    tables = unique_targets(listing.tables, lambda file: route(file.schema, file.table))
    return [
        SchemaCreation(file.name, *route(file.schema, file.table), _statement(folder, file, route, flavor))
        for file in (*databases, *tables)
    ]


def target_schemas(listing: DumpListing, route: Route) -> list[str]:
    """Every schema that a table is routed to: one without a database file must be created too."""
    return sorted({route(file.schema, file.table)[0] for file in (*listing.tables, *listing.data)})


def _statement(folder: Path, file: DumpFile, route: Route, flavor: str) -> str:
    return creation_text(create_statement(folder, file), schema=file.schema, flavor=flavor, route=route)


def create_schema(
    conn: Connection[Any],
    creations: list[SchemaCreation],
    should_stop: Callable[[], bool],
    flavor: str = "",
    chosen_collations: Iterable[tuple[str, str]] = (),
    watched: Collection[TableId] = (),
) -> list[TableId]:
    """Creates what is missing; existing objects stay unchanged. ``flavor``: the upstream's; ``chosen_collations``: the
    task's replacements for those that the target lacks. Returns those of the ``watched`` tables that it created.
    Raises DMError.

    CREATE … IF NOT EXISTS would wait for an ALTER TABLE that another run left behind in the schema, perhaps for hours.
    """
    family = server_info(conn).flavor
    collations = TargetCollations.of(fetch_collations(conn).values(), chosen_collations)
    created: list[TableId] = []
    for creation in creations:
        if should_stop():
            return created
        if _shown(conn, creation):
            continue
        table = (creation.schema, creation.table)
        was_there = table not in watched
        words = creation_words(creation.statement, flavor, family, collations)
        if words.left_out:
            log.info("creating table without unsupported options", file=creation.file, left_out=words.left_out)
        try:
            for statement in words.statements:
                conn.query(statement)
                # Another source may have created it at the same time.
                was_there = was_there or _found_it(conn)
        except pymysql.Error as exc:
            if exc.args[0] not in _EXISTS:
                _refused(conn, creation, exc)
        else:
            created += [] if was_there else [table]
    return created


def _shown(conn: Connection[Any], creation: SchemaCreation) -> str:
    try:
        return show_create_if_there(conn, creation.schema, creation.table)
    except pymysql.Error as exc:
        raise classify(exc, scope="downstream", statement=f"SHOW CREATE of {creation.table}") from exc


def _found_it(conn: Connection[Any]) -> bool:
    """Whether CREATE … IF NOT EXISTS, the last statement, created nothing."""
    return any(int(code) in _EXISTS for _, code, _ in query(conn, "SHOW WARNINGS"))


def _refused(conn: Connection[Any], creation: SchemaCreation, exc: pymysql.Error) -> None:
    """Raises DMError, unless the object exists: created by hand, in a form that this target accepts.

    A target without a collation (MariaDB without those of MySQL 8) reports that before it checks if the table exists.
    """
    cause = classify(exc, scope="downstream", statement=creation.statement)
    if cause.retryable:
        raise cause from exc
    what = f"table {qualified(creation.schema, creation.table)}" if creation.table else f"schema {creation.schema}"
    if show_create_if_there(conn, creation.schema, creation.table):
        log.warning("the target refused a structure; its existing structure stays", what=what, error=cause.message)
        return
    raise errors.new(
        Code.LoadUnitCreateSchemaFile,
        f"the target refused the structure in {creation.file}: {cause.message}",
        raw=cause.raw_cause,
        scope="downstream",
        workaround=cause.workaround
        or f"Create the {what} on the target by hand in a form that the target accepts, then resume the task.",
    ) from exc
