"""Hazards: a name that breaks a statement, a file or a route; a table that one unit takes and another leaves out."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.dumper.metadata import dump_dir
from dm_worker.engine.engine import SparkEngine
from pkg.mysql.names import SYSTEM_SCHEMAS, qualified, quote
from pkg.rules.model import BlockAllowList, ColumnMappingRule, ExtractRule, RouteRule, TableName
from tests.harness.full_copy import config, dump, load
from tests.harness.targets import target_has
from tests.integration.syncer.support import running, subtask

#: Names that somebody has, each of a table and of its column.
NAMES = (
    " lead", "it's", 'say "x"', "back`tick", "select", "Order", "order", "a.b", "50%_off", "a-schema", "%2E",
    "back\\slash", "semi;colon", "-- x", "#汉字", "9", "ü" * 64,
)  # fmt: skip


def _there(tables: tuple[str, ...]) -> tuple[str, ...]:
    """Of tables whose names differ in case alone, the first where the target can have one of them only."""
    first = {name.lower(): name for name in reversed(tables)}
    return tables if target_has("names that differ in case") else tuple(n for n in tables if first[n.lower()] == n)


def _fill(server: MariaDBServer, schema: str, tables: tuple[str, ...]) -> None:
    statements = ["SET NAMES utf8mb4", f"CREATE DATABASE {quote(schema)}"]
    for table in tables:
        name = qualified(schema, table)
        value = f"{schema}/{table}".replace("\\", "\\\\").replace("'", "''")
        statements.append(f"CREATE TABLE {name} (id INT PRIMARY KEY, {quote(table)} VARCHAR(140)) CHARSET utf8mb4")
        statements.append(f"INSERT INTO {name} VALUES (1, '{value}')")
    server.execute(*statements)


def _rows(server: MariaDBServer, schema: str, table: str) -> list[tuple[Any, ...]]:
    return server.execute("SET NAMES utf8mb4", f"SELECT * FROM {qualified(schema, table)} ORDER BY 1")


def _tables(server: MariaDBServer) -> set[tuple[str, str]]:
    found = server.execute("SET NAMES utf8mb4", "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES")
    return {(schema, table) for schema, table in found if schema.lower() not in {*SYSTEM_SCHEMAS, "dm_meta"}}


def test_odd_names_pass_through_dump_load_and_routes(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    schemas = {"it's a `db`": NAMES, "Db": ("t", "T"), "db": ("t", "T"), "n" * 64: ("n" * 64,)}
    schemas = {schema: _there(tables) for schema, tables in schemas.items()}
    for schema, tables in schemas.items():
        _fill(mariadb_upstream, schema, tables)
    merged = "`to``'x`.`m\"\\ü`"
    target.execute(
        "SET NAMES utf8mb4",
        "CREATE DATABASE `to``'x`",
        f"CREATE TABLE {merged} (id BIGINT, t VARCHAR(70), `from '``` VARCHAR(70), PRIMARY KEY (id, `from '```))",
    )
    # Case counts: db.t goes elsewhere; Db and db.T stay.
    route = RouteRule("db", "to`'x", "t", 'm"\\ü', extract_schema=ExtractRule("(.*)", "from '`"))
    mapping = ColumnMappingRule("db", "id", "partition id", "t", "", ("9", "", ""))
    rules: dict[str, Any] = {"case_sensitive": True, "routes": (route,), "column_mappings": (mapping,)}
    cfg = config(mariadb_upstream, target, tmp_path, **rules)
    dump(cfg, spark)
    load(cfg, spark)
    expected = {(schema, table) for schema, tables in schemas.items() for table in tables}
    assert _tables(target) == expected - {("db", "t")} | {("to`'x", 'm"\\ü')}
    for name in expected - {("db", "t")}:
        assert _rows(target, *name) == _rows(mariadb_upstream, *name) != [], name
    assert _rows(target, "to`'x", 'm"\\ü') == [(9 << 59 | 1, "db/t", "db")]


def test_a_task_of_any_name_keeps_its_progress(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    odd: dict[str, Any] = {"name": "100% `it's` %s %(x)s %", "meta_schema": "%d`m"}
    _fill(mariadb_upstream, "d", ("a%s", "b"))
    cfg = config(mariadb_upstream, target, tmp_path, **odd)
    dump(cfg, spark)
    load(cfg, spark)
    cfg = subtask(mariadb_upstream, target, **odd)
    for number in (2, 3):
        with running(cfg, spark) as run:
            mariadb_upstream.execute(
                f"INSERT INTO d.`a%s` VALUES ({number}, '%s%d')",
                f"ALTER TABLE d.b ADD COLUMN `%{number}` INT",
                f"INSERT INTO d.b VALUES ({number}, 'x'{', 7' * (number - 1)})",
            )
            run.wait_synced(mariadb_upstream)
    for table in ("a%s", "b"):
        assert _rows(target, "d", table) == _rows(mariadb_upstream, "d", table)
    run.unit.remove_meta()
    assert not target.execute("SELECT * FROM `%d``m`.`100% ``it's`` %s %(x)s %_syncer_checkpoint`")


LISTED = {
    "shop": ("t", "T_1", "t_1", "tmp_x", "a.b"),
    "Shop": ("t", "tmp_x"),
    "sh*p": ("t",),
    "shop.x": ("t", "tmp_x"),
    "汉字": ("表", "t"),
    "~odd": ("t",),
    "dm_meta": ("t",),
}


def _list(
    *tables: tuple[str, str], do: tuple[str, ...] = (), ignore: tuple[tuple[str, str], ...] = ()
) -> BlockAllowList:
    names, ignored = (tuple(TableName(*name) for name in pairs) for pairs in (tables, ignore))
    return BlockAllowList(do_dbs=do, do_tables=names, ignore_tables=ignored)


@pytest.mark.parametrize(
    ("listed", "case_sensitive", "expected"),
    [
        (
            _list(do=("~^sh.*p$", "shop.?", "汉???", "[~]*"), ignore=(("*", "tmp_*"), ("~(?i)SHOP$", "~^T_[0-9]$"))),
            True,
            {("shop", "t"), ("shop", "t_1"), ("shop", "a.b"), ("sh*p", "t"), ("shop.x", "t"), ("~odd", "t"),
             ("汉字", "表"), ("汉字", "t")},
        ),
        (
            _list(("SHOP", "T?1"), ("~^s", "~[.]"), ("汉*", "表"), ("dm_meta", "*"), ("sh*", "t")),
            False,
            {("shop", "T_1"), ("shop", "t_1"), ("shop", "a.b"), ("汉字", "表"), ("shop", "t"), ("Shop", "t"),
             ("sh*p", "t"), ("shop.x", "t")},
        ),
    ],
)  # fmt: skip
def test_dump_load_and_replication_take_the_same_tables(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path,
    listed: BlockAllowList, case_sensitive: bool, expected: set[tuple[str, str]],
) -> None:  # fmt: skip
    changes: dict[str, Any] = {"block_allow_list": listed, "case_sensitive": case_sensitive}
    replicated = subtask(mariadb_upstream, target, **changes)
    schemas = _there(tuple(LISTED))
    for schema in schemas:
        _fill(mariadb_upstream, schema, _there(LISTED[schema]))
    expected = {(schema, table) for schema, table in expected if schema in schemas and table in _there(LISTED[schema])}
    with running(replicated, spark) as run:
        run.wait_synced(mariadb_upstream)
    assert _tables(target) == expected
    target.wipe()

    cfg = config(mariadb_upstream, target, tmp_path / "chosen", mode="full", **changes)
    dump(cfg, spark)
    load(cfg, spark)
    assert _tables(target) == expected
    target.wipe()

    everything = config(mariadb_upstream, target, tmp_path / "all", mode="dump", meta_schema="nowhere")
    dump(everything, spark)
    cfg = config(mariadb_upstream, target, tmp_path / "all", mode="load", **changes)
    shutil.copytree(dump_dir(everything), dump_dir(cfg), ignore=shutil.ignore_patterns(".*"))
    load(replace(cfg, name="load"), spark)
    assert _tables(target) == expected
