"""etcd's own metrics, read over HTTP, for the master's port, where DM's master shows those of its embedded etcd."""

from __future__ import annotations

import http.client
import ssl
import urllib.request
from collections.abc import Callable, Sequence

from pkg.process.log import get_logger
from pkg.settings.connections import SecurityConfig
from pkg.tls.client import member_context

log = get_logger(__name__)

#: Seconds for an answer: a scrape must not wait longer for a blocked etcd.
TIMEOUT = 1.0
#: The families to copy. The master has its own process_….
PREFIX = "etcd_"
#: Alert rules for an unreachable etcd need a series.
UNREACHABLE = (
    b"# HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.\n"
    b"# TYPE etcd_server_has_leader gauge\netcd_server_has_leader 0\n"
)


class EtcdMetrics:
    """``endpoints`` gives etcd's client URLs; the first one that answers counts."""

    def __init__(self, endpoints: Callable[[], Sequence[str]], security: SecurityConfig | None) -> None:
        self._endpoints = endpoints
        self._security = security or SecurityConfig()

    def text(self) -> bytes:
        """etcd's families in Prometheus' text form; ``etcd_server_has_leader 0`` if no member answers; nothing before
        the endpoints are known."""
        endpoints = self._endpoints()
        for endpoint in endpoints:
            url = endpoint if "://" in endpoint else f"http://{endpoint}"
            try:
                return etcd_families(self._fetch(f"{url.rstrip('/')}/metrics").decode()).encode()
            except (OSError, ValueError, http.client.HTTPException) as exc:
                log.debug("etcd does not show its metrics", endpoint=endpoint, error=str(exc))
        return UNREACHABLE if endpoints else b""

    def _fetch(self, url: str) -> bytes:
        context: ssl.SSLContext | None = member_context(self._security) if url.startswith("https:") else None
        with urllib.request.urlopen(url, timeout=TIMEOUT, context=context) as answer:
            body: bytes = answer.read()
        return body


def etcd_families(text: str) -> str:
    """The lines of etcd's own families."""
    kept = [line for line in text.splitlines() if _name(line).startswith(PREFIX)]
    return "".join(f"{line}\n" for line in kept)


def _name(line: str) -> str:
    """The metric's name of a series, or of a HELP or TYPE line."""
    if line.startswith("#"):
        return next(iter(line.split()[2:]), "")
    return line
