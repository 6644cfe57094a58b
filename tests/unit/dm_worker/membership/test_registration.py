"""Hazard: a worker cannot join although one master would accept it, or hides why it was refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.process import free_port
from dm_master.service.secret_key import key_for
from dm_worker.membership.registration import Registration, register
from pkg.errors import Code, DMError
from tests.harness.certificates import Authority
from tests.harness.registering_master import RegisteringMaster

ETCD = "127.0.0.1:2379"


@pytest.fixture
def master() -> Iterator[RegisteringMaster]:
    master = RegisteringMaster(ETCD)
    yield master
    master.close()


def test_a_dead_master_is_skipped(master: RegisteringMaster) -> None:
    answer = register([f"127.0.0.1:{free_port()}", master.address], "w1", "10.0.0.1:8262", None)
    assert answer.etcd_endpoints == (ETCD,)
    assert master.registered == {"w1": "10.0.0.1:8262"}


def test_every_masters_reason_is_reported() -> None:
    masters = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(DMError) as caught:
        register(masters, "w1", "10.0.0.1:8262", None)
    assert (caught.value.code, caught.value.retryable) == (40077, True)
    assert all(master in caught.value.raw_cause for master in masters)


def test_a_taken_name_is_final(master: RegisteringMaster) -> None:
    register([master.address], "w1", "10.0.0.1:8262", None)
    with pytest.raises(DMError) as caught:
        register([master.address], "w1", "10.0.0.2:8262", None)
    assert (caught.value.code, caught.value.retryable) == (46003, False)


def test_an_answer_without_endpoints_is_refused() -> None:
    master = RegisteringMaster(ETCD)
    master.endpoints = []
    try:
        with pytest.raises(DMError, match="40077") as caught:
            register([master.address], "w1", "10.0.0.1:8262", None)
        assert "not answer with a list of endpoints" in caught.value.raw_cause
    finally:
        master.close()


def test_a_worker_keeps_its_own_secret_key_and_takes_no_other(master: RegisteringMaster) -> None:
    def joined(told: bytes, own: bytes) -> bytes:
        master.secret_key = told
        return register([master.address], "w1", "10.0.0.1:8262", None, own).secret_key

    ours = b"o" * 32
    assert [joined(b"", ours), joined(ours, ours), joined(ours, b""), joined(b"", b"")] == [ours, ours, ours, b""]
    with pytest.raises(DMError) as caught:
        joined(b"t" * 32, ours)
    assert (caught.value.code, caught.value.retryable) == (20067, False)


def test_a_worker_without_the_clusters_secret_key_says_what_to_configure(master: RegisteringMaster) -> None:
    with pytest.raises(DMError) as refused:
        key_for("w1", b"", key=b"k" * 32, mutual=False)
    master.refusal = str(refused.value)
    with pytest.raises(DMError) as caught:
        register([master.address], "w1", "10.0.0.1:8262", None)
    assert (caught.value.code, caught.value.retryable) == (20067, False)
    assert "masters hand out over mutual TLS only" in caught.value.message
    assert "secret-key-path" in caught.value.workaround


def test_the_secret_key_is_not_shown() -> None:
    assert "k" * 8 not in repr(Registration((ETCD,), b"k" * 32))


def test_tls_covers_registration_and_endpoints(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    master = RegisteringMaster(ETCD, tls=authority.issue("dm-master"))
    try:
        security = authority.issue("dm-worker")
        assert register([master.address], "w1", "10.0.0.1:8262", security).etcd_endpoints == (ETCD,)
        for wrong in (None, replace(security, ssl_cert="", ssl_key="")):
            with pytest.raises(DMError) as caught:
                register([master.address], "w2", "10.0.0.1:8262", wrong)
            assert caught.value.kind is Code.WorkerFailConnectMaster
        assert list(master.registered) == ["w1"]
    finally:
        master.close()
