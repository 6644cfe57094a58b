"""The address and the TLS settings of a server. Pure data; ``database.py`` reads it from files."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """TLS of one connection: paths, or the PEM bytes themselves (base64 in files)."""

    ssl_ca: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""
    cert_allowed_cn: tuple[str, ...] = ()
    ssl_ca_bytes: bytes = field(default=b"", repr=False)
    ssl_cert_bytes: bytes = field(default=b"", repr=False)
    ssl_key_bytes: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DBConfig:
    """The address and account of a server. ``password`` is plain text here; never print it (``repr`` hides it)."""

    host: str
    port: int
    user: str = "root"
    password: str = field(default="", repr=False)
    max_allowed_packet: int = 64 * 1024 * 1024
    session: tuple[tuple[str, str], ...] = ()
    security: SecurityConfig | None = None

    @property
    def foreign_key_checks(self) -> bool | None:
        """The value of foreign_key_checks in ``session``; None without one."""
        value = dict(self.session).get("foreign_key_checks")
        return None if value is None else value.strip().upper() in ("1", "ON", "TRUE")
