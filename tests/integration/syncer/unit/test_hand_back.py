"""Hazard: a task that goes back to DM has its shards' columns swapped, or DM reads what it does not understand."""

from __future__ import annotations

import json

from deploy.local.mysql import MariaDBServer
from dm_worker.engine.engine import SparkEngine
from pkg.rules.model import BlockAllowList, RouteRule
from pkg.schema_tracker import ServerDefaults, table_of_tidb_model
from tests.harness.dm_state.tables import DMState, models
from tests.integration.syncer.support import assert_equal, location, refusal, run_until_synced, running, subtask

_OWN = ("batch", "marker", "ddl", "xa", "taken_over", "sharding_meta")


def _rows(target: MariaDBServer) -> dict[str, object]:
    rows = target.execute("SELECT cp_table, table_info FROM dm_meta.t_syncer_checkpoint WHERE id = 'source-1'")
    return {str(table): json.loads(str(text)) for table, text in rows}


def _columns(model: object, table: str) -> list[str]:
    return [column.name for column in table_of_tidb_model(model, "d", table, ServerDefaults()).columns]


def _left_by_dm(upstream: MariaDBServer, target: MariaDBServer) -> None:
    """Two shards with their columns in another order, and two tables that DM has recorded."""
    shards = {"s1": "id INT PRIMARY KEY, a INT, b INT", "s2": "id INT PRIMARY KEY, b INT, a INT"}
    upstream.execute("CREATE DATABASE d", *[f"CREATE TABLE d.{name} ({columns})" for name, columns in shards.items()])
    moved, quiet = (models()["moved"][0][0].replace("d.t", f"d.{name}") for name in ("moved", "quiet"))
    upstream.execute(moved, quiet)
    target.execute("CREATE DATABASE d", f"CREATE TABLE d.m ({shards['s1']})", moved, quiet)
    here = location(upstream)
    state = DMState(target)
    state.make_checkpoint()
    state.put_checkpoint(here)
    state.put_table("d", "quiet", here, "moved")
    state.put_table("d", "moved", here, "moved")


def test_what_is_handed_back_reads_as_dm_wrote_it(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """Shards with their columns in another order, an altered table, one that DM recorded; and the way here again."""
    upstream = mariadb_upstream
    _left_by_dm(upstream, target)
    cfg = subtask(
        upstream, target, meta=None, task_mode="all", block_allow_list=BlockAllowList(do_dbs=("d",)),
        routes=(RouteRule(schema_pattern="d", table_pattern="s*", target_schema="d", target_table="m"),),
    )  # fmt: skip
    upstream.execute(
        "INSERT INTO d.s1 VALUES (1, 10, 11)",
        "INSERT INTO d.s2 VALUES (2, 21, 20)",
        "INSERT INTO d.moved VALUES (1, 10, 11, 'one')",
        "ALTER TABLE d.moved MODIFY a INT AFTER b",
        "CREATE TABLE d.gone (id INT)",
        "DROP TABLE d.gone",
    )
    with running(cfg, spark) as run:
        run.wait_synced(upstream)
        refusal(40051, lambda: run.unit.hand_back(execute=False))
        run.stop()
        before = target.execute("SELECT * FROM dm_meta.t_syncer_checkpoint ORDER BY cp_table")
        assert "`d`.`s2`" in run.unit.hand_back(execute=False)
        assert target.execute("SELECT * FROM dm_meta.t_syncer_checkpoint ORDER BY cp_table") == before
        said = run.unit.hand_back(execute=True)
        done = _rows(target)
        assert "no structure is to be written" in run.unit.hand_back(execute=True)
        assert _rows(target) == done
    assert "DM continues at" in said
    rows = _rows(target)
    assert rows.pop("") is None
    assert {table: _columns(model, table) for table, model in rows.items()} == {
        "s1": ["id", "a", "b"],
        "s2": ["id", "b", "a"],
        "moved": ["id", "b", "a", "c"],
        "quiet": ["id", "a", "b", "c"],
    }
    for table in _OWN:
        assert not target.execute(f"SHOW TABLES FROM dm_meta LIKE 't_syncer_{table}'"), table

    # DM's writes, and its checkpoint behind some of them; then the task comes here again.
    upstream.execute("INSERT INTO d.s2 VALUES (3, 31, 30)", "INSERT INTO d.moved VALUES (2, 21, 20, 'two')")
    target.execute("INSERT INTO d.m VALUES (3, 30, 31)")
    run_until_synced(cfg, spark, upstream)
    assert target.execute("SELECT * FROM d.m ORDER BY id") == [(1, 10, 11), (2, 20, 21), (3, 30, 31)]
    assert_equal(upstream, target, "d.moved")
