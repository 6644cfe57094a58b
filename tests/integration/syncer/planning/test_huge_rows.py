"""Hazards: an event beyond the protocol's packets of 16 MiB, a row that the target does not take, a raised limit that
connections from before do not know."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.engine.engine import SparkEngine
from tests.integration.syncer.support import run_until_synced, running, subtask

MIB = 1 << 20
TABLE = "CREATE TABLE d.t (id INT PRIMARY KEY, c LONGTEXT, b LONGBLOB)"
CONTENT = "SELECT id, LENGTH(c), MD5(c), LENGTH(b), MD5(b) FROM d.t ORDER BY id"

pytestmark = pytest.mark.timeout(600)


def packets(server: MariaDBServer, mib: int) -> None:
    server.execute(f"SET GLOBAL max_allowed_packet = {mib * MIB}")


@pytest.fixture
def servers(new_mariadb: Callable[..., MariaDBServer]) -> tuple[MariaDBServer, MariaDBServer]:
    source, target = new_mariadb(), new_mariadb(binlog=False)
    for server in (source, target):
        server.execute("CREATE DATABASE d", TABLE)
        packets(server, 256)
    return source, target


def test_row_of_64_mib_and_one_beyond_the_target_s_limit(
    servers: tuple[MariaDBServer, MariaDBServer], spark: SparkEngine
) -> None:
    source, target = servers
    cfg = subtask(source, target)
    packed = f"REPEAT(UNHEX('00FF275C0A1A22'), {17 * MIB // 7})"
    with running(cfg, spark) as run:
        source.execute(
            f"INSERT INTO d.t VALUES (1, REPEAT('abcdefg\\'', {8 * MIB}), NULL), (2, 'small', {packed})",
            # Both images in one event: more than 128 MiB.
            "UPDATE d.t SET c = CONCAT('z', c) WHERE id = 1",
            # Statements within a few bytes of the packets' limit.
            *(f"INSERT INTO d.t VALUES ({i}, REPEAT('q', {16 * MIB - 60 + i}), NULL)" for i in (10, 11)),
        )
        run.wait_synced(source, 300)
        assert target.execute(CONTENT) == source.execute(CONTENT)
    packets(target, 16)
    # Connections keep the limit that they were opened under.
    target.end_connections(lambda row: row[4] == "Sleep")
    with running(cfg, spark) as run:
        source.execute("INSERT INTO d.t VALUES (20, 'small', NULL)")
        run.wait_synced(source)
        source.execute(f"INSERT INTO d.t VALUES (21, REPEAT('r', {20 * MIB}), NULL)")
        (error,) = run.wait_ended().errors
    assert "max_allowed_packet" in error.message
    assert "`d`.`t`" in error.message
    assert "21" in error.message
    assert f"{16 * MIB} bytes" in error.message
    assert "SET GLOBAL max_allowed_packet" in error.workaround
    assert not error.retryable
    # Resumed when the limit is raised: connections from before it don't count.
    packets(target, 64)
    run_until_synced(cfg, spark, source)
    assert target.execute(CONTENT) == source.execute(CONTENT)
