"""The ``from`` and ``target-database`` blocks: the address and account of a server."""

from __future__ import annotations

import re

from pkg.errors import Code, ErrorKind
from pkg.settings.connections import DBConfig, SecurityConfig
from pkg.settings.encrypt import plain_password
from pkg.settings.yaml_reader import Section

_DEFAULT_PACKET = 64 * 1024 * 1024
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def read_database(section: Section, missing: ErrorKind, warnings: list[str]) -> DBConfig:
    """A server's block. ``missing`` is the error for an absent host or port; passwords are decrypted."""
    for key in ("host", "port"):
        if not section.text(key):
            raise section.error(missing, key, f"{section.name}.{key} is missing", f"Add {key} to {section.name}.")
    session = tuple((name.lower(), value) for name, value in section.pairs("session"))
    for name, _ in session:
        if not _VARIABLE.fullmatch(name):
            raise section.error(
                Code.ConfigYamlTransform,
                "session",
                f"{name!r} is not the name of a session variable",
                "Name variables such as sql_mode or time_zone.",
            )
    return DBConfig(
        host=section.text("host"),
        port=section.whole("port", 0, least=1, most=65535),
        user=section.text("user", "root"),
        password=plain_password(section.text("password")),
        max_allowed_packet=section.whole("max-allowed-packet", 0, least=0) or _DEFAULT_PACKET,
        session=session,
        security=_security(section.section("security")),
    )


def _security(section: Section | None) -> SecurityConfig | None:
    if section is None:
        return None
    security = SecurityConfig(
        ssl_ca=section.text("ssl-ca"),
        ssl_cert=section.text("ssl-cert"),
        ssl_key=section.text("ssl-key"),
        cert_allowed_cn=section.strings("cert-allowed-cn"),
        ssl_ca_bytes=section.blob("ssl-ca-bytes") or section.blob("ssl-ca-base64"),
        ssl_cert_bytes=section.blob("ssl-cert-bytes") or section.blob("ssl-cert-base64"),
        ssl_key_bytes=section.blob("ssl-key-bytes") or section.blob("ssl-key-base64"),
    )
    return None if security == SecurityConfig() else security
