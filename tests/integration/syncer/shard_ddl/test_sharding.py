"""Hazards of merged shards in one upstream: rows lost, doubled, or written at another structure; a DDL run twice."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import wait_until
from dm_worker.engine.engine import SparkEngine
from dm_worker.source.binlog_needs import durable_location
from dm_worker.syncer.planning.planning_thread import PlanningThread
from dm_worker.syncer.shard_ddl.lock_reports import EtcdLockService
from dm_worker.syncer.shard_ddl.source_groups import SettleDDL
from pkg.etcd import EtcdClient
from pkg.ha.binlog_operator import BinlogOperator
from pkg.ha.shard_ddl_steps import LockId
from pkg.rules.model import BinlogFilterRule, RouteRule
from tests.harness.etcd import EtcdServer
from tests.harness.shard_source import put_subtasks
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.shard_ddl.support import (
    COLUMNS,
    coordinated,
    merged,
    merging,
    shards,
    structure,
    wait_settled,
)
from tests.integration.syncer.support import location, running

pytestmark = pytest.mark.timeout(300)


def test_two_tables_in_one_upstream(mysql_upstream: MySQLServer, target: MariaDBServer, spark: SparkEngine) -> None:
    """The documented timeline: t1 is ahead from its DDL on, t2 follows, then what was held back is read again."""
    shards(mysql_upstream, target)
    lock_service = OneSource()
    with running(merging(mysql_upstream, target), spark, lock_service=lock_service) as run:
        mysql_upstream.execute(
            "INSERT INTO d.t1 VALUES (1, 1)",
            "INSERT INTO d.t2 VALUES (101, 1)",
            "ALTER TABLE d.t1 ADD COLUMN a INT",
            "INSERT INTO d.t1 VALUES (2, 2, 2), (3, 3, 3)",
            # Applications do this at each start, and MySQL logs it.
            *(f"CREATE TABLE IF NOT EXISTS d.t{i} ({COLUMNS})" for i in (1, 2)),
            "INSERT INTO d.t2 VALUES (102, 2)",
            "UPDATE d.t1 SET a = 30 WHERE id = 3",
        )
        run.wait_synced(mysql_upstream)
        (group,) = run.unit.status().unresolvedGroups
        assert (group.target, list(group.synced), list(group.unsynced)) == ("`m`.`t`", ["`d`.`t1`"], ["`d`.`t2`"])
        assert (group.heldRows, group.waitingDDLs, group.rereading) == (3, 0, False)
        assert not run.unit.status().synced
        assert merged(target, "m.t") == [(1, 1), (101, 1), (102, 2)]
        lock_service.open.clear()
        mysql_upstream.execute(
            "ALTER TABLE d.t2 ADD COLUMN a INT", "INSERT INTO d.t2 VALUES (103, 3, 3)", "DELETE FROM d.t1 WHERE id = 2"
        )
        wait_until(lambda: lock_service.waiting() == 1, "the DDL is reported")
        run.wait_synced(mysql_upstream)
        assert run.unit.status().blockingDDLs == ["ALTER TABLE `m`.`t` ADD COLUMN `a` INT"]
        assert merged(target, "m.t") == [(1, 1), (101, 1), (102, 2)]
        lock_service.open.set()
        lock_service.decide()
        wait_until(lambda: lock_service.confirmed == 1, "the DDL is settled")
        mysql_upstream.execute("INSERT INTO d.t1 VALUES (4, 4, 4)")
        wait_until(lambda: not run.unit.status().unresolvedGroups, "nothing is held back")
        run.wait_synced(mysql_upstream)
        wait_until(lambda: run.unit.status().synced, "the upstream is asked for its end again")
        # Both look alike all the time.
        mysql_upstream.execute("ALTER TABLE d.t1 COMMENT 'x'", f"CREATE TABLE IF NOT EXISTS d.t2 ({COLUMNS})")
        run.wait_synced(mysql_upstream)
        assert [list(one.unsynced) for one in run.unit.status().unresolvedGroups] == [["`d`.`t2`"]]
        mysql_upstream.execute("ALTER TABLE d.t2 COMMENT 'x'")
        wait_until(lambda: lock_service.confirmed == 2, "the second DDL is settled")
    assert merged(target, "m.t") == merged(mysql_upstream, "d.t1 d.t2")
    assert lock_service.granted == [("ALTER TABLE `m`.`t` ADD COLUMN `a` INT",), ("ALTER TABLE `m`.`t` COMMENT 'x'",)]


def test_a_reread_that_ends_at_a_statement_reads_nothing_after_it(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader, which would take a table that is gone by now for a member of its group, is ended late."""
    shards(mariadb_upstream, target)
    mariadb_upstream.execute(*(f"CREATE TABLE d.u{i} ({COLUMNS})" for i in (1, 2)))
    target.execute(f"CREATE TABLE m.u ({COLUMNS})")
    stop = PlanningThread.stop

    def stop_late(reader: PlanningThread) -> None:
        time.sleep(0.5)
        stop(reader)

    monkeypatch.setattr(PlanningThread, "stop", stop_late)
    lock_service = OneSource()
    lock_service.open.clear()
    with running(merging(mariadb_upstream, target), spark, lock_service=lock_service) as run:
        mariadb_upstream.execute(
            "ALTER TABLE d.t1 ADD COLUMN a INT",
            "INSERT INTO d.t1 VALUES (1, 1, 1)",
            "ALTER TABLE d.t1 ADD COLUMN b INT",
            "ALTER TABLE d.t2 ADD COLUMN a INT",
            "ALTER TABLE d.t2 ADD COLUMN b INT",
            "INSERT INTO d.u1 VALUES (1, 1)",
            "DROP TABLE d.u1",
        )
        wait_until(lambda: lock_service.waiting() == 1, "the DDL is reported")
        run.wait_synced(mariadb_upstream)
        lock_service.open.set()
        lock_service.decide()
        wait_until(lambda: lock_service.confirmed == 2, "both DDLs are settled")
        mariadb_upstream.execute("ALTER TABLE d.u2 ADD COLUMN a INT")
        wait_until(lambda: lock_service.confirmed == 3, "nobody waits for the table that is gone")
        run.wait_synced(mariadb_upstream)
    assert merged(target, "m.t") == merged(mariadb_upstream, "d.t1 d.t2")


def test_a_ddl_that_only_the_target_refuses_is_left_out(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """No shard has two equal values, the merged table has."""
    shards(mariadb_upstream, target)
    lock_service, orders = OneSource(), list[BinlogOperator]()
    cfg = merging(mariadb_upstream, target)
    with running(cfg, spark, lock_service=lock_service) as run:
        for shard in (1, 2):
            mariadb_upstream.execute(
                f"INSERT INTO d.t{shard} VALUES ({shard}, 1)",
                f"ALTER TABLE d.t{shard} ADD UNIQUE u (v), ADD a INT",
                f"INSERT INTO d.t{shard} VALUES ({10 + shard}, 2, 2)",
            )
        (error,) = run.wait_ended().errors
        stuck = run.unit.stuck_at
    assert isinstance(stuck, SettleDDL)
    at = f"{stuck.at.name}:{stuck.at.pos}"
    assert (error.code, f"binlog skip {cfg.name} -s {cfg.source_id} -b {at}`" in error.workaround) == (36061, True)
    target.execute("ALTER TABLE m.t ADD a INT")
    orders.append(BinlogOperator("skip", cfg.name, cfg.source_id, at))
    with running(cfg, spark, lock_service=lock_service, orders=lambda: orders) as run:
        wait_settled(run, lock_service, mariadb_upstream)
        assert run.unit.stuck_at is None
        wait_until(lambda: (needed := run.unit.needed) is not None and stuck.at < needed.position, "it is stored")
    assert merged(target, "m.t") == merged(mariadb_upstream, "d.t1 d.t2")


class Writer:
    """Inserts, updates and deletes rows of shards by the columns that they had first, until it is stopped."""

    def __init__(self, server: SQLServer, tables: str, first: int) -> None:
        self._server, self._tables, self._next = server, tables.split(), first
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        while not self._end.wait(0.02):
            for table in self._tables:
                self._next += 1
                self._server.execute(
                    f"INSERT INTO {table} (id, v) VALUES ({self._next}, {self._next})",
                    f"UPDATE {table} SET v = v + 1 WHERE id = {self._next - len(self._tables)}",
                    f"DELETE FROM {table} WHERE id = {self._next - 10 * len(self._tables)}",
                )

    def stop(self) -> None:
        self._end.set()
        self._thread.join(120)
        assert not self._thread.is_alive()


def test_two_sources_with_writers(
    mariadb_upstream: MariaDBServer,
    mysql_upstream: MySQLServer,
    target: MariaDBServer,
    spark: SparkEngine,
    etcd: EtcdServer,
) -> None:
    """The documented timeline: the first source waits in the lock until the other one has come to the DDL."""
    shards(mariadb_upstream, target)
    mysql_upstream.execute("CREATE DATABASE d", f"CREATE TABLE d.t1 ({COLUMNS})")
    one = merging(mariadb_upstream, target)
    two = replace(merging(mysql_upstream, target), source_id="source-2")
    with EtcdClient([etcd.endpoint]) as client, coordinated(client, "source-1", "source-2"):
        reports = [EtcdLockService(client, "t", cfg.source_id) for cfg in (one, two)]
        put_subtasks(client, "t", one.source_id, two.source_id)
        with (
            running(one, spark, lock_service=reports[0]) as first,
            running(two, spark, lock_service=reports[1]) as second,
        ):
            writers = [Writer(mariadb_upstream, "d.t1 d.t2", 0), Writer(mysql_upstream, "d.t1", 1_000_000)]
            for change in ("ADD COLUMN a INT DEFAULT 7", "ADD INDEX (v)", "DROP COLUMN a"):
                before = structure(target)
                mariadb_upstream.execute(f"ALTER TABLE d.t1 {change}")
                wait_until(lambda: bool(first.unit.status().unresolvedGroups), "t1 is ahead")
                mariadb_upstream.execute(f"ALTER TABLE d.t2 {change}")
                wait_until(lambda: bool(first.unit.status().blockingDDLs), "the first source waits")
                wait_until(lambda: reports[0].reported(LockId("t", "m", "t")) is not None, "it has told so")
                assert structure(target) == before
                mysql_upstream.execute(f"ALTER TABLE d.t1 {change}")
                wait_until(lambda: structure(target) != before, "the DDL is executed")  # noqa: B023
                states = (first.unit.status, second.unit.status)
                wait_until(lambda: not any(one().unresolvedGroups for one in states), "all is applied")  # noqa: B023
            for writer in writers:
                writer.stop()
            first.wait_synced(mariadb_upstream)
            second.wait_synced(mysql_upstream)
    upstream = merged(mariadb_upstream, "d.t1 d.t2") + merged(mysql_upstream, "d.t1")
    assert merged(target, "m.t") == sorted(upstream, key=repr)
    assert structure(target) == (2, ["PRIMARY", "v"])


def test_structures_that_were_not_reported_are_found_when_rows_are_read_again(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """Tables without rows before their DDL, and none of a dump; new ones that are filled by their own statement."""
    shards(mariadb_upstream, target)
    lock_service = OneSource()
    cfg = merging(mariadb_upstream, target)
    mariadb_upstream.execute(
        "ALTER TABLE d.t1 ADD COLUMN a VARCHAR(9) FIRST",
        "INSERT INTO d.t1 VALUES ('x', 1, 1), ('xx', 11, 11)",
        "CREATE TABLE d.t3 (PRIMARY KEY (id)) AS SELECT a, id + 200 AS id, v FROM d.t1",
        "UPDATE d.t3 SET v = 5",
        "INSERT INTO d.t2 VALUES (101, 101)",
        "ALTER TABLE d.t2 ADD COLUMN a VARCHAR(9) FIRST",
        "INSERT INTO d.t2 VALUES ('z', 102, 102)",
    )
    with running(cfg, spark, lock_service=lock_service) as run:
        wait_settled(run, lock_service, mariadb_upstream)
    assert merged(target, "m.t") == merged(mariadb_upstream, "d.t1 d.t2 d.t3")


def test_xa_transactions_around_a_reread(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """Prepared before the DDL of another shard, within what is read again, and committed after it."""
    upstream = mariadb_upstream
    shards(upstream, target)
    lock_service = OneSource()
    cfg = merging(upstream, target)

    def prepare(name: str, *statements: str) -> None:
        upstream.execute(f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'")

    prepare("before", "INSERT INTO d.t2 VALUES (101, 1)")
    upstream.execute("ALTER TABLE d.t1 ADD COLUMN a INT")
    prepare("within", "INSERT INTO d.t1 VALUES (1, 1, 1)")
    prepare("undone", "INSERT INTO d.t1 VALUES (2, 2, 2)")
    prepare("behind", "INSERT INTO d.t1 VALUES (3, 3, 3)")
    upstream.execute(
        "INSERT INTO d.t1 VALUES (4, 4, 4)", "XA COMMIT 'before'", "XA COMMIT 'within'", "XA ROLLBACK 'undone'"
    )
    lock_service.open.clear()
    upstream.execute("ALTER TABLE d.t2 ADD COLUMN a INT", "INSERT INTO d.t2 VALUES (102, 2, 2)")
    with running(cfg, spark, lock_service=lock_service) as run:
        wait_until(lambda: lock_service.waiting() == 1, "the DDL is reported")
        run.wait_synced(upstream)
        lock_service.open.set()
        lock_service.decide()
        wait_until(lambda: not run.unit.status().unresolvedGroups, "all is applied")
        upstream.execute("XA COMMIT 'behind'", "INSERT INTO d.t2 VALUES (103, 3, 3)")
        run.wait_synced(upstream)
    assert merged(target, "m.t") == merged(upstream, "d.t1 d.t2")


def test_ddl_that_a_filter_keeps_from_the_target(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """It is not waited for, but the rows after it look otherwise, also those that are held back."""
    shards(mariadb_upstream, target)
    target.execute("ALTER TABLE m.t ADD COLUMN own INT")
    lock_service = OneSource()
    only = BinlogFilterRule("d", "t*", (), ("(?i)ADD COLUMN own",), "Ignore")
    cfg = merging(mariadb_upstream, target, filters=(only,))
    with running(cfg, spark, lock_service=lock_service) as run:
        mariadb_upstream.execute("INSERT INTO d.t1 VALUES (1, 1)", "INSERT INTO d.t2 VALUES (101, 1)")
        run.wait_synced(mariadb_upstream)
        mariadb_upstream.execute(
            "ALTER TABLE d.t1 ADD COLUMN a INT",
            "INSERT INTO d.t1 VALUES (2, 2, 2)",
            "ALTER TABLE d.t1 ADD COLUMN own INT FIRST",
            "INSERT INTO d.t1 VALUES (30, 3, 3, 3)",
            "ALTER TABLE d.t2 ADD COLUMN a INT",
            "INSERT INTO d.t2 VALUES (102, 2, 2)",
            "ALTER TABLE d.t2 ADD COLUMN own INT FIRST",
            "INSERT INTO d.t2 VALUES (40, 103, 3, 3)",
        )
        wait_settled(run, lock_service, mariadb_upstream)
    columns = "id, v, a, own"
    assert merged(target, "m.t", columns) == merged(mariadb_upstream, "d.t1 d.t2", columns)


def test_rules_do_not_change_while_rows_are_held_back(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    shards(mariadb_upstream, target)
    lock_service = OneSource()
    cfg = merging(mariadb_upstream, target)
    mariadb_upstream.execute("ALTER TABLE d.t1 ADD COLUMN a INT", "INSERT INTO d.t1 VALUES (1, 1, 1)")
    place = location(mariadb_upstream)
    with running(cfg, spark, lock_service=lock_service) as run:
        run.wait_synced(mariadb_upstream)
    assert durable_location(cfg).position < place.position
    elsewhere = (RouteRule("d", "m", "t*", "other"),)
    for changed in (replace(cfg, shard_mode=""), replace(cfg, routes=elsewhere)):
        with running(changed, spark, lock_service=lock_service) as run:
            assert [error.code for error in run.wait_ended().errors] == [36058]
    target.execute("UPDATE dm_meta.t_syncer_checkpoint SET binlog_pos = binlog_pos + 1 WHERE is_global = 1")
    with running(cfg, spark, lock_service=lock_service) as run:
        assert [error.code for error in run.wait_ended().errors] == [36058]
    target.execute("UPDATE dm_meta.t_syncer_checkpoint SET binlog_pos = binlog_pos - 1 WHERE is_global = 1")
    mariadb_upstream.execute("ALTER TABLE d.t2 ADD COLUMN a INT")
    with running(cfg, spark, lock_service=lock_service) as run:
        wait_until(lambda: lock_service.confirmed == 1, "the DDL is settled")
        wait_until(lambda: run.unit.status().synced, "all is applied")
    assert merged(target, "m.t") == [(1, 1, 1)]
    target.execute("CREATE TABLE m.other LIKE m.t")
    with running(replace(cfg, routes=elsewhere), spark, lock_service=lock_service) as run:
        mariadb_upstream.execute("ALTER TABLE d.t1 ADD COLUMN b INT")
        run.wait_synced(mariadb_upstream)
        (group,) = run.unit.status().unresolvedGroups
        assert (group.target, list(group.unsynced)) == ("`m`.`other`", ["`d`.`t2`"])
        mariadb_upstream.execute("ALTER TABLE d.t2 ADD COLUMN b INT")
        wait_until(lambda: lock_service.confirmed == 2, "the DDL is settled")
    assert stored_targets(target) == ["`m`.`other`"]
    mariadb_upstream.execute("INSERT INTO d.t2 VALUES (9, 9, 9, 9)")
    # Behind that.
    place = location(mariadb_upstream)
    target.execute(
        f"UPDATE dm_meta.t_syncer_checkpoint SET binlog_name = '{place.position.name}', binlog_pos = "
        f"{place.position.pos} WHERE is_global = 1",
        "ALTER TABLE m.t ADD COLUMN b INT",
    )
    with running(cfg, spark, lock_service=lock_service) as run:
        mariadb_upstream.execute("INSERT INTO d.t1 VALUES (2, 2, 2, 2)")
        run.wait_synced(mariadb_upstream)
    assert merged(target, "m.t") == [(1, 1, 1, None), (2, 2, 2, 2)]
    assert stored_targets(target) == ["`m`.`t`"]
    with running(replace(cfg, shard_mode=""), spark) as run:
        mariadb_upstream.execute("INSERT INTO d.t1 VALUES (3, 3, 3, 3)")
        run.wait_synced(mariadb_upstream)
    assert target.execute("SELECT COUNT(*) FROM dm_meta.t_syncer_sharding_meta") == [(0,)]


def stored_targets(target: SQLServer) -> list[object]:
    """Of the groups that are stored."""
    sql = "SELECT target_table_id FROM dm_meta.t_syncer_sharding_meta WHERE is_global = 0"
    return [name for (name,) in target.execute(sql)]
