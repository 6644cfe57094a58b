"""TLS of connections to servers: how a client verifies the server."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pkg import errors
from pkg.errors import Code
from pkg.settings.connections import SecurityConfig
from pkg.tls.certificates import all_names, load_pem_pair


class _NamingContext(ssl.SSLContext):
    """A context for connections whose server must have one of the ``allowed`` names, if there are any.

    The check is part of the handshake: nothing after it, such as a password, reaches another server.
    """

    allowed: Sequence[str] = ()

    def wrap_socket(self, *args: Any, **named: Any) -> ssl.SSLSocket:
        """Raises ``ssl.SSLCertVerificationError`` for a server with another name."""
        wrapped = super().wrap_socket(*args, **named)
        names = all_names(wrapped.getpeercert())
        if self.allowed and not set(names) & set(self.allowed):
            wrapped.close()
            raise ssl.SSLCertVerificationError(
                f"certificate verify failed: the server's certificate is for {', '.join(names) or 'no name'},"
                f" cert-allowed-cn allows {', '.join(self.allowed)}"
            )
        return wrapped


def member_context(security: SecurityConfig) -> ssl.SSLContext:
    """As :func:`tls_context`, for connections between members of the cluster: there ``cert_allowed_cn`` names the
    accepted clients, and a member's certificate must match its address."""
    return tls_context(replace(security, cert_allowed_cn=()))


def tls_context(security: SecurityConfig) -> ssl.SSLContext:
    """The client side's TLS settings from paths or PEM bytes. Raises DMError 11112 for unusable material.

    With a CA, the certificate must be signed by it, and must be for the host of the connection or have one of the names
    in ``cert_allowed_cn``, if any. With names but without a CA, the system's CAs count. With neither, the connection is
    encrypted but the server is not verified.
    """
    context = _NamingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.allowed = security.cert_allowed_cn
    # Certificates that servers generate themselves do not strictly follow the standard; Python 3.13 would refuse them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        ca = security.ssl_ca_bytes.decode() or None
        context.check_hostname = bool(security.ssl_ca or ca) and not security.cert_allowed_cn
        if security.ssl_ca or ca:
            context.load_verify_locations(cafile=security.ssl_ca or None, cadata=ca)
        elif security.cert_allowed_cn:
            context.load_default_certs()
        else:
            context.verify_mode = ssl.CERT_NONE
        if security.ssl_cert:
            context.load_cert_chain(security.ssl_cert, security.ssl_key or None)
        elif security.ssl_cert_bytes:
            load_pem_pair(context, security)
    except (OSError, ValueError, ssl.SSLError) as exc:
        raise errors.new(
            Code.ConnInvalidTLSConfig,
            "the TLS certificate, key or CA cannot be loaded",
            raw=exc,
            workaround="Check ssl-ca, ssl-cert and ssl-key (or their -bytes forms) of this connection.",
        ) from exc
    return context


def verifying_context(security: SecurityConfig) -> ssl.SSLContext:
    """A client's context that always verifies the server's certificate and its name; without a CA by the system's CAs.

    Raises ``OSError`` (``ssl.SSLError`` too) or ``ValueError`` for missing or unusable files.
    """
    authority = security.ssl_ca_bytes or (Path(security.ssl_ca).read_bytes() if security.ssl_ca else b"")
    context = ssl.create_default_context(cadata=authority.decode() or None)
    if security.ssl_cert_bytes:
        load_pem_pair(context, security)
    elif security.ssl_cert:
        context.load_cert_chain(security.ssl_cert, security.ssl_key or None)
    return context
