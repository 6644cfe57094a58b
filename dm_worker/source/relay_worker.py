"""A source whose relay log this worker pulls while another worker serves it: a copy for a failover."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dm_worker.relay.desired_stage import DesiredRelayStage
from dm_worker.relay.layout import RelayDir
from dm_worker.relay.purge import NeededFile
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.source_relay import SourceRelay, relay_folder
from dm_worker.source import binlog_needs
from dm_worker.source.purge_watch import BinlogReader, PurgeWatch
from pkg.binlog.streams.server_stream import replica_id
from pkg.config.codec import decode_subtask
from pkg.config.model import SourceConfig, SubTaskConfig
from pkg.errors import DMError
from pkg.etcd import EtcdClient, PrefixMirror
from pkg.ha import keys
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread

log = get_logger(__name__)

#: Seconds between two checks whether the first answers of etcd have arrived.
_SYNC_POLL = 0.1
#: Seconds that the relay waits for the list of subtasks from etcd.
_ETCD_TIMEOUT = 30.0


class RelayWorker:
    """Pulls the relay log of ``source`` from :meth:`start` to :meth:`close`, in its desired stage; runs no subtasks.

    A :class:`SourceWorker` on this worker would continue these files. The other arguments are as there.
    """

    def __init__(
        self,
        source: SourceConfig,
        client: EtcdClient,
        *,
        worker: str,
        relay_dir: str,
        on_broken: Callable[[BaseException], None],
    ) -> None:
        self.source = source
        self._dirty = threading.Event()
        self._stop = threading.Event()
        self._configs = PrefixMirror(
            client, keys.SUBTASK.prefix(source.source_id), lambda _: self._dirty.set(), on_error=on_broken
        )
        self._desired = DesiredRelayStage(client, source.source_id, worker, self._dirty.set, on_broken)
        self.relay = SourceRelay(
            source,
            relay_folder(relay_dir, source.relay_dir, worker),
            # An upstream allows one connection per server id, and the worker that serves the source uses the source's.
            server_id=replica_id("relay", source.source_id, worker),
            start_at=lambda: binlog_needs.earliest_location(self._subtasks()),
            needed=self._needed,
        )
        self.purge_watch = PurgeWatch(source, self._readers)
        self._thread = ServiceThread(f"relay-of-{source.source_id}", self._main, self._stop)

    def start(self) -> None:
        self._configs.start()
        self._desired.start()
        self.purge_watch.start()
        self._thread.start()

    def close(self) -> None:
        """Stops the relay where its files are complete."""
        self._stop.set()
        self._dirty.set()
        self._configs.stop()
        self._desired.stop()
        self.purge_watch.stop()
        self._thread.join()
        self.relay.close()

    def _main(self) -> None:
        while not self._stop.is_set():
            self._dirty.wait(None if self._desired.synced() else _SYNC_POLL)
            self._dirty.clear()
            if self._stop.is_set() or not self._desired.synced():
                continue
            try:
                stage = self._desired.changed()
            except DMError as exc:
                # The relay stays as it is until the key is repaired.
                log.error("cannot apply the relay's desired stage", source=self.source.source_id, error=str(exc))
                continue
            if stage is not None:
                self.relay.change_stage(stage)

    def _subtasks(self) -> list[SubTaskConfig]:
        """All subtasks of the source. Raises 20035 or 20010."""
        self._configs.wait_synced(_ETCD_TIMEOUT)
        return [decode_subtask(stored.value) for stored in self._configs.snapshot().values()]

    def _needed(self, folder: RelayDir, readable_end: ReadableEnd) -> list[NeededFile]:
        """The files that the subtasks would read here after a failover. Raises 30037 while that is not known."""
        return binlog_needs.needed_files(folder, readable_end, self._subtasks())

    def _readers(self) -> list[BinlogReader]:
        return binlog_needs.binlog_readers(self.relay, [])
