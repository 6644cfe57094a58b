"""Certificates that are renewed in their files: detected by the files' dates, without a thread."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable

from pkg.settings.connections import SecurityConfig
from pkg.tls.server import server_context

#: Identifies the content of each file of a :class:`SecurityConfig`; None for a missing file.
FilesState = tuple[tuple[int, int, int] | None, ...]


def files_state(security: SecurityConfig | None) -> FilesState:
    """Changes when a file of ``security`` is written or replaced, also through a symbolic link. It costs some µs."""
    if security is None:
        return ()
    return tuple(_state(path) for path in (security.ssl_ca, security.ssl_cert, security.ssl_key) if path)


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def renewing_server_context(security: SecurityConfig, on_failure: Callable[[Exception], None]) -> ssl.SSLContext:
    """As :func:`pkg.tls.server.server_context`; each new connection uses the certificate and CA in the current files.

    Unusable files (a key that does not match yet) leave the previous ones in use; ``on_failure`` gets the reason, once
    per content. Raises ``OSError`` or ``ssl.SSLError`` for files that are unusable at the start.
    """
    latest = _LatestContext(security, on_failure)
    latest.first.sni_callback = latest.use
    return latest.first


class _LatestContext:
    """The context of the current files. A handshake uses certificate and CA of the context that it is switched to."""

    def __init__(self, security: SecurityConfig, on_failure: Callable[[Exception], None]) -> None:
        self._security = security
        self._on_failure = on_failure
        self._lock = threading.Lock()
        # Before the files are read: the next connection detects a write in the meantime.
        self._state = files_state(security)
        self.first = self._latest = server_context(security)

    def use(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called at the start of every handshake, also of clients that send no server name."""
        connection.context = self._renewed()

    def _renewed(self) -> ssl.SSLContext:
        with self._lock:
            state = files_state(self._security)
            if state != self._state:
                self._state = state
                try:
                    self._latest = server_context(self._security)
                except (OSError, ValueError) as exc:
                    self._on_failure(exc)
            return self._latest
