"""Hazard: a task that starts by time begins before or behind the first transaction of that time."""

from __future__ import annotations

import pytest

from deploy.local.mysql import SQLServer
from deploy.local.process import wait_until
from dm_master.task_setup.start_time import start_at
from dm_master.task_setup.task_end import Moment, parse_moment
from pkg.binlog.streams.server_position import master_status
from pkg.config.model import Meta, SubTaskConfig
from pkg.errors import Code, DMError


def now(server: SQLServer) -> int:
    return int(server.execute("SELECT UNIX_TIMESTAMP()")[0][0])


def next_second(server: SQLServer) -> int:
    before = now(server)
    wait_until(lambda: now(server) > before, "the next second has begun")
    return now(server)


def place(server: SQLServer) -> Meta:
    conn = server.connect()
    try:
        found = master_status(conn, server.flavor)
    finally:
        conn.close()
    assert found is not None
    return Meta(found.position.name, found.position.pos, found.gtid_set)


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_task_starts_at_the_first_transaction_of_a_time(kind: str, request: pytest.FixtureRequest) -> None:
    server: SQLServer = request.getfixturevalue(f"{kind}_upstream")
    server.execute("FLUSH BINARY LOGS", "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    known = []
    for number in range(4):
        seconds = next_second(server)
        if number == 2:
            server.execute("FLUSH BINARY LOGS")
            seconds = next_second(server)
        known.append((seconds, place(server)))
        server.execute(f"INSERT INTO d.t VALUES ({number})")
    cfg = SubTaskConfig(
        name="by_time",
        source_id="s",
        task_mode="incremental",
        from_=server.db_config,
        to=server.db_config,
        flavor=server.flavor,
        enable_gtid=True,
    )
    for seconds, expected in known:
        found = start_at(cfg, Moment("", seconds), removes_meta=False)
        assert (found.binlog_name, found.binlog_gtid) == (expected.binlog_name, expected.binlog_gtid)
        # MariaDB writes a BINLOG_CHECKPOINT of its own some time after a FLUSH.
        assert found.binlog_pos == expected.binlog_pos or server.flavor == "mariadb"
    shown = server.execute("SET time_zone = @@GLOBAL.time_zone", f"SELECT FROM_UNIXTIME({known[3][0]})")[0][0]
    assert start_at(cfg, parse_moment(str(shown), ""), removes_meta=False).binlog_gtid == known[3][1].binlog_gtid
    # Files without transactions may be passed over.
    assert start_at(cfg, Moment("", 1), removes_meta=False).binlog_name <= known[0][1].binlog_name
    with pytest.raises(DMError) as caught:
        start_at(cfg, Moment("later", now(server) + 60), removes_meta=False)
    assert caught.value.kind is Code.ConfigStartTimeTooLate
    with pytest.raises(DMError) as caught:
        start_at(cfg, parse_moment("2999-01-01 00:00:00", ""), removes_meta=False)
    assert caught.value.kind is Code.MasterInvalidOperateOp
