"""Hazards: a connection in plain text where the server speaks TLS, a path that only works in plain text, a server that
is not the one that was meant."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dm_worker.spark import SparkEngine
from pkg.config.model import DBConfig, Meta, SecurityConfig
from pkg.errors import DMError
from pkg.mysql.connection import connect
from pkg.mysql.introspect import query
from tests.harness.certificates import Authority
from tests.harness.mysql import MariaDBServer
from tests.integration import full_copy
from tests.integration.relay.pulling import Pulled, same_files
from tests.integration.syncer.support import assert_equal, location, running, subtask


@dataclass(frozen=True)
class Secured:
    """Servers that take TLS alone, and who signed their certificates."""

    upstream: MariaDBServer
    target: MariaDBServer
    authority: Authority

    def verified(self, server: MariaDBServer) -> DBConfig:
        return replace(server.db_config, security=SecurityConfig(ssl_ca=self.authority.path))


@pytest.fixture
def secured(new_mariadb: Callable[..., MariaDBServer], tmp_path: Path) -> Secured:
    authority = Authority(tmp_path)
    own = authority.issue("server")
    options = [f"--ssl-ca={own.ssl_ca}", f"--ssl-cert={own.ssl_cert}", f"--ssl-key={own.ssl_key}"]
    options.append("--require-secure-transport=ON")
    return Secured(new_mariadb(gtid=True, extra=options), new_mariadb(extra=options, binlog=False), authority)


def _cipher(cfg: DBConfig) -> str:
    conn = connect(cfg, scope="upstream")
    try:
        return str(query(conn, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1])
    finally:
        conn.close()


def _no_certificates(*_: object, **__: object) -> ssl.SSLContext:
    raise AssertionError("the system's certificates are read")


def test_without_settings_tls_is_used_where_it_is_offered(
    secured: Secured, mariadb_upstream: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssl, "create_default_context", _no_certificates)
    assert _cipher(secured.upstream.db_config)
    assert _cipher(mariadb_upstream.db_config) == ""


def test_a_server_of_another_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    assert _cipher(secured.verified(secured.upstream))
    (tmp_path / "other").mkdir()
    other = SecurityConfig(ssl_ca=Authority(tmp_path / "other").path)
    with pytest.raises(DMError) as caught:
        connect(replace(secured.upstream.db_config, security=other), scope="upstream")
    assert caught.value.code == 10001
    assert "certificate" in str(caught.value).lower()


def test_a_server_without_tls_is_refused_when_it_is_asked_for(
    secured: Secured, mariadb_upstream: MariaDBServer
) -> None:
    with pytest.raises(DMError) as caught:
        connect(secured.verified(mariadb_upstream), scope="upstream")
    assert caught.value.code == 10001


def test_a_migration_over_tls(secured: Secured, spark: SparkEngine, tmp_path: Path) -> None:
    """Dump, load with LOAD DATA and bulk executions, replication in batches of both sizes."""
    upstream, target = secured.upstream, secured.target
    upstream.execute(
        "CREATE DATABASE s",
        "CREATE TABLE s.t (id INT PRIMARY KEY, v VARCHAR(200), b LONGBLOB)",
        "INSERT INTO s.t SELECT seq, REPEAT('x', seq % 200), IF(seq % 1000, NULL, REPEAT('y', 100000))"
        " FROM s.seq_1_to_5000",
    )
    start = location(upstream)
    source, sink = secured.verified(upstream), secured.verified(target)
    cfg = full_copy.config(upstream, target, tmp_path, from_=source, to=sink)
    full_copy.dump(cfg, spark)
    full_copy.load(cfg, spark)
    assert_equal(upstream, target, "s.t")
    upstream.execute(
        "UPDATE s.t SET v = CONCAT('new', id) WHERE id % 3 = 0",
        "INSERT INTO s.t SELECT seq, REPEAT('z', 190), NULL FROM s.seq_6000_to_100000",
        "DELETE FROM s.t WHERE id % 7 = 0",
    )
    meta = Meta(start.position.name, start.position.pos, start.gtid_set)
    with running(subtask(upstream, target, meta=meta, from_=source, to=sink), spark) as run:
        run.wait_synced(upstream)
        upstream.execute("INSERT INTO s.t VALUES (-1, 'last', NULL)")
        run.wait_synced(upstream)
    assert_equal(upstream, target, "s.t")


def test_the_relay_over_tls(secured: Secured, tmp_path: Path) -> None:
    upstream = secured.upstream
    upstream.execute("CREATE DATABASE s", "CREATE TABLE s.t (id INT PRIMARY KEY, b LONGBLOB)")
    with Pulled(upstream, tmp_path / "relay", from_=secured.verified(upstream)) as pulled:
        for i in range(3):
            upstream.execute(f"INSERT INTO s.t VALUES ({i}, REPEAT('y', 20000000))", "FLUSH BINARY LOGS")
        pulled.caught_up()
        assert len(same_files(upstream, pulled.subdir())) == 4
