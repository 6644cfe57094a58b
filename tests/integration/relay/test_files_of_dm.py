"""Hazard: relay files that DM fetched are refused, fetched again, or continued at the wrong position."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.harness.running_relay import IN_USE_AT, RunningRelay, binlog_end, same_files


def _name_of(server: SQLServer) -> str:
    """What DM calls a server in the names of sub-folders."""
    if isinstance(server, MariaDBServer):
        domain, number = server.execute("SELECT @@gtid_domain_id, @@server_id")[0]
        return f"{domain}-{number}"
    return str(server.execute("SELECT @@server_uuid")[0][0])


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_a_relay_goes_on_with_the_files_of_dm(
    flavor: str, mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, tmp_path: Path
) -> None:
    """DM stopped within a transaction, and its relay.meta is up to 30 seconds old."""
    server: SQLServer = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    server.execute("CREATE DATABASE r", "CREATE TABLE r.t (a INT PRIMARY KEY, b TEXT)", "FLUSH LOGS")
    server.execute("INSERT INTO r.t VALUES (1, 'x')")
    recorded = binlog_end(server)
    server.execute("INSERT INTO r.t VALUES (2, REPEAT('y', 2000))")
    data = bytearray((server.data / recorded.name).read_bytes())
    data[IN_USE_AT] &= ~1  # a server does not send it
    subdir = tmp_path / f"{_name_of(server)}.000001"
    subdir.mkdir()
    (subdir / recorded.name).write_bytes(data[:-100])
    (subdir / "relay.meta").write_text(
        f'binlog-name = "{recorded.name}"\nbinlog-pos = {recorded.pos}\nbinlog-gtid = ""\n'
    )
    (tmp_path / "server-uuid.index").write_text(f"{subdir.name}\n")
    server.execute("INSERT INTO r.t VALUES (3, 'z')", "FLUSH LOGS", "INSERT INTO r.t VALUES (4, 'z')")
    before = (subdir / recorded.name).stat().st_ino
    with RunningRelay(server, tmp_path) as relay_log:
        relay_log.caught_up()
        assert [one.name for one in relay_log.folder.subdirs()] == [subdir.name]
        assert same_files(server, relay_log.subdir(), first=recorded.name)
    assert (subdir / recorded.name).stat().st_ino == before
