"""Hazard: a task of DM whose online DDL is under way is refused, or ends in another table, when its target is TiDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.tidb import TiDBServer
from dm_master.precheck import run_prechecks
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SourceConfig
from pkg.config.task import load_task
from tests.harness.dm_state.tables import DMState, models
from tests.integration.syncer.support import assert_equal, location, running, subtask

pytestmark = [pytest.mark.timeout(900, func_only=True)]

_MOVED = models()["moved"][0][0].replace("d.t", "d.moved")
#: How the tool changes the ghost table: one statement, or parts that TiDB does not take together. Written as DM
#: remembers statements.
CHANGES: Mapping[str, Sequence[str]] = {
    "a column and its key": ("ADD COLUMN `late` INT, ADD INDEX `k`(`late`)",),
    "two statements": (
        "ADD COLUMN `early` VARCHAR(9) NOT NULL DEFAULT _UTF8MB4'x' COMMENT 'why' AFTER `id`, ENGINE = InnoDB",
        "ADD COLUMN (`late` INT), MODIFY COLUMN `c` VARCHAR(300)",
    ),
}


@pytest.mark.parametrize("how", CHANGES)
def test_an_online_change_of_dm_ends_in_tidb(
    mariadb_upstream: MariaDBServer, tidb: TiDBServer, spark: SparkEngine, how: str
) -> None:
    for server in (mariadb_upstream, tidb):
        server.execute("CREATE DATABASE d", _MOVED, "INSERT INTO d.moved VALUES (1, 10, 11, 'one')")
    mariadb_upstream.execute(
        "CREATE TABLE d._moved_gho LIKE d.moved", *(f"ALTER TABLE d._moved_gho {change}" for change in CHANGES[how])
    )
    mariadb_upstream.execute("INSERT INTO d._moved_gho (id, a, b, c) SELECT * FROM d.moved")
    here = location(mariadb_upstream)
    state = DMState(tidb)
    state.make_checkpoint()
    state.put_checkpoint(here)
    state.put_table("d", "moved", here, "moved")
    state.put_online_change(
        ("d", "_moved_gho"), ("d", "moved"), *(f"ALTER TABLE `d`.`_moved_gho` {change}" for change in CHANGES[how])
    )
    _passes_its_checks(mariadb_upstream, tidb)
    mariadb_upstream.execute(
        "RENAME TABLE d.moved TO d._moved_del, d._moved_gho TO d.moved",
        "UPDATE d.moved SET late = 7 WHERE id = 1",
        "INSERT INTO d.moved (id, a, b) VALUES (3, 30, 31)",
    )
    cfg = subtask(mariadb_upstream, tidb, meta=None, task_mode="all", online_ddl=True)
    with running(cfg, spark) as run:
        run.wait_synced(mariadb_upstream)
        assert "1 running online changes" in run.unit.status().takenOver
    assert_equal(mariadb_upstream, tidb, "d.moved")


def _passes_its_checks(upstream: MariaDBServer, tidb: TiDBServer) -> None:
    """The check of online changes is not switched off."""
    task = load_task(
        f"name: t\ntask-mode: all\ntarget-database: {{host: 127.0.0.1, port: {tidb.port}, password: ''}}\n"
        "mysql-instances: [{source-id: source-1, block-allow-list: b}]\nblock-allow-list: {b: {do-dbs: [d]}}\n"
    )
    source = SourceConfig("source-1", upstream.db_config, flavor="mariadb", server_id=4_000_000)
    result = run_prechecks(replace(task, target=tidb.db_config), {"source-1": source})
    assert result.passed, result.text
    assert "it continues here" in result.text
