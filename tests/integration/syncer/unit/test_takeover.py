"""Hazards: what DM has replicated is copied again, its structures are not believed or believed too much, a crash in the
takeover loses or doubles rows, and nobody can go back."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer
from dm_worker.dumper import DumpUnit
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from dm_worker.syncer.checkpoint.meta_store import MetaStore
from pkg.errors import Code
from pkg.mysql.introspect import query
from pkg.task_meta.dm_progress import read_progress
from tests.harness.dm_state.tables import DMState, models
from tests.integration.syncer.killed_runs import Faults, kill_again_and_again
from tests.integration.syncer.support import assert_equal, location, run_until_synced, running, subtask

_MOVED = models()["moved"][0][0].replace("d.t", "d.moved")
_NO_KEY = models()["no key"][0][0].replace("d.t", "d.no_key")


def _both(upstream: MariaDBServer | MySQLServer, target: MariaDBServer) -> None:
    """Two tables that DM has copied, the second without a key."""
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", _MOVED, _NO_KEY, "INSERT INTO d.moved VALUES (1, 10, 11, 'one')")


def _replicated_since(upstream: MariaDBServer | MySQLServer, target: MariaDBServer) -> None:
    """What comes after DM's checkpoint; the target has the first row, which DM wrote and did not record."""
    upstream.execute(
        "INSERT INTO d.moved VALUES (2, 20, 21, 'two')",
        "UPDATE d.moved SET c = 'ONE', a = 12 WHERE id = 1",
        "ALTER TABLE d.moved MODIFY a INT AFTER b",
        "INSERT INTO d.moved (id, a, b, c) VALUES (3, 30, 31, 'three')",
        "ALTER TABLE d.no_key ADD COLUMN z INT",
        "INSERT INTO d.no_key VALUES (1, 'x', 2), (1, 'x', 2)",
    )
    target.execute("INSERT INTO d.moved VALUES (2, 20, 21, 'two')")


def test_a_task_of_dm_goes_on(mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine) -> None:
    """With DM's structures: what upstream and target show now proves nothing of the rows before the ALTER."""
    _both(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target, meta=None, task_mode="all")
    here = location(mariadb_upstream)
    state = DMState(target)
    state.make_checkpoint()
    state.put_checkpoint(here)
    state.put_table("d", "moved", here, "moved")
    state.put_table("d", "no_key", here, "no key")
    before = target.execute("SELECT * FROM dm_meta.t_syncer_checkpoint ORDER BY cp_table")
    _replicated_since(mariadb_upstream, target)
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        shown = run.unit.status().takenOver
        assert str(here) in shown
        assert "structures of 2 tables" in shown
        run.stop()
    assert_equal(mariadb_upstream, target, "d.moved", "d.no_key")
    assert target.execute("SELECT * FROM dm_meta.t_syncer_taken_over ORDER BY cp_table") == before
    with running(cfg, spark) as run:
        mariadb_upstream.execute("INSERT INTO d.no_key VALUES (7, 'y', 8)")
        run.wait_synced(mariadb_upstream)
        assert run.unit.status().takenOver.endswith("not in safe mode")
    assert_equal(mariadb_upstream, target, "d.moved", "d.no_key")


def test_a_takeover_that_dies_again_and_again_ends_equal(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _both(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target, meta=None, task_mode="all")
    here = location(mariadb_upstream)
    state = DMState(target)
    state.make_checkpoint()
    state.put_checkpoint(here, here)
    state.put_table("d", "moved", here, "moved")
    _replicated_since(mariadb_upstream, target)
    faults = Faults(monkeypatch, seed=5, longest=2)
    monkeypatch.setattr(MetaStore, "keep_foreign", faults.around(MetaStore.keep_foreign))
    died = kill_again_and_again(cfg, spark, None, faults, location(mariadb_upstream).position)
    assert died > 3
    assert_equal(mariadb_upstream, target, "d.moved", "d.no_key")
    assert target.execute("SELECT binlog_pos FROM dm_meta.t_syncer_taken_over WHERE is_global = 1") == [
        (here.position.pos,)
    ]


def test_an_online_change_of_dm_ends_here(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """DM has no structure of the ghost table, whose rows are the real table's after the swap."""
    _both(mariadb_upstream, target)
    mariadb_upstream.execute("CREATE TABLE d._moved_gho LIKE d.moved", "ALTER TABLE d._moved_gho ADD COLUMN late INT")
    mariadb_upstream.execute("INSERT INTO d._moved_gho SELECT *, NULL FROM d.moved")
    cfg = subtask(mariadb_upstream, target, meta=None, task_mode="all", online_ddl=True)
    here = location(mariadb_upstream)
    state = DMState(target)
    state.make_checkpoint()
    state.put_checkpoint(here)
    state.put_table("d", "moved", here, "moved")
    state.put_online_change(("d", "_moved_gho"), ("d", "moved"), "ALTER TABLE `d`.`_moved_gho` ADD COLUMN `late` INT")
    mariadb_upstream.execute(
        "RENAME TABLE d.moved TO d._moved_del, d._moved_gho TO d.moved",
        "UPDATE d.moved SET late = 7 WHERE id = 1",
        "ALTER TABLE d.moved MODIFY a INT AFTER b",
        "INSERT INTO d.moved (id, a, b) VALUES (3, 30, 31)",
    )
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        assert "1 running online changes" in run.unit.status().takenOver
    assert_equal(mariadb_upstream, target, "d.moved")


#: What DM records of a column of JSON that it took from a MariaDB target.
_AS_LONGTEXT = (
    "UPDATE dm_meta.t_syncer_checkpoint SET table_info = JSON_SET(table_info, '$.cols[1].type.Tp', 251,"
    " '$.cols[1].type.Flag', 0, '$.cols[1].type.Charset', 'utf8mb4', '$.cols[1].type.Collate', 'utf8mb4_bin')"
    " WHERE cp_table = 'docs'"
)


def test_json_that_dm_took_for_longtext_is_read_as_json(
    mysql_upstream: MySQLServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """The table is altered after the checkpoint, so that what the upstream shows now proves nothing of the rows."""
    for server in (mysql_upstream, target):
        server.execute("CREATE DATABASE d", models()["json"][0][0].replace("d.t", "d.docs"))
    cfg = subtask(mysql_upstream, target, meta=None, task_mode="all")
    here = location(mysql_upstream)
    state = DMState(target)
    state.make_checkpoint()
    state.put_checkpoint(here)
    state.put_table("d", "docs", here, "json")
    target.execute(_AS_LONGTEXT)
    mysql_upstream.execute(
        """INSERT INTO d.docs VALUES (1, '{"a": [1, "\\u00fc"]}'), (2, NULL), (3, '"x"')""",
        "UPDATE d.docs SET j = JSON_SET(j, '$.b', 2.5) WHERE id = 1",
        "ALTER TABLE d.docs ADD COLUMN v INT FIRST",
        "INSERT INTO d.docs VALUES (7, 4, '[]')",
        "DELETE FROM d.docs WHERE id = 3",
    )
    with running(cfg, spark) as run:
        run.wait_synced(mysql_upstream)
        assert "structures of 1 tables" in run.unit.status().takenOver
    assert_equal(mysql_upstream, target, "d.docs")


def test_a_checkpoint_of_an_early_dm_by_gtid_and_relay(
    mysql_upstream: MySQLServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    """Before 2.0 its table lacks columns and cuts GTID sets; with a relay log the file's name has its sub-folder."""
    _both(mysql_upstream, target)
    cfg = subtask(mysql_upstream, target, meta=None, enable_gtid=True)
    state = DMState(target)
    state.make_checkpoint(gtid="VARCHAR(256)", exit_safe=False)
    here = location(mysql_upstream)
    state.put_checkpoint(here, sub_dir="000001")
    _replicated_since(mysql_upstream, target)
    with running(cfg, spark) as run:
        (error,) = run.wait_ended().errors
        assert error.kind is Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt
    types = dict(row[:2] for row in target.execute("SHOW COLUMNS FROM dm_meta.t_syncer_checkpoint"))
    assert {types["binlog_gtid"], types["exit_safe_binlog_gtid"]} == {"longtext"}
    # Nothing was written over: DM can record the structures, and the takeover begins again.
    state.put_table("d", "moved", here, "moved")
    run_until_synced(cfg, spark, mysql_upstream)
    assert_equal(mysql_upstream, target, "d.moved", "d.no_key")


def test_a_full_copy_that_dm_did_not_end_is_refused_and_one_that_it_did_is_not_repeated(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    _both(mariadb_upstream, target)
    cfg = subtask(mariadb_upstream, target, meta=None, task_mode="all")
    state = DMState(target)
    state.put_copy("running")
    for unit in (DumpUnit(cfg, spark), LoadUnit(cfg, spark)):
        assert not unit.is_finished()
        (error,) = unit.run().errors
        assert error.kind is Code.LoadTaskCheckPointNotMatch
        assert "--remove-meta" in error.workaround
    state.put_copy("finished")
    (error,) = DumpUnit(cfg, spark).run().errors
    assert "metadata" in error.workaround
    state.make_checkpoint()
    state.put_checkpoint(location(mariadb_upstream))
    assert LoadUnit(cfg, spark).is_finished()


def test_how_far_dm_was(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    here = location(mariadb_upstream)
    state = DMState(target)
    conn = target.connect()
    assert read_progress(conn, "dm_meta", "t", "source-1").checkpoint is None
    state.put_old_copy("d.t.1.sql", 10, 20)
    assert read_progress(conn, "dm_meta", "t", "source-1").copy == "unfinished"
    state.put_old_copy("d.t.1.sql", 20, 20)
    state.make_checkpoint()
    state.put_checkpoint(here, sub_dir="000002")
    state.put_shard_group("`d`.`t`", here, ["ALTER TABLE `d`.`t` ADD COLUMN n INT"], ["`d`.`t1`"])
    found = read_progress(conn, "dm_meta", "t", "source-1")
    assert (found.checkpoint, found.copy, found.takes_over) == (here, "finished", True)
    assert [(one.target, one.behind) for one in found.unsettled] == [("`d`.`t`", 0)]
    query(conn, "CREATE TABLE dm_meta.t_syncer_batch (id VARCHAR(32))")
    query(conn, "INSERT INTO dm_meta.t_syncer_batch VALUES ('source-1')")
    assert not read_progress(conn, "dm_meta", "t", "source-1").takes_over
    conn.close()
