"""Who may see the console, and who may act. Pure.

Over a connection from this machine anyone may look. Everything else needs a client certificate of the cluster's CA, or
a login.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

#: Headers of a proxy: through a proxy on this machine, remote clients would look local.
_FORWARDED = frozenset({"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"})


@dataclass(frozen=True, slots=True)
class Visitor:
    """``name`` is empty without login and certificate; ``token`` must come back with each form."""

    name: str = ""
    token: str = ""
    sees: bool = False
    by_login: bool = False

    @property
    def acts(self) -> bool:
        return bool(self.name)


def is_local(client: str, headers: Mapping[str, str]) -> bool:
    """Whether the request comes from this machine itself. ``headers`` have lower-case names."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback and not _FORWARDED & set(headers)


def visitor(*, local: bool, certificate: str, certificate_token: str, user: str, user_token: str) -> Visitor:
    """A login counts before a certificate: its name says more about who acts."""
    if user:
        return Visitor(user, user_token, sees=True, by_login=True)
    if certificate:
        return Visitor(certificate, certificate_token, sees=True)
    return Visitor(sees=local)
