"""Which source this worker serves, and whose relay log it pulls: follows the worker's keys in etcd."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from dm_worker.engine.engine import SparkEngine
from dm_worker.relay.source_relay import SourceRelay
from dm_worker.source.purge_watch import PurgeWatch
from dm_worker.source.relay_worker import RelayWorker
from dm_worker.source.source_worker import KILL_TIMEOUT, SHUTDOWN_KILL_TIMEOUT, SourceWorker, read_source
from dm_worker.source.unit_factory import UnitFactory
from dm_worker.source.worker_metrics import WorkerMetrics
from pkg import errors
from pkg.config.codec import decode_source
from pkg.config.model import SourceConfig
from pkg.errors import Code, DMError
from pkg.etcd import EtcdClient, PrefixMirror, WatchEvent
from pkg.ha import keys
from pkg.ha.records import SourceBound
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread

log = get_logger(__name__)

#: Seconds until an attempt to take over a source is repeated.
RETRY = 1.0
#: Seconds between two checks whether the first answers of etcd have arrived.
_SYNC_POLL = 0.1


class RelayedSource(Protocol):
    """A source whose relay this worker may have."""

    source: SourceConfig
    relay: SourceRelay
    purge_watch: PurgeWatch


class Binder:
    """Opens and closes the :class:`SourceWorker` of the bound source, between :meth:`start` and :meth:`end`. Without
    a bound source, the :class:`RelayWorker` of the source whose relay log this worker has to pull.

    ``relay_dir``: the worker's folder of relay logs. ``on_stuck`` is called when a unit still runs after a kill: then
    only the end of the process stops it.
    """

    def __init__(
        self,
        worker: str,
        engine: SparkEngine,
        make_unit: UnitFactory,
        metrics: WorkerMetrics,
        *,
        on_stuck: Callable[[], None],
        relay_dir: str = "",
    ) -> None:
        self._worker = worker
        self._relay_dir = relay_dir
        self._engine = engine
        self._make_unit = make_unit
        self._metrics = metrics
        self._on_stuck = on_stuck
        self._lock = threading.Lock()
        self._current: SourceWorker | None = None
        self._closing: SourceWorker | None = None
        self._relay_worker: RelayWorker | None = None
        self._bound = ""
        self._revision = 0
        self._error: DMError | None = None

    @property
    def current(self) -> SourceWorker | None:
        """The source being served."""
        with self._lock:
            return self._current

    @property
    def relayed(self) -> RelayedSource | None:
        """The source being served, else the one whose relay log this worker pulls."""
        with self._lock:
            return self._current or self._relay_worker

    @property
    def trouble(self) -> tuple[str, DMError | None]:
        """The bound source ('' for none) and the error that keeps this worker from serving it."""
        with self._lock:
            return self._bound, self._error

    def start(self, client: EtcdClient, on_broken: Callable[[BaseException], None]) -> None:
        """Starts to follow the worker's keys; returns at once."""
        self._client = client
        self._on_broken = on_broken
        self._dirty = threading.Event()
        self._stop = threading.Event()
        self._bounds, self._relays = (
            PrefixMirror(client, family.key(self._worker), self._on_events, on_error=on_broken).start()
            for family in (keys.BOUND, keys.RELAY_WORKER)
        )
        self._thread = ServiceThread("binder", self._main, self._stop).start()

    def end(self, *, graceful: bool) -> None:
        """Closes the source and stops following."""
        self._stop.set()
        self._dirty.set()
        if not graceful:
            # All writing has to end before this waits for a thread or for etcd.
            for worker in self._serving():
                worker.kill()
        self._bounds.stop()
        self._relays.stop()
        self._thread.join()
        self._close_relay_worker()
        self._close(graceful=graceful, kill_timeout=SHUTDOWN_KILL_TIMEOUT if graceful else KILL_TIMEOUT)

    def _on_events(self, _: Sequence[WatchEvent]) -> None:
        self._dirty.set()

    def _main(self) -> None:
        # No wait after a restart of this loop: the failure may have lost a notification.
        retry: float | None = 0.0
        while not self._stop.is_set():
            self._dirty.wait(retry)
            if self._stop.is_set():
                return
            self._dirty.clear()
            if not (self._bounds.wait_synced(0) and self._relays.wait_synced(0)):
                retry = _SYNC_POLL
                continue
            try:
                self._follow()
                error, retry = None, None
            except DMError as exc:
                log.error("cannot serve the bound source", error=str(exc))
                error, retry = exc, RETRY
            with self._lock:
                self._error = error

    def _follow(self) -> None:
        # Other workers' keys may have ours as a prefix, so only the exact key counts.
        stored = self._bounds.snapshot().get(keys.BOUND.key(self._worker))
        source = SourceBound.from_json(stored.value).source if stored else ""
        relay = self._relays.snapshot().get(keys.RELAY_WORKER.key(self._worker))
        relayed = relay.value if relay and not source else ""
        with self._lock:
            self._bound = source
            current = self._current
        revision = stored.mod_revision if stored else 0
        # A bound key that is written again asks for a source that has changed.
        if current is not None and (current.source.source_id != source or self._revision != revision):
            log.info("source unbound", source=current.source.source_id)
            self._close(graceful=True)
            current = None
        idle = self._relay_worker
        if idle is not None and idle.source.source_id != relayed:
            self._close_relay_worker()
            idle = None
        if source and current is None:
            self._revision = revision
            self._open(source)
        if relayed and idle is None:
            self._open_relay_worker(relayed)

    def _open(self, source_id: str) -> None:
        source = read_source(self._client, source_id, decode_source)
        worker = SourceWorker(
            source,
            self._client,
            self._engine,
            self._make_unit,
            self._metrics,
            worker=self._worker,
            relay_dir=self._relay_dir,
            on_broken=self._on_broken,
        )
        with self._lock:
            if self._stop.is_set():
                return
            self._current = worker
            worker.start()
        log.info("source bound", source=source_id)
        self._engine.warm_up()

    def _close(self, *, graceful: bool, kill_timeout: float = KILL_TIMEOUT) -> None:
        with self._lock:
            current, self._current = self._current, None
            self._closing = current
        if current is not None and not current.close(graceful=graceful, kill_timeout=kill_timeout):
            self._on_stuck()
        with self._lock:
            self._closing = None

    def _open_relay_worker(self, source_id: str) -> None:
        worker = RelayWorker(
            read_source(self._client, source_id, decode_source),
            self._client,
            worker=self._worker,
            relay_dir=self._relay_dir,
            on_broken=self._on_broken,
        )
        with self._lock:
            if self._stop.is_set():
                return
            self._relay_worker = worker
            worker.start()
        log.info("pulling the relay log of a source that another worker serves", source=source_id)

    def _close_relay_worker(self) -> None:
        with self._lock:
            worker, self._relay_worker = self._relay_worker, None
        if worker is not None:
            worker.close()

    def _serving(self) -> list[SourceWorker]:
        """All source workers that may still write: the current one and one that is closing."""
        with self._lock:
            return [worker for worker in (self._current, self._closing) if worker is not None]


def not_started() -> DMError:
    """The answer of a worker without a source."""
    return errors.new(
        Code.WorkerNoStart,
        "this worker serves no source",
        workaround="`dmctl list-member` shows which worker the source is bound to.",
    )
