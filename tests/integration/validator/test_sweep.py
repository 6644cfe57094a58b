"""Hazard: a foreign session's write into the target is never found, or the sweep reports rows that are right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer
from deploy.local.process import wait_until
from dm_worker.diff import run as diff_run
from dm_worker.diff import sweep, tables
from dm_worker.diff.state_table import RUNNING, SWEEP_TABLE, DiffRecord, DiffSettings, DiffStateTable
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig
from pkg.pb import dmworker_pb2 as pb
from pkg.rules.model import BlockAllowList, RouteRule
from tests.integration.syncer.support import subtask
from tests.integration.validator.support import QUICK, Validated, swept, writers

DELETED, MISSING, CHANGED = "Deleted rows exist", "Expected rows not exist", "Column data not matched"
ROWS = 1000


def small_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job compares one chunk of a few rows."""
    monkeypatch.setattr(tables, "CHUNK_ROWS", 20)
    monkeypatch.setattr(diff_run, "PACED_SECONDS", 0.001)


def sweep_record(cfg: SubTaskConfig) -> tuple[DiffRecord, int] | None:
    """The stored round, and how many chunks of it are done."""
    table = DiffStateTable(cfg, lambda: True, SWEEP_TABLE)
    try:
        found = table.read()
    finally:
        table.close()
    return None if found is None else (found[0], sum(len(one.done) for one in found[1].tables.values()))


def wait_round(cfg: SubTaskConfig, running: Validated) -> None:
    """Until a round that begins from now on has ended."""
    before = sweep_record(cfg)
    ended: set[str] = set()

    def done() -> bool:
        now = sweep_record(cfg)
        if now is not None and now[0].stage != RUNNING:
            ended.add(now[0].run)
        return len(ended - ({before[0].run} if before else set())) > 0

    wait_until(done, lambda: f"a round ends: {running.status()}")


@pytest.fixture
def servers(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[MariaDBServer, MariaDBServer]:
    """Both have the same rows: the first half is the writer's, nobody writes the second."""
    monkeypatch.setattr(sweep, "ROUND_PAUSE", 0.2)
    for server in (mariadb_upstream, target):
        server.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), n INT NOT NULL)",
            "CREATE TABLE d.k (a INT, b VARCHAR(20))",
            "INSERT INTO d.t VALUES " + ", ".join(f"({n}, 'v{n}', {n})" for n in range(1, ROWS + 1)),
            "INSERT INTO d.k VALUES (1, 'x'), (1, 'x'), (2, NULL)",
        )
    return mariadb_upstream, target


def keys(errors: list[pb.ValidationError]) -> dict[str, str]:
    return {one.errorType: one.srcData or one.dstData for one in errors if one.dstTable == "`d`.`t`"}


def test_foreign_writes_are_found_while_writers_write_and_nothing_else(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine
) -> None:
    upstream, target = servers
    cfg = subtask(upstream, target, validator=QUICK)
    with swept(cfg, spark) as (running, _), writers(upstream):
        wait_round(cfg, running)
        assert running.errors() == []
        target.execute(
            "UPDATE d.t SET v = 'foreign' WHERE id = 600",
            "DELETE FROM d.t WHERE id = 700",
            "INSERT INTO d.t VALUES (5000, 'foreign', 1)",
            "INSERT INTO d.k VALUES (1, 'x')",
        )
        found = running.wait_kinds(CHANGED, MISSING, DELETED, DELETED)
        assert {one.status for one in found} == {pb.NewErr}
        assert {kind: data.partition(",")[0] for kind, data in keys(found).items()} == {
            CHANGED: '{"id": "600"', MISSING: '{"id": "700"', DELETED: '{"id": "5000"',
        }  # fmt: skip
        wait_round(cfg, running)
        assert len(running.errors()) == 4, "a row that is found again is one error"
        assert "last whole round: " in running.status().sweepStatus

        target.execute(
            "UPDATE d.t SET v = 'v600' WHERE id = 600",
            "INSERT INTO d.t VALUES (700, 'v700', 700)",
            "DELETE FROM d.t WHERE id = 5000",
            "DELETE FROM d.k WHERE a = 1 LIMIT 1",
        )
        wait_until(
            lambda: {one.status for one in running.errors()} == {pb.ResolvedErr},
            lambda: f"repaired rows are resolved: {running.errors()}",
        )
        wait_round(cfg, running)
        assert running.status().errorRowsStatus == "new/ignored/resolved: 0/0/4"


def test_a_restart_continues_a_round_where_it_was(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream, target = servers
    small_jobs(monkeypatch)
    cfg = subtask(upstream, target, validator=replace(QUICK, sweep_rate=60))
    target.execute("DELETE FROM d.t WHERE id = 2", f"UPDATE d.t SET n = 0 WHERE id = {ROWS}")

    def begun() -> tuple[DiffRecord, int]:
        found = sweep_record(cfg)
        assert found is not None
        return found

    with swept(cfg, spark) as (running, _):
        wait_until(lambda: (sweep_record(cfg) or (None, 0))[1] > 0, "the first chunks are done")
        running.wait_kinds(MISSING)
    first, done = begun()
    assert first.stage == RUNNING
    assert done > 0
    monkeypatch.setattr(sweep, "ROUND_PAUSE", 600.0)
    monkeypatch.setattr(diff_run, "PACED_SECONDS", 20.0)
    with swept(replace(cfg, validator=replace(QUICK, sweep_rate=1_000_000)), spark) as (running, _):
        wait_until(lambda: begun()[0].stage != RUNNING, lambda: f"the round ends: {running.status()}")
        found = running.wait_kinds(MISSING, CHANGED)
    assert begun()[0].run == first.run
    assert begun()[0].whole > 0
    assert {one.message for one in found} == {""}, "no chunk was compared again"


def test_an_operators_comparison_goes_first(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    upstream, target = servers
    small_jobs(monkeypatch)
    cfg = subtask(upstream, target, validator=replace(QUICK, sweep_rate=1))
    cfg = replace(cfg, loader=replace(cfg.loader, dir=str(tmp_path / "dumped_data")))
    with swept(cfg, spark) as (running, companion):
        wait_until(lambda: (sweep_record(cfg) or (None, 0))[1] > 0, "the sweep rests after its first chunks")
        companion.start_diff("own", DiffSettings(sources=(cfg.source_id,)))
        wait_until(lambda: companion.status().stage == "Finished", lambda: f"it ends: {companion.status()}")
        assert {one.state for one in companion.status().tables} == {"equal"}
        wait_until(
            lambda: "present round" in running.status().sweepStatus and "waits" not in running.status().sweepStatus,
            lambda: f"the sweep goes on: {running.status()}",
        )


def test_merged_tables_of_two_sources_are_swept_while_both_serve_them(
    servers: tuple[MariaDBServer, MariaDBServer],
    mysql_upstream: MySQLServer,
    spark: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diff_run, "_SERVED_SECONDS", 3.0)
    upstream, target = servers
    mysql_upstream.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), n INT NOT NULL)",
        "INSERT INTO d.t VALUES (6001, 'v6001', 6001), (6002, 'v6002', 6002)",
    )
    target.execute("INSERT INTO d.t VALUES (6001, 'v6001', 6001), (6002, 'v6002', 6002)")
    one = subtask(upstream, target, validator=QUICK)
    two = subtask(mysql_upstream, target, validator=QUICK, source_id="source-2")
    with swept(one, spark, siblings=[two]) as (first, _), writers(upstream):
        with swept(two, spark, siblings=[one]) as (second, _):
            wait_round(one, first)
            assert first.errors() == second.errors() == []
            assert "not swept" not in first.status().sweepStatus
            wait_until(
                lambda: "`d`.`t`: it is in the sweep of source source-1" in second.status().sweepStatus,
                lambda: f"the other source names it: {second.status()}",
            )
            target.execute(
                "UPDATE d.t SET v = 'foreign' WHERE id = 6001",
                "DELETE FROM d.t WHERE id = 700",
                "INSERT INTO d.t VALUES (7000, 'foreign', 1)",
            )
            found = first.wait_kinds(CHANGED, MISSING, DELETED)
            assert {kind: data.partition(",")[0] for kind, data in keys(found).items()} == {
                CHANGED: '{"id": "6001"', MISSING: '{"id": "700"', DELETED: '{"id": "7000"',
            }  # fmt: skip
            assert second.errors() == []
        # The other source does not run: the round goes on without the table, and the syncer is not held for it.
        wait_until(
            lambda: "rows of source source-2 are in it too" in first.status().sweepStatus,
            lambda: f"the table is left out: {first.status()}",
        )
        wait_round(one, first)
        first.wait_kinds(CHANGED, MISSING, DELETED)


def test_a_start_by_time_in_mode_fast_sweeps_once(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine
) -> None:
    upstream, target = servers
    cfg = subtask(upstream, target, validator=QUICK)
    target.execute("UPDATE d.t SET v = 'lost' WHERE id = 600")
    with swept(cfg, spark, "") as (running, _):
        running.run.wait_synced(upstream)
        running.validator.expect("fast", "here")
        (found,) = running.wait_kinds(CHANGED)
        assert found.srcData.startswith('{"id": "600"')
        wait_until(
            lambda: "all changes from here on are compared" in running.status().notes,
            lambda: f"it is done: {running.status()}",
        )
        assert running.validator.sweep_rate == 0


def test_only_the_full_mode_sweeps(servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine) -> None:
    upstream, target = servers
    cfg = subtask(upstream, target, validator=QUICK)
    with swept(cfg, spark, "fast") as (running, _):
        upstream.execute("INSERT INTO d.t VALUES (2000, 'new', 1)")
        running.wait_compared(upstream)
        assert (sweep_record(cfg), running.status().sweepStatus) == (None, "")
        running.validator.expect("full")
        wait_round(cfg, running)
        assert "last whole round" in running.status().sweepStatus
        running.validator.expect("fast")
        assert (running.validator.sweep_rate, running.status().sweepStatus) == (0, "")


def test_rows_of_another_task_in_the_same_table_are_no_differences(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine
) -> None:
    """The table is not compared, with the reason. An other task with the same upstream tables adds no rows."""
    upstream, target = servers
    upstream.execute("CREATE DATABASE e", "CREATE TABLE e.t LIKE d.t", "INSERT INTO e.t VALUES (6001, 'v6001', 6001)")
    target.execute("INSERT INTO d.t VALUES (6001, 'v6001', 6001)")
    lists = BlockAllowList(do_dbs=("d",))
    cfg = subtask(upstream, target, validator=QUICK, block_allow_list=lists)
    route = RouteRule("e", "d", "t", "t")
    other = replace(cfg, name="other", routes=(route,), block_allow_list=BlockAllowList(do_dbs=("e",)))
    again = replace(cfg, name="again", block_allow_list=BlockAllowList(do_dbs=("d",)))
    with swept(cfg, spark, neighbours=[again, other]) as (running, _):
        wait_round(cfg, running)
        assert running.errors() == []
        assert "`d`.`t`" in running.status().sweepStatus
        assert "rows of task other are in it too: source-1: `e`.`t`" in running.status().sweepStatus
        target.execute("INSERT INTO d.k VALUES (7, 'foreign')")
        running.wait_kinds(DELETED)
