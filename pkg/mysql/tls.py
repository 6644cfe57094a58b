"""TLS of connections to servers."""

from __future__ import annotations

import ssl
import tempfile

from pkg import errors
from pkg.config.model import SecurityConfig


def tls_context(security: SecurityConfig) -> ssl.SSLContext:
    """The client side's TLS settings from paths or PEM bytes. Raises DMError 11112 for unusable material."""
    try:
        ca = security.ssl_ca_bytes.decode() or None
        context = ssl.create_default_context(cafile=security.ssl_ca or None, cadata=ca)
        # MySQL servers' self-made certificates rarely name the host; the CA is what is checked, as DM does.
        context.check_hostname = False
        if not security.ssl_ca and not ca:
            context.verify_mode = ssl.CERT_NONE
        if security.ssl_cert:
            context.load_cert_chain(security.ssl_cert, security.ssl_key or None)
        elif security.ssl_cert_bytes:
            with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
                pem.write(security.ssl_cert_bytes + b"\n" + security.ssl_key_bytes)
                pem.flush()
                context.load_cert_chain(pem.name)
    except (OSError, ValueError, ssl.SSLError) as exc:
        raise errors.new(
            "ConnInvalidTLSConfig",
            "the TLS certificate, key or CA cannot be loaded",
            raw=exc,
            workaround="Check ssl-ca, ssl-cert and ssl-key (or their -bytes forms) of this connection.",
        ) from exc
    return context
