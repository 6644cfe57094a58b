"""A certificate authority for tests of TLS."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pkg.settings.connections import SecurityConfig

#: The default hosts of a certificate.
_HERE = ("localhost", "127.0.0.1")


class Authority:
    """Issues certificates into ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.certificate = self._sign(self.name, self.key, (), authority=True)
        self.path = self._write("ca.pem", self.certificate.public_bytes(serialization.Encoding.PEM))

    def _sign(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, hosts: Sequence[str], *, authority: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([*map(_general, hosts)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def issue(self, common_name: str, *, allowed: tuple[str, ...] = (), hosts: Sequence[str] = _HERE) -> SecurityConfig:
        """A certificate for ``hosts``; its owner accepts clients with the ``allowed`` common names."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = self._sign(name, key, hosts, authority=False).public_bytes(serialization.Encoding.PEM)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return SecurityConfig(
            ssl_ca=self.path,
            ssl_cert=self._write(f"{common_name}.pem", certificate),
            ssl_key=self._write(f"{common_name}.key", pem),
            cert_allowed_cn=allowed,
        )


def settings(own: SecurityConfig) -> str:
    """``own`` as lines of dm-master.toml."""
    return f'ssl-ca = "{own.ssl_ca}"\nssl-cert = "{own.ssl_cert}"\nssl-key = "{own.ssl_key}"\n'


def flags(own: SecurityConfig) -> list[str]:
    """``own`` as dmctl's arguments."""
    return ["--ssl-ca", own.ssl_ca, "--ssl-cert", own.ssl_cert, "--ssl-key", own.ssl_key]


def context(own: SecurityConfig) -> ssl.SSLContext:
    """For a client that shows ``own``."""
    made = ssl.create_default_context(cafile=own.ssl_ca)
    made.load_cert_chain(own.ssl_cert, own.ssl_key)
    return made


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
