"""Hazard: a wrong endpoint is accepted, or an error does not name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient
from pkg.etcd.endpoint import Endpoint, address_of
from pkg.settings.connections import SecurityConfig
from tests.harness.certificates import Authority


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("127.0.0.1:2379", "127.0.0.1:2379"),
        ("http://etcd-0:2379", "etcd-0:2379"),
        ("https://[::1]:2379/", "[::1]:2379"),
        ("[fe80::1]:2379", "[fe80::1]:2379"),
    ],
)
def test_endpoints_may_be_addresses_or_urls(url: str, address: str) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize("url", ["", "etcd", "http://etcd", "etcd:port", ":2379"])
def test_a_wrong_endpoint_is_named(url: str) -> None:
    with pytest.raises(DMError) as caught:
        address_of(url)
    assert caught.value.kind is Code.HAInvalidItem
    assert repr(url) in caught.value.message


def test_an_endpoint_has_tls_if_settings_are_given(tmp_path: Path) -> None:
    """Nothing is connected: a member that is down can be named. Certificates may be files or bytes."""
    files = Authority(tmp_path).issue("dm")
    inline = SecurityConfig(
        ssl_ca_bytes=Path(files.ssl_ca).read_bytes(),
        ssl_cert_bytes=Path(files.ssl_cert).read_bytes(),
        ssl_key_bytes=Path(files.ssl_key).read_bytes(),
    )
    secure = []
    for tls in (None, files, inline):
        endpoint = Endpoint("https://[::1]:1", tls=tls, login=None, timeout=1.0)
        secure.append(endpoint.uses_secure_channel)
        assert (endpoint.address, endpoint.timeout, endpoint.metadata) == ("[::1]:1", 1.0, None)
        endpoint.close()
    assert secure == [False, True, True]


def test_an_endpoint_with_http_has_no_tls(tmp_path: Path) -> None:
    """A master with certificates may have an etcd without."""
    files = Authority(tmp_path).issue("dm")
    secure = []
    for url in ("http://127.0.0.1:1", "HTTP://127.0.0.1:1", "127.0.0.1:1", "https://127.0.0.1:1"):
        endpoint = Endpoint(url, tls=files, login=None, timeout=1.0)
        secure.append(endpoint.uses_secure_channel)
        endpoint.close()
    assert secure == [False, False, True, True]


def test_no_endpoints_are_an_error() -> None:
    with pytest.raises(DMError) as caught:
        EtcdClient([])
    assert caught.value.kind is Code.HAInvalidItem
