"""A local copy of the keys under a prefix that follows every change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from pkg.errors import DMError
from pkg.etcd.client import EtcdClient
from pkg.etcd.errors import CompactedError
from pkg.etcd.types import KV, WatchEvent

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0


class PrefixMirror:
    """Lists ``prefix``, then watches it; after a compaction it lists again and reports only what differs.

    ``on_change`` gets the events from the previous state to the new one (the first list is puts), from the mirror's
    thread, after :meth:`snapshot` shows them. Events may repeat known state: handle them as *desired state*, not as
    deltas. An error in ``on_change`` ends the mirror and reaches ``on_error``, as does a refusal by etcd (permissions).
    While etcd cannot be reached the mirror keeps its last state and retries forever.
    """

    def __init__(
        self,
        client: EtcdClient,
        prefix: str,
        on_change: Callable[[Sequence[WatchEvent]], None],
        *,
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._client = client
        self.prefix = prefix
        self._on_change = on_change
        self._on_error = on_error
        self._lock = threading.Lock()
        self._state: dict[str, KV] = {}
        self._synced = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mirror-{prefix}", daemon=True)

    def start(self) -> PrefixMirror:
        self._thread.start()
        return self

    def stop(self, *, wait: bool = True) -> None:
        """Ends the mirror; no callback runs after the return (unless called from a callback, or without ``wait``)."""
        self._stop.set()
        if wait and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def wait_synced(self, timeout: float) -> bool:
        """Waits until the first list is read and reported; False if ``timeout`` seconds pass first."""
        return self._synced.wait(timeout)

    def snapshot(self) -> dict[str, KV]:
        """The last known state."""
        with self._lock:
            return dict(self._state)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        try:
            while not self._stop.is_set():
                try:
                    revision = self._relist()
                    pause = _FIRST_PAUSE
                    for batch in self._client.watch_prefix(self.prefix, revision + 1, self._stop):
                        self._apply(batch.events)
                except CompactedError:
                    continue
                except DMError as exc:
                    if not exc.retryable:
                        raise
                    self._stop.wait(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
        except BaseException as exc:  # noqa: BLE001  (the thread ends here: the mirror's owner must know)
            if not self._stop.is_set():
                self._on_error(exc)

    def _relist(self) -> int:
        kvs, revision = self._client.get_prefix(self.prefix)
        listed = {kv.key: kv for kv in kvs}
        with self._lock:
            known = self._state
            gone = [WatchEvent("delete", key, "", revision) for key in known if key not in listed]
            changed = [
                WatchEvent("put", kv.key, kv.value, kv.mod_revision, kv.create_revision, kv.lease)
                for kv in kvs
                if _changed(known.get(kv.key), kv)
            ]
            self._state = listed
        # A deleted key frees what a new one may claim: deletions first, then puts in their original order.
        self._report([*gone, *sorted(changed, key=lambda event: event.mod_revision)])
        self._synced.set()
        return revision

    def _apply(self, events: Sequence[WatchEvent]) -> None:
        with self._lock:
            for event in events:
                if event.type == "delete":
                    self._state.pop(event.key, None)
                else:
                    before = self._state.get(event.key)
                    version = before.version + 1 if before else 1
                    self._state[event.key] = KV(
                        event.key, event.value, event.create_revision, event.mod_revision, version, event.lease
                    )
        self._report(events)

    def _report(self, events: Sequence[WatchEvent]) -> None:
        if events and not self._stop.is_set():
            self._on_change(events)


def _changed(before: KV | None, now: KV) -> bool:
    return before is None or before.mod_revision != now.mod_revision
