"""Hazard: a server's global defaults decide how its structures are shown, which rows a SELECT gives, or how a
transaction ends: sessions of the task inherit them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from deploy.local.targets import new_target
from dm_master.precheck import run_prechecks
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SourceConfig
from pkg.config.task import load_task
from tests.harness.full_copy import config, dump, load
from tests.harness.targets import TARGET
from tests.integration.syncer.support import running, subtask

#: ANSI_QUOTES shows names in double quotes, the limit hides rows, a chained transaction never ends.
_GLOBALS = {
    "sql_mode": "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
    "sql_quote_show_create": "0",
    "sql_select_limit": "3",
    "completion_type": "1",
    "unique_checks": "0",
}
_MODES_OF_MARIADB = "'ORACLE,NO_BACKSLASH_ESCAPES,EMPTY_STRING_IS_NULL'"


def _spoil(server: SQLServer) -> None:
    for name, value in _GLOBALS.items():
        server.execute(f"SET GLOBAL {name} = {value}")


@pytest.fixture(scope="module", params=["mariadb", "mysql", "mariadb-oracle"])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[SQLServer, SQLServer]]:
    upstream = MySQLServer(gtid=True) if request.param == "mysql" else MariaDBServer(gtid=True)
    target = new_target(TARGET)
    with up(upstream, target):
        upstream.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.`order` (id INT PRIMARY KEY, c CHAR(10),"
            r" `key` VARCHAR(20) DEFAULT 'a\'b', UNIQUE (`key`))",
            "INSERT INTO shop.`order` VALUES " + ", ".join(rf"({i}, '{i}\\', 'k{i}')" for i in range(10)),
        )
        for server in (upstream, target):
            _spoil(server)
        if request.param == "mariadb-oracle":
            for server in (upstream, target) if isinstance(target, MariaDBServer) else (upstream,):
                server.execute(f"SET GLOBAL sql_mode = {_MODES_OF_MARIADB}")
        yield upstream, target


_PLAIN = "SET sql_mode = '', sql_select_limit = 1000, completion_type = 0, unique_checks = 1"


def test_structures_and_rows_are_read_and_written_as_under_plain_defaults(
    servers: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path
) -> None:
    upstream, target = servers
    text = (
        f"name: t\ntask-mode: all\ntarget-database: {{host: 127.0.0.1, port: {target.port}, password: ''}}\n"
        "mysql-instances: [{source-id: s1}]\n"
    )
    task = replace(load_task(text), target=target.db_config)
    source = SourceConfig("s1", upstream.db_config, flavor=upstream.flavor, server_id=4_000_000)
    checked = run_prechecks(task, {"s1": source})
    assert checked.passed, checked.text
    start = subtask(upstream, target)
    cfg = config(upstream, target, tmp_path)
    dump(cfg, spark)
    load(cfg, spark)
    with running(start, spark) as run:
        upstream.execute(
            _PLAIN,
            "ALTER TABLE shop.`order` ADD COLUMN extra VARCHAR(9) NOT NULL DEFAULT 'x' AFTER id, ADD KEY (extra)",
            "UPDATE shop.`order` SET extra = id, `key` = CONCAT('new', id) WHERE id > 4",
            "DELETE FROM shop.`order` WHERE id = 0",
            "INSERT INTO shop.`order` VALUES (11, '', '', '')",
        )
        run.wait_synced(upstream)
    read = [server.execute(_PLAIN, "SELECT * FROM shop.`order` ORDER BY id") for server in servers]
    assert read[0] == read[1]
    assert len(read[0]) == 10
