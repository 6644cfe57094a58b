"""Hazards: a connection in plain text where the server speaks TLS, a path that only works in plain text, a server that
is not the one that was meant."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import up, wait_until
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import Meta
from pkg.errors import Code, DMError
from pkg.mysql.connection import connect
from pkg.mysql.introspect import query
from pkg.settings.connections import DBConfig, SecurityConfig
from tests.harness import full_copy
from tests.harness.certificates import Authority
from tests.harness.running_relay import RunningRelay, same_files
from tests.integration.syncer.support import assert_equal, location, running, subtask

_TLS_ONLY = "--require-secure-transport=ON"


@dataclass(frozen=True)
class Secured:
    """Servers that take TLS alone, and who signed their certificates: only the upstream's is for its address."""

    upstream: MariaDBServer
    target: MariaDBServer
    authority: Authority

    def verified(self, server: MariaDBServer, *allowed: str) -> DBConfig:
        security = SecurityConfig(ssl_ca=self.authority.path, cert_allowed_cn=allowed)
        return replace(server.db_config, security=security)


@pytest.fixture(scope="module")
def _secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    options = [
        [f"--ssl-ca={own.ssl_ca}", f"--ssl-cert={own.ssl_cert}", f"--ssl-key={own.ssl_key}", _TLS_ONLY]
        for own in (authority.issue("upstream"), authority.issue("target", hosts=["db.example", "192.0.2.7"]))
    ]
    made = MariaDBServer(gtid=True, extra=options[0]), MariaDBServer(extra=options[1], binlog=False)
    with up(*made):
        yield Secured(*made, authority)


@pytest.fixture
def secured(_secured: Secured) -> Secured:
    _secured.upstream.wipe()
    _secured.target.wipe()
    return _secured


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
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", _no_certificates)
    assert _cipher(secured.upstream.db_config)
    assert _cipher(mariadb_upstream.db_config) == ""


def test_a_server_of_another_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    assert _cipher(secured.verified(secured.upstream))
    (tmp_path / "other").mkdir()
    other = SecurityConfig(ssl_ca=Authority(tmp_path / "other").path)
    with pytest.raises(DMError) as caught:
        connect(replace(secured.upstream.db_config, security=other), scope="upstream")
    assert caught.value.kind is Code.DBDriverError
    assert "certificate" in str(caught.value).lower()


def _refused(cfg: DBConfig) -> DMError:
    with pytest.raises(DMError) as caught:
        connect(cfg, scope="downstream")
    assert caught.value.kind is Code.DBDriverError
    assert not caught.value.retryable
    return caught.value


def test_a_server_whose_certificate_is_for_another_host_is_refused_before_it_gets_the_password(
    secured: Secured,
) -> None:
    target = secured.target
    names = "'Aborted_connects', 'Aborted_connects_preauth'"

    def ended() -> list[int]:
        return [int(count) for _, count in target.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})")]

    before = ended()
    refused = _refused(secured.verified(target))
    assert f"root@127.0.0.1:{target.port} cannot be verified as the configured server" in refused.message
    assert "IP address mismatch" in refused.message
    assert "cert-allowed-cn" in refused.workaround
    wait_until(lambda: ended() == [count + 1 for count in before], "a connection that ended before its login", 60)
    localhost = replace(secured.verified(secured.upstream), host="localhost")
    assert _cipher(localhost)
    assert "Hostname mismatch" in _refused(replace(secured.verified(target), host="localhost")).message


@pytest.mark.parametrize("allowed", [("target",), ("other", "target"), ("db.example",), ("192.0.2.7",)])
def test_a_server_that_bears_an_allowed_name_may_be_anywhere(secured: Secured, allowed: tuple[str, ...]) -> None:
    assert _cipher(secured.verified(secured.target, *allowed))


@pytest.mark.parametrize("allowed", ["upstream2", "test authority", "127.0.0.1", ""])
def test_a_server_under_another_name_than_those_allowed_is_refused(secured: Secured, allowed: str) -> None:
    """Also where the address fits."""
    refused = _refused(secured.verified(secured.target, allowed))
    assert f"is for target, db.example, 192.0.2.7, cert-allowed-cn allows {allowed}" in refused.message
    assert "allows target" in _refused(secured.verified(secured.upstream, "target")).message


def test_a_name_without_the_authoritys_signature_is_worth_nothing(
    secured: Secured, tmp_path: Path, new_mariadb: Callable[..., MariaDBServer]
) -> None:
    refused = _refused(replace(secured.target.db_config, security=SecurityConfig(cert_allowed_cn=("target",))))
    assert "self-signed certificate in certificate chain" in refused.message
    (tmp_path / "other").mkdir()
    own = Authority(tmp_path / "other").issue("target")
    impostor = new_mariadb(extra=[f"--ssl-cert={own.ssl_cert}", f"--ssl-key={own.ssl_key}"], binlog=False)
    assert "certificate" in _refused(secured.verified(impostor, "target")).message
    assert "certificate" in _refused(secured.verified(impostor)).message


def test_encryption_alone_takes_any_server(secured: Secured) -> None:
    """``security`` with nothing but the client's own certificate."""
    own = secured.authority.issue("client")
    mine = SecurityConfig(ssl_cert=own.ssl_cert, ssl_key=own.ssl_key)
    assert _cipher(replace(secured.target.db_config, security=mine))


def test_a_server_without_tls_is_refused_when_it_is_asked_for(
    secured: Secured, mariadb_upstream: MariaDBServer
) -> None:
    with pytest.raises(DMError) as caught:
        connect(secured.verified(mariadb_upstream), scope="upstream")
    assert caught.value.kind is Code.DBDriverError


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
    source, sink = secured.verified(upstream), secured.verified(target, "target")
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
    with RunningRelay(upstream, tmp_path / "relay", from_=secured.verified(upstream)) as relay_log:
        for i in range(3):
            upstream.execute(f"INSERT INTO s.t VALUES ({i}, REPEAT('y', 20000000))", "FLUSH BINARY LOGS")
        relay_log.caught_up()
        assert len(same_files(upstream, relay_log.subdir())) == 4
