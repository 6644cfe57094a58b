"""TLS of the shared port: the server's context and the check of the client's common name."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pkg.settings.connections import SecurityConfig
from pkg.tls.certificates import common_names, load_pem_pair


def server_context(security: SecurityConfig) -> ssl.SSLContext:
    """A context for gRPC and HTTP/1.1; with a CA configured, clients must present a certificate signed by it.

    Raises ``OSError`` or ``ssl.SSLError`` for missing or unusable files.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    if security.ssl_cert_bytes:
        load_pem_pair(context, security)
    else:
        context.load_cert_chain(security.ssl_cert, security.ssl_key)
    if security.ssl_ca or security.ssl_ca_bytes:
        data = security.ssl_ca_bytes or Path(security.ssl_ca).read_bytes()
        context.load_verify_locations(cadata=data.decode("ascii"))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def mutual(security: SecurityConfig | None) -> bool:
    """Whether :class:`pkg.rpc.server.PortServer` with these settings requires a certificate of the CA from all
    clients."""
    return security is not None and bool(
        (security.ssl_cert or security.ssl_cert_bytes) and (security.ssl_ca or security.ssl_ca_bytes)
    )


def name_allowed(certificate: dict[str, Any] | None, allowed: Sequence[str]) -> bool:
    """Whether the client's certificate (as ``getpeercert`` gives it) has one of the allowed common names."""
    return not allowed or any(name in allowed for name in common_names(certificate))
