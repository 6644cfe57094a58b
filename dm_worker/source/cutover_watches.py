"""The watches over a source's upstream: one for each task that has ended by a cutover, as etcd says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from dm_worker.cutover.upstream_watch import UpstreamWatch
from pkg.binlog.position import Location, parse_position
from pkg.config.model import SubTaskConfig
from pkg.etcd import EtcdClient, PrefixMirror
from pkg.ha import keys
from pkg.ha.records import CutoverWatchRecord
from pkg.pb import dmworker_pb2 as pb


class CutoverWatches:
    """``changed`` is called after each change in etcd, ``on_broken`` as in :class:`PrefixMirror`."""

    def __init__(
        self,
        client: EtcdClient,
        source_id: str,
        changed: Callable[[], None],
        on_broken: Callable[[BaseException], None],
    ) -> None:
        self._mirror = PrefixMirror(
            client, keys.CUTOVER_WATCH.prefix(source_id), lambda _: changed(), on_error=on_broken
        )
        self._lock = threading.Lock()
        self._watches: dict[str, UpstreamWatch] = {}
        #: Stopped, and perhaps still reading for a moment.
        self._ending: list[UpstreamWatch] = []

    def start(self) -> None:
        self._mirror.start()

    def stop(self) -> None:
        """Ends all watches; does not wait."""
        self._mirror.stop()
        self._follow({}, {})

    def join(self, timeout: float) -> None:
        """Waits until stopped watches have ended: another worker may write the same file next."""
        end = time.monotonic() + timeout
        with self._lock:
            ending, self._ending = self._ending, []
        for watch in ending:
            watch.join(max(0.0, end - time.monotonic()))

    def wait_synced(self, timeout: float) -> bool:
        return self._mirror.wait_synced(timeout)

    def follow(self, configs: Callable[[], Iterable[SubTaskConfig]]) -> None:
        """Starts and ends watches as etcd says; ``configs``: of the source's subtasks.

        Raises 42502 or 22003 for a record that can't be read, and the errors of a config.
        """
        wanted = {}
        for key, stored in self._mirror.snapshot().items():
            record = CutoverWatchRecord.from_json(stored.value)
            agreed = Location(parse_position(record.position), record.gtid_set)
            wanted[keys.CUTOVER_WATCH.names(key)[1]] = (agreed, record.opposite)
        self._follow(wanted, {one.name: one for one in configs()} if wanted else {})

    def _follow(self, wanted: dict[str, tuple[Location, str]], configs: dict[str, SubTaskConfig]) -> None:
        with self._lock:
            for task, watch in [*self._watches.items()]:
                if wanted.get(task) != (watch.agreed, watch.opposite) or task not in configs:
                    watch.stop()
                    self._ending.append(self._watches.pop(task))
            for task in sorted(wanted.keys() & configs.keys() - self._watches.keys()):
                self._watches[task] = UpstreamWatch(configs[task], *wanted[task])
                self._watches[task].start()

    def fill(self, status: pb.SubTaskStatus) -> None:
        """Adds what the task's watch has found to the status, if it has one."""
        with self._lock:
            watch = self._watches.get(status.name)
        if watch is not None:
            status.cutover.CopyFrom(watch.status())
