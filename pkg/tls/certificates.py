"""What a peer's certificate says, in the form of ``ssl.SSLSocket.getpeercert``. Pure."""

from __future__ import annotations

from typing import Any


def common_names(certificate: dict[str, Any] | None) -> list[str]:
    """The common names of its subject; none for no certificate."""
    return [value for part in (certificate or {}).get("subject", ()) for key, value in part if key == "commonName"]


def all_names(certificate: dict[str, Any] | None) -> list[str]:
    """Its common names, then the hosts and addresses that it is for."""
    alternatives = (certificate or {}).get("subjectAltName", ())
    return [*common_names(certificate), *(value for kind, value in alternatives if kind in ("DNS", "IP Address"))]
