"""Asks a running master where etcd is."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable

from pkg.errors import Code, new
from pkg.settings.connections import SecurityConfig
from pkg.tls.client import verifying_context

#: The path at which a master returns etcd's endpoints, as a JSON list of URLs.
ENDPOINTS_PATH = "/apis/v1alpha1/etcd-endpoints"


def fetch_endpoints(masters: Iterable[str], tls: SecurityConfig | None = None, *, timeout: float = 5.0) -> list[str]:
    """etcd's endpoints, from the first of ``masters`` (``host:port`` or URLs) that answers; seconds per master.

    Raises 42501, retryable, with each master's failure if none answers.
    """
    failures = []
    for master in masters:
        address = master.split("://", 1)[-1].rstrip("/")
        try:
            return _fetch(address, tls, timeout)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            failures.append(f"{address}: {exc}")
    raise new(
        Code.HAFailTxnOperation,
        "no master answers with the addresses of etcd",
        raw="; ".join(failures) or "no master is given",
        workaround="Check that a master runs at one of the addresses in `join`, and the TLS settings.",
        retryable=True,
    )


def _fetch(address: str, tls: SecurityConfig | None, timeout: float) -> list[str]:
    connection = (
        http.client.HTTPSConnection(address, timeout=timeout, context=verifying_context(tls))
        if tls
        else http.client.HTTPConnection(address, timeout=timeout)
    )
    try:
        connection.request("GET", ENDPOINTS_PATH)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise ValueError(f"HTTP status {response.status}")
    endpoints = json.loads(body)
    if not isinstance(endpoints, list) or not endpoints or not all(isinstance(url, str) for url in endpoints):
        raise ValueError("not a list of etcd endpoints")
    return endpoints
