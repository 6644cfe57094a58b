"""Hazard: the relay's files differ from the upstream's where a server omits, invents or repeats events."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import SQLServer
from pkg.binlog.gtid import parse_gtid_set
from tests.harness.running_relay import RunningRelay, binlog_end, same_files
from tests.integration.binlog_replay import here


@pytest.fixture(params=["mariadb", "mariadb_11_8", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


def work(server: SQLServer, rows: int = 50) -> None:
    """Transactions of every shape that both servers write."""
    server.execute(
        "CREATE DATABASE IF NOT EXISTS r",
        "CREATE TABLE IF NOT EXISTS r.t (a INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB",
        "CREATE TABLE IF NOT EXISTS r.m (a INT) ENGINE=MyISAM",
        *[f"INSERT INTO r.t (b) VALUES (REPEAT('{n % 10}', {n * 7}))" for n in range(rows)],
        "INSERT INTO r.m VALUES (1), (2)",
        "BEGIN",
        "INSERT INTO r.t (b) VALUES ('x')",
        "SAVEPOINT s",
        # MySQL with GTIDs refuses to mix engines in a transaction.
        *(["INSERT INTO r.m VALUES (3)"] if server.flavor == "mariadb" else []),
        "INSERT INTO r.t (b) VALUES ('gone')",
        "ROLLBACK TO s",
        "COMMIT",
        "ALTER TABLE r.t COMMENT 'c'",
    )


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_files_through_rotations_and_both_checksums(upstream: SQLServer, tmp_path: Path, checksum: str) -> None:
    before = upstream.execute("SELECT @@GLOBAL.binlog_checksum")[0][0]
    size = upstream.execute("SELECT @@GLOBAL.max_binlog_size")[0][0]
    upstream.execute(f"SET GLOBAL binlog_checksum={checksum}", "FLUSH LOGS")
    first = binlog_end(upstream).name
    try:
        work(upstream)
        with RunningRelay(upstream, tmp_path) as relay_log:
            relay_log.caught_up()
            upstream.execute("SET GLOBAL max_binlog_size=4096")
            work(upstream)
            upstream.execute("FLUSH LOGS")
            # While the relay reads: the dump that is under way has the other kind of checksum now.
            upstream.execute(f"SET GLOBAL binlog_checksum={'NONE' if checksum == 'CRC32' else 'CRC32'}")
            work(upstream, 5)
            status = relay_log.caught_up()
            assert len(same_files(upstream, relay_log.subdir(), first=first)) > 4
            executed = parse_gtid_set(here(upstream).gtid_set, upstream.flavor)
            assert parse_gtid_set(status.relayBinlogGtid, upstream.flavor) == executed
    finally:
        upstream.execute(f"SET GLOBAL binlog_checksum={before}, GLOBAL max_binlog_size={size}")
