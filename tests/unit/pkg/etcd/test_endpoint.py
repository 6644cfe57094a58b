"""Hazard: a wrong endpoint is accepted, or an error does not name it."""

from __future__ import annotations

import pytest

from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient
from pkg.etcd.endpoint import address_of


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


def test_no_endpoints_are_an_error() -> None:
    with pytest.raises(DMError) as caught:
        EtcdClient([])
    assert caught.value.kind is Code.HAInvalidItem
