"""Passwords are encrypted once; every process that needs them can use them, and nothing else shows them."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import wait_until
from pkg.etcd import EtcdClient
from pkg.settings.etcd_user import EtcdUser
from tests.harness.certified import certify, validated
from tests.harness.proctree import command_of, descendants

KEY = "00112233445566778899aabbccddeeff" * 2
UPSTREAM_PASSWORD = "Upstr3am-'quoted\"-password"
TARGET_PASSWORD = "T4rget-password-%s"
ETCD_PASSWORD = "3tcd-'quoted\"-password"
TASK = """\
name: quiet
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: dm, password: "{password}"}}
mysql-instances:
  - {{source-id: s1, block-allow-list: mine}}
block-allow-list:
  mine: {{do-dbs: [quiet]}}
"""
SOURCE = """\
source-id: s1
from: {{host: 127.0.0.1, port: {port}, user: dm, password: "{password}"}}
"""


def _account(server: MariaDBServer, password: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER dm@'%%' IDENTIFIED BY %s", (password,))
        cursor.execute("GRANT ALL ON *.* TO dm@'%'")


def _asks_for_password(etcd_port: int, file: Path) -> bool:
    with EtcdClient([f"127.0.0.1:{etcd_port}"], user=EtcdUser("root", str(file))) as client:
        return client.asks_for_password()


def _http(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


@pytest.fixture
def accounts(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> Iterator[None]:
    """The user ``dm`` on both servers, which others use after this test."""
    _account(mariadb_upstream, UPSTREAM_PASSWORD)
    _account(target, TARGET_PASSWORD)
    yield
    for server in (mariadb_upstream, target):
        server.execute("DROP USER dm@'%'")


@pytest.mark.usefixtures("accounts")
def test_an_encrypted_password_works_and_shows_nowhere(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE quiet", "CREATE TABLE quiet.t (id INT PRIMARY KEY)", "INSERT INTO quiet.t VALUES (1),(2)"
    )
    key = tmp_path / "key"
    key.write_text(KEY)
    (tmp_path / "etcd").write_text(ETCD_PASSWORD)
    extra = f'log-level = "debug"\nsecret-key-path = "{key}"\n'
    extra += f'etcd-username = "root"\netcd-password-path = "{tmp_path}/etcd"\n'
    with Cluster(1, base=tmp_path, master_extra=extra, worker_extra=extra) as cluster:
        assert _asks_for_password(cluster.master.etcd_port, tmp_path / "etcd")
        encrypted = [cluster.dmctl_text("encrypt", text).strip() for text in (UPSTREAM_PASSWORD, TARGET_PASSWORD)]
        source, task = tmp_path / "source.yaml", tmp_path / "task.yaml"
        source.write_text(SOURCE.format(port=mariadb_upstream.port, password=encrypted[0]))
        task.write_text(validated(TASK.format(port=target.port, password=encrypted[1])))
        cluster.ok("operate-source", "create", str(source))
        cluster.ok("check-task", str(task))
        cluster.ok("start-task", str(task))
        cluster.wait_stage("quiet", "Running", unit="Sync")
        mariadb_upstream.execute("INSERT INTO quiet.t VALUES (3)")
        cluster.wait_synced("quiet")
        assert target.execute("SELECT id FROM quiet.t ORDER BY id") == [(1,), (2,), (3,)]
        certify(cluster, "quiet")
        # The passwords change during a running task: the errors must not show them either.
        for server in (mariadb_upstream, target):
            server.execute("ALTER USER dm@'%' IDENTIFIED BY 'another'")
        cluster.ok("pause-task", "quiet")
        cluster.dmctl("resume-task", "quiet")
        wait_until(lambda: "Error 1045 (28000)" in cluster.dmctl_text("query-status", "quiet"), "refused", 60)
        said = [
            cluster.dmctl_text(*words)
            for words in (
                ("query-status", "--more"),
                ("config", "task", "quiet"),
                ("config", "source", "s1"),
                ("config", "master", "master1"),
                ("config", "worker", "worker1"),
                ("operate-source", "show"),
                ("list-member",),
            )
        ]
        said.append(_http(cluster.master.port, "/apis/v1alpha1/subtasks/quiet"))
        said += [_http(port, "/metrics") for port in (cluster.master.port, cluster.workers[0].port)]
        said += [process.log.read_text() for process in (cluster.master, cluster.workers[0])]
        said += [_command_lines()]
        for secret in (UPSTREAM_PASSWORD, TARGET_PASSWORD, ETCD_PASSWORD, KEY, *encrypted):
            for text in said:
                assert secret not in text
                assert repr(secret)[1:-1] not in text


def _command_lines() -> str:
    """The command lines of this run's processes, readable by every user; another run may be encrypting now."""
    return "\n".join(map(command_of, descendants(os.getpid())))
