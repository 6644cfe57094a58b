"""Learning where etcd is from a running master. Standard library only."""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pkg.errors import Code, new
from pkg.settings.connections import SecurityConfig

#: Where a master tells etcd's endpoints, as a JSON list of URLs.
ENDPOINTS_PATH = "/apis/v1alpha1/etcd-endpoints"


def fetch_endpoints(masters: Iterable[str], tls: SecurityConfig | None = None, *, timeout: float = 5.0) -> list[str]:
    """etcd's endpoints, from the first of ``masters`` (``host:port`` or URLs) that answers; seconds per master.

    Raises 42501, retryable, naming each master's failure if none answers.
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
        "no master tells where etcd is",
        raw="; ".join(failures) or "no master is given",
        workaround="Check that a master runs at one of the addresses in `join`, and the TLS settings.",
        retryable=True,
    )


def _fetch(address: str, tls: SecurityConfig | None, timeout: float) -> list[str]:
    connection = (
        http.client.HTTPSConnection(address, timeout=timeout, context=_context(tls))
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


def _context(tls: SecurityConfig) -> ssl.SSLContext:
    authority = tls.ssl_ca_bytes or (Path(tls.ssl_ca).read_bytes() if tls.ssl_ca else b"")
    context = ssl.create_default_context(cadata=authority.decode() or None)
    if tls.ssl_cert_bytes:
        # The standard library loads a certificate from files only.
        with tempfile.NamedTemporaryFile(prefix="dm-tls-") as pair:
            pair.write(tls.ssl_cert_bytes + b"\n" + tls.ssl_key_bytes)
            pair.flush()
            context.load_cert_chain(pair.name)
    elif tls.ssl_cert:
        context.load_cert_chain(tls.ssl_cert, tls.ssl_key or None)
    return context
