"""Hazard: advice leads nowhere: the procedure of docs/operations.md, 'Getting past an event by hand'."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import wait_until
from dm_worker.engine.engine import SparkEngine
from pkg.errors import Code
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

_END = re.compile(r"endLocation: \[position: \((\S+), (\d+)\), gtid-set: (\S*)\]")
CHECKPOINT = "dm_meta.t_syncer_checkpoint"


@pytest.fixture(params=["mariadb-position", "mariadb-gtid", "mysql-gtid"])
def upstream(request: pytest.FixtureRequest) -> tuple[SQLServer, bool]:
    kind, way = request.param.split("-")
    return request.getfixturevalue(f"{kind}_upstream"), way == "gtid"


def pass_over(target: SQLServer, message: str) -> None:
    """Sets the checkpoint to the end location that the error names."""
    found = _END.search(message)
    assert found, message
    name, pos, gtid = found.groups()
    target.execute(
        f"UPDATE {CHECKPOINT} SET binlog_name = '{name}', binlog_pos = {pos}, binlog_gtid = '{gtid}'"
        " WHERE id = 'source-1' AND is_global = 1"
    )


def test_statement_that_fails_at_the_target_is_passed_and_the_structure_read_again(
    upstream: tuple[SQLServer, bool], target: MariaDBServer, spark: SparkEngine
) -> None:
    server, gtid = upstream
    for each in (server, target):
        each.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(server, target, enable_gtid=gtid)
    with running(cfg, spark) as run:
        server.execute("INSERT INTO d.t VALUES (1, 1), (2, 2)")
        run.wait_synced(server)
        target.execute("UPDATE d.t SET v = 1")
        server.execute("ALTER TABLE d.t MODIFY v TINYINT, ADD UNIQUE (v)", "INSERT INTO d.t VALUES (3, 3)")
        (error,) = run.wait_ended().errors
        assert error.kind is Code.SyncerUnitHandleDDLFailed
        wait_until(lambda: run.unit.status().secondsBehindMaster > 0, "the lag counts the statement that blocks")
    pass_over(target, error.message)
    target.execute(
        "UPDATE d.t SET v = id",
        "ALTER TABLE d.t MODIFY v TINYINT",
        "ALTER TABLE d.t ADD UNIQUE (v)",
        f"DELETE FROM {CHECKPOINT} WHERE id = 'source-1' AND cp_schema = 'd' AND cp_table = 't'",
    )
    with running(cfg, spark) as run:
        run.wait_synced(server)
        server.execute("INSERT INTO d.t VALUES (4, 4)", "UPDATE d.t SET v = 9 WHERE id = 1")
        run.wait_synced(server)
    assert_equal(server, target, "d.t")


@pytest.mark.parametrize("way", ["INSERT", "LOAD DATA"])
def test_statement_that_is_not_understood_is_passed(
    way: str, upstream: tuple[SQLServer, bool], target: MariaDBServer, spark: SparkEngine
) -> None:
    server, gtid = upstream
    rows = server.dir / "rows.txt"
    rows.write_text("2\t2\n")
    statement = {"INSERT": "INSERT INTO d.t VALUES (2, 2)", "LOAD DATA": f"LOAD DATA INFILE '{rows}' INTO TABLE d.t"}
    for each in (server, target):
        each.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    cfg = subtask(server, target, enable_gtid=gtid)
    with running(cfg, spark) as run:
        server.execute("INSERT INTO d.t VALUES (1, 1)")
        run.wait_synced(server)
        # Changed by a statement: its rows are not in the binlog.
        server.execute("SET binlog_format = STATEMENT", statement[way])
        server.execute("INSERT INTO d.t VALUES (3, 3)")
        (error,) = run.wait_ended().errors
        assert error.kind is Code.SyncUnitDMLStatementFound
    pass_over(target, error.message)
    target.execute("INSERT INTO d.t VALUES (2, 2)")
    run_until_synced(cfg, spark, server)
    assert_equal(server, target, "d.t")


def test_a_table_with_a_collation_that_the_target_lacks_names_the_setting_that_helps(
    mysql_upstream: SQLServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    mysql_upstream.execute("CREATE DATABASE d")
    target.execute("CREATE DATABASE d")
    cfg = subtask(mysql_upstream, target)
    with running(cfg, spark) as run:
        mysql_upstream.execute(
            "CREATE TABLE d.n (id INT PRIMARY KEY, v VARCHAR(9) COLLATE utf8mb4_da_0900_ai_ci)",
            "INSERT INTO d.n VALUES (1, 'å')",
        )
        (error,) = run.wait_ended().errors
    assert error.kind is Code.SyncerUnitHandleDDLFailed
    chosen = re.search(r"target-collations: \{(\w+): (\w+)\}", error.workaround)
    assert chosen, error.workaround
    assert "Change the target table" not in error.workaround
    run_until_synced(replace(cfg, target_collations=((chosen[1], chosen[2]),)), spark, mysql_upstream)
    assert target.execute("SELECT id, v FROM d.n") == [(1, "å")]
