"""Hazard: whoever reaches the master's port registers as a worker and receives the key of all passwords."""

from __future__ import annotations

import pytest

from dm_master.service.secret_key import key_for
from pkg.errors import Code, DMError
from pkg.rpc.server import mutual
from pkg.settings.connections import SecurityConfig
from pkg.settings.encrypt import key_proof

KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.mark.parametrize(("mutual_tls", "told"), [(True, KEY), (False, b"")])
def test_the_key_is_given_over_mutual_tls_alone(mutual_tls: bool, told: bytes) -> None:
    assert key_for("w1", key_proof(KEY, "w1"), key=KEY, mutual=mutual_tls) == told


def test_a_worker_that_could_read_no_password_is_refused() -> None:
    assert key_for("w1", b"", key=KEY, mutual=True) == KEY
    for proof, mutual_tls in (
        (b"", False),
        (key_proof(OTHER, "w1"), False),
        (key_proof(OTHER, "w1"), True),
        (key_proof(KEY, "w2"), False),
        (KEY, False),
        (b"\0" * 32, False),
    ):
        with pytest.raises(DMError) as refused:
            key_for("w1", proof, key=KEY, mutual=mutual_tls)
        assert refused.value.kind is Code.ConfigSecretKeyPath
        assert "secret-key-path" in refused.value.workaround


@pytest.mark.parametrize("proof", [b"", key_proof(OTHER, "w1")])
def test_a_cluster_without_a_key_takes_every_worker(proof: bytes) -> None:
    """The passwords are plain there, so a key more does no harm."""
    for mutual_tls in (True, False):
        assert key_for("w1", proof, key=b"", mutual=mutual_tls) == b""


def test_mutual_tls_takes_a_certificate_and_an_authority() -> None:
    assert mutual(SecurityConfig(ssl_ca="/ca", ssl_cert="/c", ssl_key="/k"))
    assert mutual(SecurityConfig(ssl_ca_bytes=b"ca", ssl_cert_bytes=b"c"))
    for less in (None, SecurityConfig(), SecurityConfig(ssl_cert="/c", ssl_key="/k"), SecurityConfig(ssl_ca="/ca")):
        assert not mutual(less)


def test_a_proof_reveals_nothing_where_there_is_no_key() -> None:
    assert key_proof(b"", "w1") == b""
    assert KEY not in key_proof(KEY, "w1")
