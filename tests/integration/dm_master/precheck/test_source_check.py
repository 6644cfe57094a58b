"""Hazards: a source stored with a wrong flavor or with another replica's server-id, a task that starts nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import free_port, wait_until
from dm_master.precheck import check_source
from dm_master.task_setup.server_steps import fill_start_position
from dm_master.task_setup.task_split import split_task
from pkg.binlog.position import Position
from pkg.binlog.streams.server_stream import open_upstream
from pkg.config.model import SourceConfig
from pkg.config.task import load_task
from pkg.errors import Code, DMError
from pkg.mysql.introspect import query
from pkg.settings.connections import DBConfig
from tests.integration.binlog_replay import here


def _source(server: SQLServer, **changes: object) -> SourceConfig:
    return replace(SourceConfig("s1", server.db_config), **changes)  # type: ignore[arg-type]


def test_flavor_and_server_id_are_filled_in(mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer) -> None:
    for server in (mariadb_upstream, mysql_upstream):
        checked = check_source(_source(server, enable_gtid=True))
        assert checked.flavor == server.flavor
        assert 429496729 <= checked.server_id < 429496729 + 100000
        assert check_source(checked) == checked


def test_privileges_that_tasks_will_need_are_named(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer
) -> None:
    for server in (mariadb_upstream, mysql_upstream):
        warnings: list[str] = []
        check_source(_source(server), warnings)
        assert warnings == []
        server.execute("CREATE USER few@'127.0.0.1' IDENTIFIED BY ''", "GRANT SELECT, RELOAD ON *.* TO few@'127.0.0.1'")
        try:
            check_source(_source(server, from_=replace(server.db_config, user="few")), warnings)
        finally:
            server.execute("DROP USER few@'127.0.0.1'")
        (warning,) = warnings
        assert "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'few'" in warning


def test_upstreams_own_server_id_is_refused(mariadb_upstream: MariaDBServer) -> None:
    with pytest.raises(DMError) as caught:
        check_source(_source(mariadb_upstream, server_id=mariadb_upstream.server_id))
    assert caught.value.kind is Code.InvalidServerID


def test_a_reader_that_has_just_gone_does_not_hold_its_server_id(mariadb_upstream: MariaDBServer) -> None:
    """A relay that was stopped: the server shows it until it has something to send."""
    stream = open_upstream(
        mariadb_upstream.db_config, here(mariadb_upstream), flavor="mariadb", server_id=4711, use_gtid=False
    )
    conn = mariadb_upstream.connect()
    wait_until(lambda: 4711 in [row[0] for row in query(conn, "SHOW SLAVE HOSTS")], "the reader is shown", 60)
    conn.close()
    stream.close()
    assert check_source(_source(mariadb_upstream, server_id=4711)).server_id == 4711


def test_wrong_flavor_is_refused(mariadb_upstream: MariaDBServer) -> None:
    with pytest.raises(DMError) as caught:
        check_source(_source(mariadb_upstream, flavor="mysql"))
    assert caught.value.kind is Code.NotSupportedFlavor
    assert "flavor: mariadb" in caught.value.workaround


def test_gtid_asked_but_off() -> None:
    server = MySQLServer()
    try:
        server.start()
        assert check_source(_source(server)).enable_gtid is False
        with pytest.raises(DMError) as caught:
            check_source(_source(server, enable_gtid=True))
    finally:
        server.cleanup()
    assert caught.value.kind is Code.SourceCheckGTID
    assert caught.value.workaround


def test_unreachable_upstream_and_wrong_password(mysql_upstream: MySQLServer) -> None:
    with pytest.raises(DMError, match="connect: connection refused"):
        check_source(_source(mysql_upstream, from_=DBConfig("127.0.0.1", free_port())))
    wrong = replace(mysql_upstream.db_config, user="nobody", password="hunter2")
    with pytest.raises(DMError, match="1045") as caught:
        check_source(_source(mysql_upstream, from_=wrong))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_incremental_without_meta_starts_now(
    flavor: str, mysql_upstream: MySQLServer, mariadb_upstream: MariaDBServer
) -> None:
    server: SQLServer = mysql_upstream if flavor == "mysql" else mariadb_upstream
    server.execute("CREATE DATABASE a")
    text = "name: t\ntask-mode: incremental\ntarget-database: {host: h, port: 1}\nmysql-instances: [{source-id: s1}]\n"
    (subtask,) = split_task(load_task(text), {"s1": _source(server)})
    before = here(server).position
    meta = fill_start_position(subtask).meta
    assert meta is not None
    # MariaDB may write a BINLOG_CHECKPOINT in between, some time after an earlier test's FLUSH.
    assert before <= Position(meta.binlog_name, meta.binlog_pos) <= here(server).position
    variable = "gtid_executed" if flavor == "mysql" else "gtid_binlog_pos"
    assert meta.binlog_gtid == server.execute(f"SELECT @@GLOBAL.{variable}")[0][0]
    (whole,) = split_task(load_task(text.replace("incremental", "all")), {"s1": _source(server)})
    assert fill_start_position(whole) is whole
