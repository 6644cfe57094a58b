"""Hazards: tables that an operator made in TiDB's own forms refuse the upstream's rows or confuse the comparison of
structures; foreign keys of TiDB do something else than the upstream's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.tidb import TiDBServer
from dm_master.precheck import run_prechecks
from dm_worker.engine.engine import SparkEngine
from pkg import ddl
from pkg.config.model import SourceConfig
from pkg.config.task import load_task
from tests.integration.syncer.support import rows
from tests.tidb.support import migrating

#: Table → the target's form of (id BIGINT PRIMARY KEY, v INT).
FORMS = {
    "random": "(id BIGINT AUTO_RANDOM(5) PRIMARY KEY, v INT)",
    "spread": "(id BIGINT, v INT, PRIMARY KEY (id) NONCLUSTERED) SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=2",
    "grouped": "(id BIGINT, v INT, PRIMARY KEY (id) CLUSTERED)",
    "cached": "(id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT) AUTO_ID_CACHE 1",
    "split": "(id BIGINT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3",
}

ALTERED = ("random", "spread")


def test_tables_in_forms_of_tidb_are_copied_and_replicated_into(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    tidb.execute("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    for name, form in FORMS.items():
        mariadb_upstream.execute(
            f"CREATE TABLE d.{name} (id BIGINT PRIMARY KEY, v INT)",
            f"INSERT INTO d.{name} VALUES (1, 1), (2, 2), (3, 3)",
        )
        tidb.execute(f"CREATE TABLE d.{name} {form}")
    with migrating(mariadb_upstream, tidb, spark, tmp_path) as run:
        for name in FORMS:
            mariadb_upstream.execute(
                f"INSERT INTO d.{name} VALUES (4, 4), ({1 << 61}, 5)",
                f"UPDATE d.{name} SET v = 9 WHERE id = 1",
                f"UPDATE d.{name} SET id = 7 WHERE id = 2",
                f"DELETE FROM d.{name} WHERE id = 3",
            )
        for name in ALTERED:
            mariadb_upstream.execute(
                f"ALTER TABLE d.{name} ADD COLUMN w INT DEFAULT 5", f"INSERT INTO d.{name} VALUES (8, 8, 8)"
            )
        run.wait_synced(mariadb_upstream)
    for name in FORMS:
        assert rows(tidb, f"d.{name}") == rows(mariadb_upstream, f"d.{name}"), name
    assert "AUTO_RANDOM(5)" in _shown(tidb, "random")
    assert "SHARD_ROW_ID_BITS=4" in _shown(tidb, "spread")


def _shown(tidb: TiDBServer, name: str) -> str:
    return str(tidb.execute(f"SHOW CREATE TABLE d.{name}")[0][1])


def test_what_tidb_shows_of_its_forms_is_understood(tidb: TiDBServer) -> None:
    """After a crash in a statement, the structures before and after it are compared by these texts."""
    tidb.execute("CREATE DATABASE d")
    for name, form in FORMS.items():
        tidb.execute(f"CREATE TABLE d.{name} {form}")
        parsed = ddl.parse(_shown(tidb, name), default_schema="d", flavor="tidb")
        assert parsed.body is not None
        assert [column.name for column in parsed.body.columns] == ["id", "v"]
        again = ddl.rewrite(parsed, lambda schema, table: (schema, f"{table}_2"))
        tidb.execute(again)
        assert _shown(tidb, f"{name}_2").replace("_2`", "`") == _shown(tidb, name)


@pytest.fixture
def family(mariadb_upstream: MariaDBServer) -> MariaDBServer:
    mariadb_upstream.execute(
        "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "USE d",
        "CREATE TABLE p (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT gone FOREIGN KEY (p) REFERENCES p (id)"
        " ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE n (id INT PRIMARY KEY, p INT, CONSTRAINT lone FOREIGN KEY (p) REFERENCES p (id)"
        " ON DELETE SET NULL)",
        "INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO c VALUES (10, 1), (11, 1), (20, 2), (30, 3)",
        "INSERT INTO n VALUES (10, 1), (30, 3)",
    )
    return mariadb_upstream


def test_foreign_keys_act_as_they_did_upstream(
    family: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    with migrating(family, tidb, spark, tmp_path) as run:
        family.execute(
            "USE d",
            "DELETE FROM p WHERE id = 1",
            "UPDATE p SET id = 200 WHERE id = 2",
            "INSERT INTO p VALUES (1, 9)",
            "INSERT INTO c VALUES (12, 1)",
            "DELETE FROM p WHERE id = 3",
        )
        run.wait_synced(family)
    for name in ("p", "c", "n"):
        assert rows(tidb, f"d.{name}") == rows(family, f"d.{name}"), name


@pytest.fixture
def without_foreign_keys(tidb: TiDBServer) -> Iterator[TiDBServer]:
    tidb.execute("SET GLOBAL tidb_enable_foreign_key = OFF")
    yield tidb
    tidb.execute("SET GLOBAL tidb_enable_foreign_key = ON")


def test_a_tidb_that_does_not_enforce_foreign_keys_is_refused(
    family: MariaDBServer, without_foreign_keys: TiDBServer
) -> None:
    task = load_task(
        f"name: t\ntask-mode: all\ntarget-database: {{host: 127.0.0.1, port: {without_foreign_keys.port},"
        " password: ''}\nmysql-instances:\n- {source-id: s1}\n"
    )
    task = replace(task, target=without_foreign_keys.db_config)
    source = SourceConfig("s1", family.db_config, flavor="mariadb", server_id=4_000_000)
    found = [
        finding
        for check in run_prechecks(task, {"s1": source}).results
        if check.name == "foreign key check"
        for finding in check.findings
    ]
    assert found
    assert all(finding.severity == "fail" and "tidb_enable_foreign_key" in finding.instruction for finding in found)
