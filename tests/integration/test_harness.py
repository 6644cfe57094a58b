"""The servers of the harness are the real things, configured as upstreams and target need them."""

from __future__ import annotations

from pkg.mysql.connection import connect
from pkg.mysql.introspect import fetch_table_info, list_tables, master_status, server_info
from tests.harness.etcd import EtcdServer
from tests.harness.mysql import MariaDBServer, MySQLServer, SQLServer


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


def test_mysql_upstream_has_binlog_and_gtid(mysql_upstream: MySQLServer) -> None:
    _check_upstream(mysql_upstream, "mysql")


def test_etcd_keeps_running_over_a_kill(etcd: EtcdServer) -> None:
    etcd.kill()
    assert not etcd.running()
    etcd.start()
    assert etcd.ready()
