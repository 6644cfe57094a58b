"""The servers of the harness are the real things, configured as upstreams and target need them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import HarnessError, wait_until
from pkg.binlog.streams.server_position import master_status
from pkg.mysql.connection import connect
from pkg.mysql.introspect import fetch_table_info, list_tables, server_info
from tests.harness.etcd import EtcdServer
from tests.harness.proctree import command_of, kill_hard

ROOT = Path(__file__).resolve().parents[2]


def _check_upstream(server: SQLServer, flavor: str) -> None:
    server.execute(
        "CREATE DATABASE d", "CREATE TABLE d.t (id INT UNSIGNED PRIMARY KEY, v VARCHAR(9) NOT NULL, UNIQUE (v(3)))"
    )
    conn = connect(server.db_config, scope="upstream")
    info = server_info(conn)
    assert (info.flavor, info.gtid_on, info.server_id) == (flavor, True, server.server_id)
    status = master_status(conn, flavor)
    assert status is not None
    assert status.position.name.startswith("mysql-bin.")
    assert status.gtid_set
    assert list_tables(conn, "d") == ["t"]
    table = fetch_table_info(conn, "d", "t")
    assert table is not None
    assert [(c.name, c.type_name, c.unsigned, c.nullable) for c in table.columns] == [
        ("id", "int", True, False),
        ("v", "varchar", False, False),
    ]
    assert [(k.name, k.parts[0].length) for k in table.unique_keys] == [("PRIMARY", 0), ("v", 3)]
    assert table.charset == "utf8mb4"
    conn.close()


def test_mariadb_upstream_has_binlog_and_gtid(mariadb_upstream: MariaDBServer) -> None:
    _check_upstream(mariadb_upstream, "mariadb")


def test_mariadb_11_8_upstream_has_binlog_and_gtid_and_survives_a_kill(mariadb_11_8_upstream: MariaDBServer) -> None:
    _check_upstream(mariadb_11_8_upstream, "mariadb")
    mariadb_11_8_upstream.kill()
    mariadb_11_8_upstream.start()
    (version, legacy), *_ = mariadb_11_8_upstream.execute("SELECT VERSION(), @@binlog_legacy_event_pos")
    assert str(version).startswith("11.8.")
    assert not legacy
    assert mariadb_11_8_upstream.execute("SELECT COUNT(*) FROM d.t") == [(0,)]


def test_mysql_upstream_has_binlog_and_gtid(mysql_upstream: MySQLServer) -> None:
    _check_upstream(mysql_upstream, "mysql")


def test_etcd_keeps_running_over_a_kill(etcd: EtcdServer) -> None:
    etcd.kill()
    assert not etcd.running()
    etcd.start()
    assert etcd.ready()


_TESTS_THAT_HANG = """\
import sys, threading, time
from pathlib import Path
from deploy.local.process import Process

class Sleeper(Process):
    name = "sleeper"
    outlives = sys.argv[2] == "outlives"
    def command(self):
        return ["sleep", "600"]
    def ready(self):
        return Path(f"/proc/{self.pid}/comm").read_text() == "sleep\\n"

sleeper = Sleeper(Path(sys.argv[1]))
# A thread that ends must not take what it started with it.
starter = threading.Thread(target=sleeper.start)
starter.start()
starter.join()
time.sleep(0.3)
print(sleeper.pid, sleeper.running(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("outlives", [False, True])
def test_servers_die_with_killed_tests_unless_they_shall_stay(tmp_path: Path, outlives: bool) -> None:
    arguments = [sys.executable, "-c", _TESTS_THAT_HANG, str(tmp_path), "outlives" if outlives else "dies"]
    tests = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert tests.stdout is not None
    pid_text, running = tests.stdout.readline().split()
    pid = int(pid_text)
    try:
        assert running == "True"
        tests.kill()
        tests.wait()
        if outlives:
            with pytest.raises(HarnessError):
                wait_until(lambda: not command_of(pid), "the kept process ended", 1)
        else:
            wait_until(lambda: not command_of(pid), "the server died with the tests")
    finally:
        tests.kill()
        tests.stdout.close()
        if outlives:
            assert kill_hard(pid)
