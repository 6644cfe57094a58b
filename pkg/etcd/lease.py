"""Keeps a lease, and computes by the local clock how long it is certainly valid."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from pkg.errors import DMError
from pkg.etcd.client import EtcdClient
from pkg.process.log import get_logger

log = get_logger("etcd")

#: A lease is renewed this many times within its TTL, so that two failures in a row are harmless.
_RENEWALS_PER_TTL = 3
#: After a failed renewal the next attempt follows after so many seconds.
_RETRY_PAUSE = 0.5


def clock() -> float:
    """Seconds on a clock that also counts during sleep and never jumps, unlike wall time and ``time.monotonic``."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseKeeper:
    """Grants a lease of ``ttl`` seconds and keeps it until :meth:`stop`.

    Our clock starts a TTL before the request is sent, etcd's when the request arrives, so the lease ends here before it
    ends there. The keeper's thread calls ``on_lost`` once, when that time passes without a renewal or etcd reports that
    the lease is gone; it does not call it after :meth:`stop`. Code that writes to the outside under the lease checks
    :meth:`valid` first.
    """

    def __init__(self, client: EtcdClient, ttl: int, on_lost: Callable[[], None], *, name: str = "lease") -> None:
        self._client = client
        self._ttl = ttl
        self._on_lost = on_lost
        self._name = name
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._valid_until = 0.0
        self.lease_id = 0

    def start(self) -> int:
        """Grants the lease and starts to keep it; returns its id. Raises 42504 if etcd cannot grant it."""
        asked_at = clock()
        self.lease_id = self._client.lease_grant(self._ttl)
        self._valid_until = asked_at + self._ttl
        self._thread = threading.Thread(target=self._run, name=f"keep-{self._name}", daemon=True)
        self._thread.start()
        return self.lease_id

    def valid(self) -> bool:
        """Whether the lease is certainly valid now."""
        return self.remaining() > 0

    def remaining(self) -> float:
        """Seconds that the lease is certainly valid without another renewal; 0 when it may have ended."""
        return max(0.0, self._valid_until - clock())

    def stop(self, *, revoke: bool = True) -> None:
        """Stops keeping the lease; ``revoke`` also ends it, with its keys, if etcd answers. May be called twice.

        Raises 42504 if the revocation fails: the lease then ends by itself within its TTL.
        """
        first = not self._stop.is_set()
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if first and revoke and self.valid():
            self._client.lease_revoke(self.lease_id)
        self._valid_until = 0.0

    def _run(self) -> None:
        try:
            self._keep()
        except Exception as exc:  # noqa: BLE001 - after any error the lease is not renewed
            self._valid_until = 0.0
            if not self._stop.is_set():
                trace = "".join(traceback.format_exception(exc))
                log.error("a lease is no longer renewed", lease=self._name, error=repr(exc), trace=trace)
        if not self._stop.is_set():
            self._on_lost()

    def _keep(self) -> None:
        """Renews the lease until it is lost or stopped."""
        pause = self._ttl / _RENEWALS_PER_TTL
        while not self._stop.wait(min(pause, self.remaining())):
            if not self.valid():
                break
            asked_at = clock()
            try:
                granted = self._client.keepalive(self.lease_id, timeout=self.remaining())
            except DMError:
                # Only the deadline counts: retry until it passes.
                pause = min(_RETRY_PAUSE, self._ttl / (_RENEWALS_PER_TTL * 2))
                continue
            if granted <= 0:
                self._valid_until = 0.0
                break
            self._valid_until = asked_at + granted
            pause = granted / _RENEWALS_PER_TTL
