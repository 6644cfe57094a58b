"""Membership in the cluster: registration, a lease, and nothing runs without the lease.

A worker may write to the target only while no other worker may: as long as its lease provably lives. While etcd
cannot be reached, the local clock decides; when the lease may have expired, everything stops at once and the worker
joins again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dm_worker.membership.registration import Registration
from pkg.errors import DMError
from pkg.etcd import EtcdClient, LeaseKeeper
from pkg.ha import keys
from pkg.ha.records import WorkerAlive
from pkg.process.log import get_logger
from pkg.settings.connections import SecurityConfig
from pkg.settings.encrypt import set_secret_key
from pkg.settings.etcd_user import EtcdUser

log = get_logger(__name__)

#: A worker that cannot join at its start gives up after this many tries.
FIRST_JOIN_TRIES = 5
#: Seconds between two tries to join.
JOIN_PAUSE = 3.0
#: Seconds between the end of one tenure and the next joining.
REJOIN_PAUSE = 0.5


class Tenure(Protocol):
    """The work that runs while the lease lives."""

    def start(self, client: EtcdClient, on_broken: Callable[[BaseException], None]) -> None:
        """Starts; ``on_broken`` requests the end of this tenure and a new one."""
        ...

    def end(self, *, graceful: bool) -> None:
        """Stops everything that ``start`` started, at safe points or at once."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Who joins: the worker's name, the time to live of its lease in seconds, and its connection to etcd."""

    name: str
    ttl: int
    security: SecurityConfig | None = None
    etcd_user: EtcdUser | None = None


class Membership:
    """Joins, keeps the lease and joins again after losing it, until :meth:`stop`.

    ``register`` is :func:`dm_worker.membership.registration.register` with its arguments. :meth:`run` blocks.
    """

    def __init__(
        self,
        identity: Identity,
        register: Callable[[], Registration],
        tenure: Tenure,
        *,
        pause: float = JOIN_PAUSE,
        tries: int = FIRST_JOIN_TRIES,
    ) -> None:
        self._identity = identity
        self._register = register
        self._tenure = tenure
        self._pause = pause
        self._tries = tries
        self._stop = threading.Event()
        #: Set when the loop has to act: on a stop, a lost lease, a broken tenure.
        self._wake = threading.Event()
        self._keeper: LeaseKeeper | None = None

    @property
    def alive(self) -> bool:
        """Whether the worker holds a lease that provably lives."""
        keeper = self._keeper
        return keeper is not None and keeper.valid()

    def stop(self) -> None:
        """Asks :meth:`run` to end gracefully: subtasks at safe points, then the lease revoked."""
        self._stop.set()
        self._wake.set()

    def run(self) -> None:
        """Keeps the membership until stopped.

        Raises 46003 (name taken) or 40077 (no master accepts) when the first attempt to join fails; later attempts
        repeat until they succeed.
        """
        tries = 0
        joined_once = False
        while not self._stop.is_set():
            tries += 1
            try:
                client = self._join()
            except DMError as exc:
                log.error("cannot join the cluster", tries=tries, error=str(exc))
                if not joined_once and (not exc.retryable or tries >= self._tries):
                    raise
                self._stop.wait(self._pause)
                continue
            joined_once = True
            try:
                self._serve(client)
            finally:
                client.close()
            self._stop.wait(REJOIN_PAUSE)

    def _join(self) -> EtcdClient:
        registration = self._register()
        set_secret_key(registration.secret_key)
        client = EtcdClient(registration.etcd_endpoints, tls=self._identity.security, user=self._identity.etcd_user)
        self._wake.clear()
        keeper = LeaseKeeper(client, self._identity.ttl, self._wake.set, name="worker")
        try:
            lease = keeper.start()
            alive = WorkerAlive(self._identity.name, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            client.put(keys.WORKER_ALIVE.key(self._identity.name), alive.to_json(), lease=lease)
        except BaseException:
            keeper.stop(revoke=False)
            client.close()
            raise
        self._keeper = keeper
        log.info("joined the cluster", worker=self._identity.name, etcd=",".join(registration.etcd_endpoints))
        return client

    def _serve(self, client: EtcdClient) -> None:
        keeper = self._keeper
        assert keeper is not None
        self._tenure.start(client, self._broken)
        if not self._stop.is_set():
            self._wake.wait()
        lost = not keeper.valid()
        if lost:
            log.error("the lease is lost: everything stops, and the worker joins again", worker=self._identity.name)
        self._tenure.end(graceful=not lost)
        try:
            # Not earlier: while anything runs here, no other worker may take over the source.
            keeper.stop()
        except DMError as exc:
            log.warning("cannot revoke the lease; it expires by itself", error=str(exc))

    def _broken(self, exc: BaseException) -> None:
        log.error("cannot watch etcd; joining again", error=str(exc))
        self._wake.set()
