# ruff: noqa: E501 - statements and rows read best on one line
"""Hazard: merged rows differ from what the syncer would write, in any kind of dump file, or a rule that the target cannot
follow is noticed when half of the rows are loaded."""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.dumper.metadata import dump_dir
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit, bulk_rows, tuples
from dm_worker.loader.load_plan import SESSION, file_specs, list_dump
from dm_worker.loader.load_rules import LoadRules
from dm_worker.loader.load_task import LoadSpec, run_load_task
from dm_worker.meta.load_progress import begin_load, progress_table
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.bulk import PreparedStatement
from pkg.mysql.connection import connect
from pkg.mysql.introspect import fetch_table_info
from pkg.rules.model import ColumnMappingRule, ExtractRule, RouteRule
from pkg.rules.table_router import TableRouter
from tests.compiled import required
from tests.harness.full_copy import config, contents, dump, load
from tests.harness.targets import TARGET, target_has

IDS = ColumnMappingRule("s_*", "id", "partition id", "t_*", "", ("3", "s_", "t_"))
REFS = ColumnMappingRule("s_1", "ref", "partition id", "t_1", "", ("3", "", ""))
NAMES = ColumnMappingRule("s_?", "name", "add prefix", "t_*", "", ("é'-",))
ROUTE = RouteRule(
    "s_*", "all", "t_*", "merged",
    extract_table=ExtractRule("t_(.*)", "c_table"), extract_schema=ExtractRule("(.)_(.*)", "c_schema"),
    extract_source=ExtractRule("(.*)", "c_source"),
)  # fmt: skip
RULES: dict[str, Any] = {"routes": (ROUTE,), "column_mappings": (IDS, REFS, NAMES)}
MERGED = (
    "CREATE TABLE `all`.merged (c_source VARCHAR(40), id BIGINT PRIMARY KEY, name VARCHAR(60) CHARACTER SET utf8mb4,"
    " ref VARCHAR(30), d DOUBLE, computed INT AS (id & 1023), raw VARBINARY(60), c_schema VARCHAR(20), c_table INT, own INT DEFAULT 7)"
)
#: The rules in SQL over one shard of the upstream.
EXPECTED = (
    "SELECT 'source-1', 3<<59 | {schema}<<52 | {table}<<44 | id, CONVERT(CONCAT('é''-', name) USING utf8mb4),"
    " IF({schema}*{table} = 1, CAST(3<<59 | ref AS CHAR), ref), d*1e0, id & 1023, raw, 's{schema}', {table}, 7 FROM s_{schema}.t_{table}"
)
SHARDS = [(schema, table) for schema in (1, 2) for table in (1, 12)]


def _shards(server: SQLServer, *, computed: bool) -> None:
    server.execute("CREATE DATABASE s_1", "CREATE DATABASE s_2")
    for schema, table in SHARDS:
        name = f"s_{schema}.t_{table}"
        server.execute(
            "SET NAMES utf8mb4",
            f"CREATE TABLE {name} (id INT PRIMARY KEY, name VARCHAR(40) CHARACTER SET latin1, ref VARCHAR(20), d FLOAT,"
            f" {'computed INT AS (id & 1023), ' if computed else ''}raw VARBINARY(40)) CHARACTER SET utf8mb4",
            f"INSERT INTO {name} (id, name, ref, d, raw) VALUES (0,'a(,)','0',1.5,x'00ff'),"
            f"(1,'it''s \"é\" \\\\ \\n','17',NULL,'({schema},{table});'),(2147483647,NULL,NULL,-0e0,NULL)",
        )
    values = ",".join(f"({n},'{'x' * (n % 30)}','{n}',{n}.5,'{n}')" for n in range(2, 1500))
    server.execute(f"INSERT INTO s_1.t_1 (id, name, ref, d, raw) VALUES {values}")


def _expected(server: SQLServer) -> list[tuple[Any, ...]]:
    rows = [
        server.execute("SET NAMES utf8mb4", EXPECTED.format(schema=schema, table=table)) for schema, table in SHARDS
    ]
    return sorted((row for found in rows for row in found), key=repr)


def _dump(tool: str, server: SQLServer, cfg: SubTaskConfig, spark: SparkEngine) -> None:
    """A dump of all shards in the folder of ``cfg``'s loader."""
    folder = Path(cfg.loader.dir)
    address = ["-h", "127.0.0.1", "-P", str(server.port), "-u", "root"]
    if tool.startswith("own"):
        dump(replace(cfg, task_mode="dump"), spark)
        shutil.copytree(dump_dir(replace(cfg, task_mode="dump")), folder, dirs_exist_ok=True)
        for path in folder.glob("*-schema.sql") if tool == "own without structures" else ():
            path.unlink()
        return
    folder.mkdir(parents=True)
    if tool == "mydumper":
        subprocess.run(["mydumper", *address, "--regex", "^s_", "-o", str(folder)], check=True, capture_output=True)
        return
    for schema, table in SHARDS:
        database, name = f"s_{schema}", f"t_{table}"
        (folder / f"{database}.{name}-schema.sql").write_text(
            f"{server.execute(f'SHOW CREATE TABLE {database}.{name}')[0][1]};\n"
        )
        options = ["--no-create-info", "--skip-triggers", *tool.split()[1:]]
        done = subprocess.run(["mariadb-dump", *address, *options, database, name], check=True, capture_output=True)
        (folder / f"{database}.{name}.sql").write_bytes(done.stdout)


def _load(cfg: SubTaskConfig) -> list[DMError]:
    """Loads the folder of ``cfg``'s loader in this process, as the load unit's tasks do."""
    folder, router = Path(cfg.loader.dir), TableRouter(cfg.routes, cfg.case_sensitive)
    listing = list_dump(folder)
    conn = connect(cfg.to, scope="downstream")
    rules = LoadRules(cfg, router).compile(folder, listing, functools.partial(fetch_table_info, conn))
    files = [replace(file, rules=rules.get((file.schema, file.table))) for file in file_specs(listing, router.route)]
    epoch = begin_load(conn, cfg, "dump", {file.name: file.size for file in files}, None, None)
    conn.close()
    spec = LoadSpec(cfg.to, SESSION, progress_table(cfg), cfg.source_id, epoch, "", str(folder), 20_000, 5.0)
    return [report.error for report in run_load_task(spec, iter([files])) if report.error is not None]


@pytest.mark.parametrize(
    ("tool", "computed"),
    [
        ("own", True),
        ("own without structures", True),
        ("mydumper", True),
        ("mydumper", False),
        pytest.param("mariadb-dump", True, marks=pytest.mark.target_with("values given to generated columns")),
        ("mariadb-dump", False),
        ("mariadb-dump --hex-blob --skip-opt --set-charset --default-character-set=latin1", False),
    ],
)
def test_merged_rows_are_those_that_sql_computes(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, tool: str, computed: bool,
) -> None:  # fmt: skip
    _shards(mariadb_upstream, computed=computed)
    cfg = config(mariadb_upstream, target, tmp_path, mode="load", extra_args="-s 20000", **RULES)
    _dump(tool, mariadb_upstream, cfg, spark)
    expected = _expected(mariadb_upstream)
    target.execute("CREATE DATABASE `all`")
    executed: list[bytes] = []
    required("sqlscan")
    execute = PreparedStatement.execute

    def spy(self: PreparedStatement, types: list[bytes], rows: bytes) -> None:
        executed.append(self.text)
        execute(self, types, rows)

    monkeypatch.setattr(PreparedStatement, "execute", spy)
    for way, least, native in (("bulk", 0, True), ("insert", 1 << 40, True), ("python", 1 << 40, False)):
        target.execute("DROP TABLE IF EXISTS `all`.merged", MERGED)
        monkeypatch.setattr(bulk_rows, "LEAST_BYTES", least)
        if not native:
            monkeypatch.setattr(tuples, "_NATIVE", None)
        errors = _load(replace(cfg, name=way))
        if tool.endswith("latin1") and TARGET == "tidb":
            # TiDB would read it as UTF-8, and store another text without an error under the file's sql_mode.
            assert {error.code for error in errors} == {34009}
            assert target.execute("SELECT * FROM `all`.merged") == []
            continue
        assert [str(error) for error in errors] == []
        assert contents(target, "all.merged") == expected, way
        if tool.startswith("own") and target_has("bulk execution"):
            assert bool(executed) is (way == "bulk")
        executed.clear()


def test_the_load_unit_follows_the_rules(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    _shards(mariadb_upstream, computed=True)
    target.execute("CREATE DATABASE `all`", MERGED)
    cfg = config(mariadb_upstream, target, tmp_path, **RULES)
    dump(cfg, spark)
    load(cfg, spark)
    assert contents(target, "all.merged") == _expected(mariadb_upstream)


def test_a_value_out_of_range_is_named_and_nothing_of_its_transaction_stays(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE s_1", "CREATE TABLE s_1.t_1 (id BIGINT PRIMARY KEY)",
        "INSERT INTO s_1.t_1 VALUES (1),(17592186044416)",
    )  # fmt: skip
    cfg = config(mariadb_upstream, target, tmp_path, column_mappings=(IDS,))
    dump(cfg, spark)
    (error,) = LoadUnit(cfg, spark).run().errors
    assert error.kind is Code.LoadUnitDoColumnMapping
    file = next(dump_dir(cfg).glob("s_1.t_1.0*.sql"))
    place = file.read_bytes().index(b"(17592186044416)")
    for part in ("`s_1`.`t_1`", "`id`", "17592186044416", f"{file.name} at byte {place}"):
        assert part in error.message
    assert target.execute("SELECT COUNT(*) FROM s_1.t_1") == [(0,)]


_FILES = {
    "a_first-schema-create.sql": "CREATE DATABASE `a_first`;",
    "a_first.t-schema.sql": "CREATE TABLE `t` (`a` int(11));",
    "a_first.t.sql": "INSERT INTO `t` VALUES (1);",
    "s_1-schema-create.sql": "CREATE DATABASE `s_1`;",
    "s_1.t_1-schema.sql": "CREATE TABLE `t_1` (`id` int(11) NOT NULL, PRIMARY KEY (`id`));",
    "s_1.t_1.sql": "INSERT INTO `t_1` VALUES (1);",
}
_WITHOUT = replace(ROUTE, extract_schema=None, extract_source=None)


@pytest.mark.parametrize(
    ("create", "rules", "code", "what", "way_out"),
    [
        # Made from the upstream's CREATE TABLE, the target would have neither the column nor the room.
        ("", {"routes": (_WITHOUT,)}, 34010, "`c_table`", "Create the target table"),
        ("", {"column_mappings": (IDS,)}, 34011, "does not fit into int", "BIGINT"),
        ("(id INT)", {"routes": (_WITHOUT,)}, 34010, "must contain extended columns that it lacks: `c_t", "ADD COLUMN"),
        ("(id INT, c_table INT AS (1))", {"routes": (_WITHOUT,)}, 34010, "generated", "another"),
        (
            "(id INT)",
            {"routes": (replace(_WITHOUT, extract_table=ExtractRule("(.*)", "ID")),)},
            34010,
            "must not contain the extended column `ID`",
            "another",
        ),
        (
            "(id INT, c_table INT)",
            {"routes": (replace(_WITHOUT, extract_table=ExtractRule("x(.*)", "c_table")),)},
            20045,
            "'t_1'",
            "",
        ),
        ("(id INT UNSIGNED)", {"routes": (RouteRule("s_*", "all", "t_*", "merged"),), "column_mappings": (IDS,)}, 34011, "which is int", "MODIFY COLUMN `id` BIGINT NULL"),
        ("(id DOUBLE)", {"routes": (RouteRule("s_*", "all", "t_*", "merged"),), "column_mappings": (IDS,)}, 34011, "double", "MODIFY COLUMN `id` BIGINT NULL"),
        ("", {"column_mappings": (replace(IDS, target_column="ids"),)}, 34011, "no column `ids`", "'id'"),
        ("", {"column_mappings": (replace(IDS, arguments=("3", "x", "")),)}, 34011, "'s_1'", "arguments"),
    ],
)  # fmt: skip
def test_rules_that_the_target_cannot_follow_are_refused_before_anything_is_there(
    target: MariaDBServer, spark: SparkEngine, tmp_path: Path,
    create: str, rules: dict[str, Any], code: int, what: str, way_out: str,
) -> None:  # fmt: skip
    if create:
        target.execute("CREATE DATABASE `all`", f"CREATE TABLE `all`.merged {create}")
    cfg = config(target, target, tmp_path, mode="load", **rules)
    folder = Path(cfg.loader.dir)
    folder.mkdir()
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    (error,) = LoadUnit(cfg, spark).run().errors
    assert error.code == code
    assert what in error.message
    assert way_out in error.workaround
    assert "t_1" in error.message
    databases = {row[0] for row in target.execute("SHOW DATABASES")}
    assert not databases & {"a_first", "s_1", "dm_meta"}
    if create:
        assert target.execute("SELECT COUNT(*) FROM `all`.merged") == [(0,)]
