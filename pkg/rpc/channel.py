"""Client channels to the port of a master or worker: address forms, TLS, message sizes. Light enough for ``dmctl``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pkg.settings.connections import SecurityConfig

if TYPE_CHECKING:
    import grpc

#: Largest gRPC message in bytes, the same as on the server's side.
MAX_MESSAGE = 256 * 1024 * 1024

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # A failed channel retries soon: servers here restart within seconds.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 3000),
    # Proxies for web traffic must not be between the parts of a cluster.
    ("grpc.enable_http_proxy", 0),
)


def normalize(address: str) -> str:
    """``host:port`` from the forms that people write: ``:8261``, ``host:port``, ``http://host:port/``."""
    bare = address.strip()
    for scheme in ("http://", "https://"):
        bare = bare.removeprefix(scheme)
    bare = bare.rstrip("/")
    return f"127.0.0.1{bare}" if bare.startswith(":") else bare


def split_addresses(text: str) -> list[str]:
    """The addresses in a comma-separated list, in the form of :func:`normalize`, without empty parts."""
    return [normalize(part) for part in text.split(",") if part.strip()]


def open_channel(address: str, security: SecurityConfig | None = None) -> grpc.Channel:
    """A channel to ``address``, with TLS when ``security`` names a CA or a certificate. It connects when first used.

    Raises ``OSError`` for certificate files that can't be read.
    """
    # gRPC takes a tenth of a second to load, and address forms are needed before any connection.
    import grpc

    if security is None or not _wants_tls(security):
        return grpc.insecure_channel(normalize(address), options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_pem(security.ssl_ca, security.ssl_ca_bytes),
        private_key=_pem(security.ssl_key, security.ssl_key_bytes),
        certificate_chain=_pem(security.ssl_cert, security.ssl_cert_bytes),
    )
    return grpc.secure_channel(normalize(address), credentials, options=_OPTIONS)


def _wants_tls(security: SecurityConfig) -> bool:
    return bool(security.ssl_ca or security.ssl_ca_bytes or security.ssl_cert or security.ssl_cert_bytes)


def _pem(path: str, data: bytes) -> bytes | None:
    if data:
        return data
    return Path(path).read_bytes() if path else None
