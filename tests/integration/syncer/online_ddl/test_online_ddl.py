"""Hazards: a change by an online DDL tool is lost, doubled or half done; the tool's own tables reach the target."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from pkg import errors
from pkg.binlog.position import parse_position
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.rules.model import BlockAllowList, RouteRule, TableName
from tests.integration.syncer.driver_process import start_driver, wait_for
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.online_ddl.online_tools import GhOst, Writer, pt_osc
from tests.integration.syncer.ordered_task import OrderedTask
from tests.integration.syncer.support import Running, assert_equal, location, rows, running, subtask

pytestmark = pytest.mark.timeout(600)

#: The charset's default collation is another one in each kind of server.
TABLE = "(id INT PRIMARY KEY, v INT NOT NULL, note VARCHAR(30)) CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
VALUES = ", ".join(f"({i}, {i}, 'n{i}')" for i in range(800))
#: Columns, their order and keys; what a server's version writes otherwise is left out.
STRUCTURE = (
    "SELECT column_name, column_type, is_nullable, column_default, collation_name FROM information_schema.columns"
    " WHERE table_schema = '{0}' AND table_name = '{1}' ORDER BY ordinal_position"
)
KEYS = (
    "SELECT index_name, seq_in_index, column_name, non_unique FROM information_schema.statistics"
    " WHERE table_schema = '{0}' AND table_name = '{1}' ORDER BY BINARY index_name, 2"
)


def filled(upstream: SQLServer, target: SQLServer, *tables: str) -> None:
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", *(f"CREATE TABLE d.{table} {TABLE}" for table in tables))
        server.execute(*(f"INSERT INTO d.{table} VALUES {VALUES}" for table in tables))


def only(*tables: str) -> BlockAllowList:
    return BlockAllowList(do_tables=tuple(TableName("d", table) for table in tables))


def assert_same_structure(upstream: SQLServer, target: SQLServer, table: str) -> None:
    for question in (STRUCTURE, KEYS):
        found = (server.execute(question.format("d", table)) for server in (upstream, target))
        want, got = ([_plain(row) for row in rows] for rows in found)
        assert got == want


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without what servers write in different ways: the width of an INT, the quotes and the NULL of a default."""
    texts = (None if value is None else str(value).strip("'") for value in row)
    return tuple(None if text in (None, "NULL") else re.sub(r"^int\(\d+\)", "int", text) for text in texts)


def names(target: SQLServer) -> set[str]:
    return {row[0] for row in target.execute("SHOW TABLES IN d")}


def remembered(target: SQLServer) -> list[tuple[str, str]]:
    if not target.execute("SELECT 1 FROM information_schema.tables WHERE table_name = 't_onlineddl'"):
        return []
    return [tuple(row) for row in target.execute("SELECT ghost_table, ddls FROM dm_meta.t_onlineddl ORDER BY 1")]


def executed(target: SQLServer) -> list[str]:
    """The statements of the last DDL event, in order."""
    return [row[0] for row in target.execute("SELECT statement FROM dm_meta.t_syncer_ddl ORDER BY ddl_index")]


def merging(upstream: SQLServer, target: SQLServer, **changes: Any) -> SubTaskConfig:
    """A subtask with two filled shards."""
    filled(upstream, target, "t1", "t2")
    target.execute("CREATE DATABASE m", f"CREATE TABLE m.t {TABLE}")
    for shard, offset in (("t1", 10_000), ("t2", 20_000)):
        upstream.execute(f"UPDATE d.{shard} SET id = id + {offset}")
        target.execute(f"INSERT INTO m.t SELECT id + {offset}, v, note FROM d.{shard}")
    routes = (RouteRule("d", "m", "t*", "t"),)
    return subtask(upstream, target, online_ddl=True, routes=routes, block_allow_list=only("t?"), **changes)


def assert_merged(upstream: SQLServer, target: SQLServer) -> None:
    assert rows(target, "m.t") == sorted(rows(upstream, "d.t1") + rows(upstream, "d.t2"), key=repr)
    assert ({row[0] for row in target.execute("SHOW TABLES IN m")}, remembered(target)) == ({"t"}, [])


def test_pt_online_schema_change_under_writers(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, target, "t", "other")
    cfg = subtask(mariadb_upstream, target, online_ddl=True, block_allow_list=only("t", "other"))
    with running(cfg, spark) as run:
        writer = Writer(mariadb_upstream, ["d.t", "d.other"])
        change = "ADD COLUMN c INT NOT NULL DEFAULT 5 AFTER id, ADD INDEX (v), MODIFY note VARCHAR(60)"
        pt_osc(mariadb_upstream, "d", "t", change)
        wait_for(lambda: "c" in {row[0] for row in target.execute("SHOW COLUMNS FROM d.t")}, WAIT_TIMEOUT)
        # Twice the same tables; the second leaves its trash behind.
        pt_osc(mariadb_upstream, "d", "t", "DROP COLUMN c, ADD COLUMN z VARCHAR(9) DEFAULT 'ö'", "--no-drop-old-table")
        pt_osc(mariadb_upstream, "d", "t", "ADD UNIQUE KEY (id, note)", "--no-check-unique-key-change")
        writer.stop()
        assert writer.changes > 200
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t", "d.other")
    assert_same_structure(mariadb_upstream, target, "t")
    assert (names(target), remembered(target)) == ({"t", "other"}, [])
    assert executed(target) == ["ALTER TABLE `d`.`t` ADD UNIQUE KEY (id, note)"]


def test_run_that_is_killed_between_the_ghosts_alter_and_the_renaming(
    mysql_upstream: MySQLServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """On shards that merge: each is changed by a run of the tool of its own."""
    cfg = merging(mysql_upstream, target)
    tools = [GhOst(mysql_upstream, "d", table, "id, v, note") for table in ("t1", "t2")]
    driver = start_driver(cfg)
    try:
        for number, tool in enumerate(tools):
            tool.begin("ADD COLUMN c INT NOT NULL DEFAULT 5, ADD INDEX k (v)", f"AUTO_INCREMENT={number + 7}")
        mysql_upstream.execute("INSERT INTO d.t1 VALUES (1, 1, 'x')", "UPDATE d.t2 SET v = 9 WHERE id < 20100")
        wait_for(lambda: [text.count("alter") for _, text in remembered(target)] == [1, 1], WAIT_TIMEOUT)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait(WAIT_TIMEOUT)
    with running(cfg, spark) as run:
        for tool, atomic in zip(tools, (True, False), strict=True):
            tool.copy()
            tool.cut_over(atomic=atomic)
            mysql_upstream.execute("INSERT INTO d.t2 (id, v, note) SELECT MAX(id) + 1, 7, 'y' FROM d.t2")
        mysql_upstream.execute("UPDATE d.t1 SET c = 6 WHERE v < 50", "UPDATE d.t2 SET c = id WHERE v = 7")
        for tool in tools:
            tool.end()
        run.wait_synced(mysql_upstream)
    assert_merged(mysql_upstream, target)
    assert [row[2] for row in target.execute("SHOW INDEX FROM m.t")] == ["PRIMARY", "k"]


class Faults:
    """Ends a run at one of its writes to the meta schema, before or after it became durable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        self.late = False
        write = MetaStore.write

        def failing(store: MetaStore, *args: Any, **kwargs: Any) -> None:
            self.left -= 1
            if self.left == -1 and not self.late:
                raise errors.new(Code.SyncerEvent, "a fault at a write", workaround="none")
            write(store, *args, **kwargs)
            if self.left == -1 and self.late:
                raise errors.new(Code.SyncerEvent, "a fault at the end of a write", workaround="none")

        monkeypatch.setattr(MetaStore, "write", failing)


def _synced(run: Running, upstream: SQLServer) -> bool:
    status = run.unit.status()
    here = status.syncerBinlog
    return "." in here and location(upstream).position <= parse_position(here) and not status.unresolvedGroups


def interrupted(
    cfg: SubTaskConfig, spark: SparkEngine, upstream: SQLServer, faults: Faults, lock_service: OneSource | None = None
) -> int:
    """Runs until it has caught up, with a fault at one of the first writes of each run; how many there were."""
    chance, count = random.Random(5), 0
    while True:
        faults.left, faults.late = chance.randrange(7), chance.random() < 0.5
        with running(cfg, spark, lock_service=lock_service) as run:
            wait_for(lambda run=run: run.outcome is not None or _synced(run, upstream), WAIT_TIMEOUT)  # type: ignore[misc]
            if run.outcome is None:
                return count
        assert [error.message.partition(" at ")[0] for error in run.outcome.errors] == ["a fault"]
        count += 1


def test_fault_at_any_write_neither_loses_nor_doubles_the_change(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(mariadb_upstream, target, "t")
    cfg = subtask(mariadb_upstream, target, online_ddl=True)
    tool = GhOst(mariadb_upstream, "d", "t", "id, v, note")
    for number in range(2):
        tool.begin("ADD INDEX (v)", f"ADD COLUMN c{number} INT DEFAULT {number}")
        tool.copy()
        tool.cut_over(atomic=bool(number % 2))
        tool.end()
        mariadb_upstream.execute(f"INSERT INTO d.t (id, v) VALUES ({9000 + number}, 1)")
    assert interrupted(cfg, spark, mariadb_upstream, Faults(monkeypatch)) >= 6
    assert_equal(mariadb_upstream, target, "d.t")
    assert_same_structure(mariadb_upstream, target, "t")
    assert [row[2] for row in target.execute("SHOW INDEX FROM d.t")] == ["PRIMARY", "v", "v_2"]


def test_task_that_starts_inside_a_change_stops_at_the_renaming_until_it_is_replaced(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, target, "t")
    tool = GhOst(mariadb_upstream, "d", "t", "id, v, note")
    tool.begin("ADD COLUMN c INT DEFAULT 3")
    task = OrderedTask(subtask(mariadb_upstream, target, online_ddl=True), mariadb_upstream, spark)
    tool.copy()
    tool.cut_over()
    mariadb_upstream.execute("INSERT INTO d.t VALUES (9000, 1, 'x', 2)")
    error = task.stop_at(36046)
    assert "_t_gho" in error.message
    assert "binlog replace" in error.workaround
    task.give("replace", "ALTER TABLE d.t ADD COLUMN c INT DEFAULT 3")
    task.go_on()
    assert_equal(mariadb_upstream, target, "d.t")
    # The next change is followed.
    tool = GhOst(mariadb_upstream, "d", "t", "id, v, note, c")
    tool.end()
    tool.begin("ADD INDEX (c)")
    tool.copy()
    tool.cut_over()
    task.go_on("INSERT INTO d.t VALUES (9001, 1, 'x', 2)")
    assert_equal(mariadb_upstream, target, "d.t")
    assert_same_structure(mariadb_upstream, target, "t")


def test_change_that_dm_began_to_follow_goes_on(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, target, "t")
    tool = GhOst(mariadb_upstream, "d", "t", "id, v, note")
    tool.begin("ADD COLUMN c INT DEFAULT 4")
    cfg = subtask(mariadb_upstream, target, online_ddl=True)
    ddls = json.dumps({"schema": "d", "table": "t", "ddls": ["ALTER TABLE `d`.`_t_gho` ADD COLUMN `c` INT DEFAULT 4"]})
    target.execute(
        "DROP DATABASE IF EXISTS dm_meta",
        "CREATE DATABASE dm_meta",
        "CREATE TABLE dm_meta.t_onlineddl (id VARCHAR(32) NOT NULL, ghost_schema VARCHAR(128) NOT NULL,"
        " ghost_table VARCHAR(128) NOT NULL, ddls TEXT, update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON"
        " UPDATE CURRENT_TIMESTAMP, UNIQUE KEY uk_id_schema_table (id, ghost_schema, ghost_table))",
        f"INSERT INTO dm_meta.t_onlineddl (id, ghost_schema, ghost_table, ddls) VALUES ('source-1', 'd', '_t_gho',"
        f" '{ddls}'), ('source-2', 'd', '_t_gho', '{ddls}')",
    )
    tool.copy()
    tool.cut_over()
    # More than DM's column holds.
    comments = [f"CHANGE note note VARCHAR(30) COMMENT '{i:01000}'" for i in range(70)]
    tool = GhOst(mariadb_upstream, "d", "t", "id, v, note, c")
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        tool.end()
        tool.begin(*comments)
        run.wait_synced(mariadb_upstream)
        run.stop()
    with running(cfg, spark) as run:
        tool.copy()
        tool.cut_over()
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, target, "d.t")
    assert len(executed(target)) == len(comments)
    assert target.execute("SELECT id FROM dm_meta.t_onlineddl") == [("source-2",)]


def test_change_that_the_tool_made_in_another_way_is_an_error(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, target, "t")
    task = OrderedTask(subtask(mariadb_upstream, target, online_ddl=True), mariadb_upstream, spark)
    mariadb_upstream.execute(
        "UPDATE d.t SET v = 0 WHERE id = 1",
        f"CREATE TABLE d._t_new {TABLE.replace('v INT', 'v BIGINT')}",
        "INSERT INTO d._t_new SELECT * FROM d.t",
        "RENAME TABLE d.t TO d._t_old, d._t_new TO d.t",
    )
    assert "v bigint" in task.stop_at(36043).message
    target.execute("ALTER TABLE d.t MODIFY v BIGINT NOT NULL")
    task.give("skip")
    task.go_on(f"INSERT INTO d.t VALUES (9000, {1 << 40}, 'x')")
    assert_equal(mariadb_upstream, target, "d.t")


def test_without_online_ddl_the_tables_are_replicated_like_others(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    filled(mariadb_upstream, target, "t")
    cfg: SubTaskConfig = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        tool = GhOst(mariadb_upstream, "d", "t", "id, v, note")
        tool.begin("ADD COLUMN c INT")
        tool.copy()
        tool.cut_over()
        run.wait_synced(mariadb_upstream)
    assert names(target) == {"t", "_t_del", "_t_ghc"}
    assert_equal(mariadb_upstream, target, "d.t", "d._t_del", "d._t_ghc")


def test_changes_of_merged_shards_are_coordinated_like_any_ddl(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = merging(mariadb_upstream, target, shard_mode="pessimistic")
    lock_service = OneSource()

    def change(table: str, kept: str, *alters: str, atomic: bool) -> None:
        tool = GhOst(mariadb_upstream, "d", table, kept)
        tool.begin(alters[0], f"AUTO_INCREMENT={7 + atomic}", *alters[1:])
        mariadb_upstream.execute(f"REPLACE INTO d.{table} (id, v) VALUES ({table[1]}, 1)")
        tool.copy()
        tool.cut_over(atomic=atomic)
        tool.end()
        mariadb_upstream.execute(
            f"INSERT INTO d.{table} (id, v, c) SELECT MAX(id) + 1, 1, 6 FROM d.{table}",
            f"UPDATE d.{table} SET c = id WHERE v < 50",
            f"DELETE FROM d.{table} WHERE v = 60",
        )

    with running(cfg, spark, lock_service=lock_service) as run:
        change("t1", "id, v, note", "ADD COLUMN c INT NOT NULL DEFAULT 5", "ADD INDEX (v)", atomic=False)
        run.wait_synced(mariadb_upstream)
        (group,) = run.unit.status().unresolvedGroups
        assert (list(group.synced), list(group.unsynced)) == (["`d`.`t1`"], ["`d`.`t2`"])
        assert [row[0] for row in target.execute("SHOW COLUMNS FROM m.t")] == ["id", "v", "note"]
        change("t2", "id, v, note", "ADD COLUMN c INT NOT NULL DEFAULT 5", "ADD INDEX (v)", atomic=True)
        wait_for(lambda: _synced(run, mariadb_upstream), WAIT_TIMEOUT)
    assert_merged(mariadb_upstream, target)
    # The next change, with faults. A second execution would make one more index.
    for table, atomic in (("t1", True), ("t2", False)):
        change(table, "id, v, note, c", "CHANGE c c BIGINT NOT NULL DEFAULT 7", "ADD INDEX (v)", atomic=atomic)
    assert interrupted(cfg, spark, mariadb_upstream, Faults(monkeypatch), lock_service) >= 6
    assert_merged(mariadb_upstream, target)
    assert [row[2] for row in target.execute("SHOW INDEX FROM m.t")] == ["PRIMARY", "v", "v_2"]
    assert [len(statements) for statements in lock_service.granted] == [2, 2]
