"""Hazard: an operator's decision about merged shards leads nowhere, or changes other tables."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.engine.engine import SparkEngine
from pkg.errors import Code
from pkg.ha.binlog_operator import BinlogOperator, OperatorKind, position_name
from pkg.rules.model import BlockAllowList
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.shard_ddl.support import (
    merged,
    merging,
    shards,
    structure,
    wait_settled,
)
from tests.integration.syncer.support import location, running

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    "statement",
    ["RENAME TABLE d.t1 TO d.u1", "ALTER TABLE d.t1 ADD z INT, RENAME TO d.u1", "RENAME TABLE d.t1 TO other.t1"],
)
def test_a_shard_that_leaves_its_group_is_not_waited_for_once_an_operator_says_so(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, statement: str
) -> None:
    shards(mariadb_upstream, target)
    target.execute("CREATE TABLE m.u (id INT PRIMARY KEY, v INT, z INT)")
    lock_service, orders = OneSource(), list[BinlogOperator]()
    cfg = merging(mariadb_upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))
    mariadb_upstream.execute("CREATE DATABASE other", "INSERT INTO d.t1 VALUES (1, 1)", statement)
    if "u1" in statement:
        mariadb_upstream.execute("INSERT INTO d.u1 (id, v) VALUES (3, 3)")
    mariadb_upstream.execute("ALTER TABLE d.t2 ADD a INT", "INSERT INTO d.t2 VALUES (2, 2, 2)")
    with running(cfg, spark, lock_service=lock_service) as run:
        (error,) = run.wait_ended().errors
        stuck = run.unit.stuck_at
    assert stuck is not None
    assert error.kind is Code.SyncerUnsupportedStmt
    orders.append(BinlogOperator("skip", cfg.name, cfg.source_id, position_name(stuck.at)))
    with running(cfg, spark, lock_service=lock_service, orders=lambda: orders) as run:
        wait_settled(run, lock_service, mariadb_upstream)
    assert merged(target, "m.t") == [(1, 1, None), (2, 2, 2)]
    assert merged(target, "m.u") == ([(3, 3, None)] if "u1" in statement else [])


def test_a_statement_that_changes_and_renames_is_taken_apart_by_an_operator(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    shards(mariadb_upstream, target)
    lock_service, orders = OneSource(), list[BinlogOperator]()
    cfg = merging(mariadb_upstream, target)
    mariadb_upstream.execute(
        "INSERT INTO d.t1 VALUES (1, 1)",
        "ALTER TABLE d.t1 ADD a INT, RENAME TO d.t9",
        "INSERT INTO d.t9 VALUES (2, 2, 2)",
        "ALTER TABLE d.t2 ADD a INT",
        "INSERT INTO d.t2 VALUES (3, 3, 3)",
    )
    with running(cfg, spark, lock_service=lock_service) as run:
        (error,) = run.wait_ended().errors
        stuck = run.unit.stuck_at
    assert stuck is not None
    assert (error.code, "`binlog replace`" in error.workaround) == (36068, True)
    apart = ("ALTER TABLE d.t1 ADD a INT", "RENAME TABLE d.t1 TO d.t9")
    orders.append(BinlogOperator("replace", cfg.name, cfg.source_id, f"{stuck.at.name}:{stuck.at.pos}", apart))
    with running(cfg, spark, lock_service=lock_service, orders=lambda: orders) as run:
        wait_settled(run, lock_service, mariadb_upstream)
    assert merged(target, "m.t") == merged(mariadb_upstream, "d.t9 d.t2")


def test_an_operator_brings_shards_together_that_ran_different_ddl(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    shards(mariadb_upstream, target)
    lock_service = OneSource()
    cfg = merging(mariadb_upstream, target)
    mariadb_upstream.execute(
        "INSERT INTO d.t1 VALUES (1, 1)",
        "INSERT INTO d.t2 VALUES (101, 101)",
        "ALTER TABLE d.t1 ADD COLUMN a INT",
        "INSERT INTO d.t1 VALUES (2, 2, 2)",
        "ALTER TABLE d.t2 ADD COLUMN a INT, ADD INDEX (v)",
        "INSERT INTO d.t2 VALUES (102, 102, 102)",
    )

    def stopped(what: str, *instead: str) -> BinlogOperator:
        """The order that gets past the statement at which the task stops."""
        with running(cfg, spark, lock_service=lock_service) as run:
            (error,) = run.wait_ended().errors
            assert error.kind is Code.SyncUnitDDLWrongSequence
            assert what in error.message
            assert run.unit.stuck_at is not None
            return BinlogOperator("replace", "t", "source-1", position_name(run.unit.stuck_at.at), instead)

    def goes_on(order: BinlogOperator, settled: int) -> None:
        with running(cfg, spark, lambda: [order], lock_service) as run:
            wait_settled(run, lock_service, mariadb_upstream, settled)
        assert merged(target, "m.t") == merged(mariadb_upstream, "d.t1 d.t2")

    goes_on(stopped("ADD COLUMN `a` INT, ADD INDEX(`v`)", "ALTER TABLE d.t2 add column a int"), 1)
    assert structure(target) == (3, ["PRIMARY"])
    # One has run at once what the other has run one after the other, with rows in between.
    mariadb_upstream.execute(
        "ALTER TABLE d.t1 ADD COLUMN b INT",
        "INSERT INTO d.t1 VALUES (3, 3, 3, 3)",
        "ALTER TABLE d.t1 ADD COLUMN c INT",
        "INSERT INTO d.t1 VALUES (4, 4, 4, 4, 4)",
        "ALTER TABLE d.t2 ADD COLUMN b INT, ADD COLUMN c INT",
        "INSERT INTO d.t2 VALUES (104, 104, 104, 104, 104)",
    )
    apart = ("ALTER TABLE d.t2 ADD COLUMN b INT", "ALTER TABLE d.t2 ADD COLUMN c INT")
    goes_on(stopped("ADD COLUMN `b` INT, ADD COLUMN `c` INT", *apart), 3)
    assert structure(target) == (5, ["PRIMARY"])


def test_operators_decide_what_a_merged_table_gets(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """What replaces a statement is coordinated like any other; what is skipped is waited for by nobody."""
    shards(mariadb_upstream, target)
    mariadb_upstream.execute("CREATE DATABASE other", "CREATE SEQUENCE other.s")
    orders: list[BinlogOperator] = []

    def under(kind: OperatorKind, ddl: str, *statements: str) -> None:
        orders.append(
            BinlogOperator(kind, "t", "source-1", position_name(location(mariadb_upstream).position), statements)
        )
        mariadb_upstream.execute(ddl)

    lock_service = OneSource()
    cfg = merging(mariadb_upstream, target, block_allow_list=BlockAllowList(do_dbs=("d",)))
    for i in (1, 2):
        not_understood = f"ALTER TABLE d.t{i} ADD COLUMN a INT DEFAULT NEXTVAL(other.s)"
        under("replace", not_understood, f"ALTER TABLE d.t{i} ADD COLUMN a INT")
        mariadb_upstream.execute(f"INSERT INTO d.t{i} VALUES ({i}, 1, 7)")
    for i in (1, 2):
        under("skip", f"ALTER TABLE d.t{i} ADD INDEX (v)")
        mariadb_upstream.execute(f"INSERT INTO d.t{i} VALUES ({i}0, 1, 8)")
    with running(cfg, spark, lambda: orders, lock_service=lock_service) as run:
        wait_settled(run, lock_service, mariadb_upstream)
    assert merged(target, "m.t") == merged(mariadb_upstream, "d.t1 d.t2")
    assert lock_service.granted == [("ALTER TABLE `m`.`t` ADD COLUMN `a` INT",)]
    assert structure(target) == (3, ["PRIMARY"])


def test_a_ddl_that_the_target_refuses_after_all_shards_have_run_it_can_be_replaced(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    shards(mariadb_upstream, target)
    lock_service, orders = OneSource(), list[BinlogOperator]()
    cfg = merging(mariadb_upstream, target)
    mariadb_upstream.execute("INSERT INTO d.t1 VALUES (1, 7)", "INSERT INTO d.t2 VALUES (2, 7)")
    with running(cfg, spark, lock_service=lock_service) as run:
        run.wait_synced(mariadb_upstream)
        for n in (1, 2):
            mariadb_upstream.execute(
                f"ALTER TABLE d.t{n} ADD UNIQUE INDEX one (v)", f"INSERT INTO d.t{n} VALUES ({n + 2}, 8)"
            )
        (error,) = run.wait_ended().errors
        stuck = run.unit.stuck_at
    assert stuck is not None
    at = position_name(stuck.at)
    assert "Duplicate entry" in str(error)
    assert f"startLocation: [position: {stuck.at}, gtid-set: ], endLocation: [" in error.message
    assert f"`dmctl binlog replace {cfg.name} -s {cfg.source_id} -b {at} " in error.workaround
    orders.append(
        BinlogOperator(
            "replace", cfg.name, cfg.source_id, at, ("ALTER TABLE d.t1 ADD INDEX one (v), ADD w INT DEFAULT 1",)
        )
    )
    with running(cfg, spark, lock_service=lock_service, orders=lambda: orders) as run:
        wait_settled(run, lock_service, mariadb_upstream)
    # The column is the target's own: what was given is executed once, and nothing else.
    assert target.execute("SELECT id, v, w FROM m.t ORDER BY id") == [(1, 7, 1), (2, 7, 1), (3, 8, 1), (4, 8, 1)]
    assert target.execute("SELECT NON_UNIQUE FROM information_schema.STATISTICS WHERE INDEX_NAME = 'one'") == [(1,)]
