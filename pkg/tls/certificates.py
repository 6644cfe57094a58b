"""Certificates: the names in a peer's (in the form of ``ssl.SSLSocket.getpeercert``), and loading our own."""

from __future__ import annotations

import ssl
import tempfile
from typing import Any

from pkg.settings.connections import SecurityConfig


def common_names(certificate: dict[str, Any] | None) -> list[str]:
    """The common names of its subject; empty without a certificate."""
    return [value for part in (certificate or {}).get("subject", ()) for key, value in part if key == "commonName"]


def all_names(certificate: dict[str, Any] | None) -> list[str]:
    """Its common names, then its host names and addresses."""
    alternatives = (certificate or {}).get("subjectAltName", ())
    return [*common_names(certificate), *(value for kind, value in alternatives if kind in ("DNS", "IP Address"))]


def load_pem_pair(context: ssl.SSLContext, security: SecurityConfig) -> None:
    """Loads the certificate and key that ``security`` holds as bytes. Raises ``OSError`` or ``ssl.SSLError``."""
    # The ssl module reads certificates from files only. This file is removed before any connection.
    with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
        pem.write(security.ssl_cert_bytes + b"\n" + security.ssl_key_bytes)
        pem.flush()
        context.load_cert_chain(pem.name)
