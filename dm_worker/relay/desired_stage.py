"""The desired stage of a source's relay on this worker, from etcd."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pkg.etcd import EtcdClient, PrefixMirror
from pkg.ha import keys
from pkg.ha.records import RelayStage


class DesiredRelayStage:
    """Follows the relay's stage and the workers that ``start-relay`` named; ``on_change`` is called from any thread.

    ``on_broken``: as :class:`PrefixMirror`'s ``on_error``.
    """

    def __init__(
        self,
        client: EtcdClient,
        source: str,
        worker: str,
        on_change: Callable[[], None],
        on_broken: Callable[[BaseException], None],
    ) -> None:
        self._source = source
        self._worker = worker
        self._stages, self._workers = (
            PrefixMirror(client, prefix, lambda _: on_change(), on_error=on_broken)
            for prefix in (keys.RELAY_STAGE.key(source), keys.RELAY_WORKER.prefix())
        )
        self._lock = threading.Lock()
        self._last: tuple[str, int] = ("", 0)

    def start(self) -> None:
        self._stages.start()
        self._workers.start()

    def stop(self) -> None:
        self._stages.stop()
        self._workers.stop()

    def synced(self) -> bool:
        """Whether the first answers of etcd have arrived."""
        return self._stages.wait_synced(0) and self._workers.wait_synced(0)

    def changed(self) -> str | None:
        """The desired stage ('' for no relay) if it was written since the last call; else None.

        Call it once :meth:`synced` is true. Raises 42502 for a key that cannot be decoded.
        """
        with self._lock:
            desired = self._desired()
            if desired == self._last:
                return None
            self._last = desired
            return desired[0]

    def _desired(self) -> tuple[str, int]:
        """The desired stage and the revision of its key."""
        stored = self._stages.snapshot().get(keys.RELAY_STAGE.key(self._source))
        named = [
            keys.RELAY_WORKER.names(key)[0] for key, kv in self._workers.snapshot().items() if kv.value == self._source
        ]
        if stored is None or (named and self._worker not in named):
            return "", 0
        return RelayStage.from_json(stored.value).expect, stored.mod_revision
