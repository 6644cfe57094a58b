"""The election of a leader over etcd, and the fence that keeps a former leader from writing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pkg.errors import DMError, wrap
from pkg.etcd import (
    KV,
    Compare,
    Delete,
    EtcdClient,
    LeaseKeeper,
    PrefixMirror,
    Put,
    WatchEvent,
    create_revision_is,
    missing,
)
from pkg.ha.keys import LEADER_PREFIX, leader_key
from pkg.ha.records import LeaderInfo
from pkg.process.log import get_logger

log = get_logger("election")

#: Seconds between a failed attempt and the next one.
_RETRY_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class LeaderKey:
    """Proof of one term of leadership. A write that carries :attr:`compare` fails once the term is over."""

    key: str
    create_revision: int

    @property
    def compare(self) -> Compare:
        return create_revision_is(self.key, self.create_revision)


def leading(candidates: Sequence[KV]) -> KV | None:
    """The leader among the keys of an election: the oldest one."""
    return min(candidates, key=lambda kv: kv.create_revision, default=None)


class Election:
    """Campaigns for leadership for as long as it runs, term after term.

    The election's thread calls ``on_elected`` and ``on_lost`` in turn: a term's ``on_lost`` follows its ``on_elected``,
    even if that raised. An ``on_elected`` that raises ends the term; the next campaign begins after a pause. A term may
    end before ``on_lost`` is called (a paused process): :attr:`LeaderKey.compare` protects the data.
    """

    def __init__(
        self,
        client: EtcdClient,
        info: LeaderInfo,
        *,
        on_elected: Callable[[LeaderKey], None],
        on_lost: Callable[[], None],
        ttl: int = 60,
    ) -> None:
        self._client = client
        self._info = info
        self._ttl = ttl
        self._on_elected = on_elected
        self._on_lost = on_lost
        self._changed = threading.Condition()
        self._stopping = False
        self._evicted = False
        self._resigning = False
        self._broken = False
        self._own_key = ""
        self._first_campaign = True
        self._term: LeaderKey | None = None
        self._mirror: PrefixMirror | None = None
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the term, if there is one (``on_lost`` is called), and the campaign."""
        self._set(stopping=True)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def resign(self) -> None:
        """Ends the term, if there is one, and campaigns again, after the other candidates."""
        self._set(resigning=self._term is not None)

    def evict(self) -> None:
        """Ends the term and does not campaign until :meth:`cancel_evict`."""
        self._set(evicted=True)

    def cancel_evict(self) -> None:
        self._set(evicted=False)

    def leader(self) -> LeaderInfo | None:
        """The current leader as this process knows it; None if there is none or etcd was never reached."""
        mirror = self._mirror
        first = leading(list(mirror.snapshot().values())) if mirror else None
        return LeaderInfo.from_json(first.value) if first else None

    def term(self) -> LeaderKey | None:
        """The term that this process leads; None when it does not."""
        return self._term

    # --- the campaign ---

    def _run(self) -> None:
        while not self._stopping:
            try:
                if self._may_campaign():
                    self._campaign()
            except Exception as exc:  # noqa: BLE001  (this thread must continue, or the master never leads again)
                log.warning("campaign failed; trying again", error=wrap(exc))
                self._set(broken=True)
            with self._changed:
                if self._broken:
                    self._changed.wait_for(lambda: self._stopping, timeout=_RETRY_PAUSE)
                self._broken = False
        self._close_mirror()

    def _may_campaign(self) -> bool:
        """Waits while evicted; False when the election ends. An evicted master still follows who leads."""
        self._open_mirror()
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._broken or not self._evicted)
            self._resigning = False
            return not self._stopping

    def _campaign(self) -> None:
        if self._first_campaign:
            self._bury_former_life()
            self._first_campaign = False
        keeper = LeaseKeeper(self._client, self._ttl, self._set, name="leadership")
        try:
            term = self._enter(keeper.start())
            if self._wait(lambda: self._is_first(term), keeper):
                self._lead(term, keeper)
        finally:
            self._own_key = ""
            # Revoking deletes the key, so that the next candidate does not wait for the lease to expire.
            self._stop_keeper(keeper)

    def _bury_former_life(self) -> None:
        """Ends the candidacy of a killed process of this name, so that no candidate waits for its lease to expire.

        Once per process: two live masters with the same name, by mistake, must not unseat each other forever.
        """
        candidates, _ = self._client.get_prefix(LEADER_PREFIX)
        for kv in candidates:
            if LeaderInfo.from_json(kv.value).id == self._info.id:
                log.warning("ending the candidacy of an earlier process of this name", name=self._info.id, key=kv.key)
                self._client.txn([create_revision_is(kv.key, kv.create_revision)], [Delete(kv.key)])

    def _enter(self, lease_id: int) -> LeaderKey:
        key = self._own_key = leader_key(lease_id)
        entered = self._client.txn([missing(key)], [Put(key, self._info.to_json(), lease_id)])
        return LeaderKey(key, entered.revision)

    def _lead(self, term: LeaderKey, keeper: LeaseKeeper) -> None:
        log.info("elected leader", name=self._info.id, key=term.key)
        self._term = term
        try:
            self._on_elected(term)
            self._wait(lambda: not self._is_first(term), keeper)
        finally:
            self._term = None
            self._on_lost()
            log.info("this master no longer leads", name=self._info.id)

    def _wait(self, condition: Callable[[], bool], keeper: LeaseKeeper) -> bool:
        """Waits for ``condition``; False when the campaign or term must end instead."""

        def over() -> bool:
            return self._stopping or self._evicted or self._resigning or self._broken or not keeper.valid()

        with self._changed:
            self._changed.wait_for(lambda: over() or condition())
            return not over()

    def _is_first(self, term: LeaderKey) -> bool:
        """Once this master's key is in the mirror, so is every older one: older keys can only be removed."""
        candidates = self._mirror.snapshot() if self._mirror else {}
        own = candidates.get(term.key)
        first = leading(list(candidates.values()))
        return own is not None and own.create_revision == term.create_revision and own == first

    # --- what wakes the campaign ---

    def _open_mirror(self) -> None:
        if self._mirror is None:
            self._mirror = PrefixMirror(self._client, LEADER_PREFIX, self._seen, on_error=self._mirror_failed)
            self._mirror.start()

    def _close_mirror(self) -> None:
        mirror, self._mirror = self._mirror, None
        if mirror is not None:
            mirror.stop()

    def _seen(self, events: Sequence[WatchEvent]) -> None:
        expelled = any(event.type == "delete" and event.key == self._own_key for event in events)
        self._set(broken=True if expelled else None)

    def _mirror_failed(self, exc: BaseException) -> None:
        log.error("cannot watch the election", error=wrap(exc))
        self._mirror = None
        self._set(broken=True)

    def _set(
        self,
        *,
        stopping: bool | None = None,
        evicted: bool | None = None,
        resigning: bool | None = None,
        broken: bool | None = None,
    ) -> None:
        """Sets the given fields and wakes the campaign."""
        with self._changed:
            self._stopping = self._stopping if stopping is None else stopping
            self._evicted = self._evicted if evicted is None else evicted
            self._resigning = self._resigning if resigning is None else resigning
            self._broken = self._broken if broken is None else broken
            self._changed.notify_all()

    def _stop_keeper(self, keeper: LeaseKeeper) -> None:
        try:
            keeper.stop()
        except DMError as exc:
            log.warning("the leadership lease is left to expire", error=exc)
