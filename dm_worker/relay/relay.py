"""The relay of one source: its thread, its stages, its errors::

    Stopped -- start --> Running -- pause, full disk, permanent error -------------> Paused
      ^                  |     ^                                                   |    |
      |                  |     +----- resume; space on the disk again -------------+    |
      +----- stop -------+------------------------- stop -------------------------------+

A transient error does not change the stage: the thread waits and connects again.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dm_worker.relay.layout import RelayDir
from dm_worker.relay.purge import NeededFile, Purger
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay_client import RelayClient
from dm_worker.relay.relay_lag import relay_lag
from dm_worker.relay.relay_writer import BlockCounts, is_disk_full
from dm_worker.relay.upstream_end import UpstreamEnd
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.config.model import SourceConfig
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice, way_on_of_relay
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.process.service_thread import ServiceThread

log = get_logger(__name__)

#: The largest pause between connections that failed in a row (seconds).
LONGEST_PAUSE = 30.0
#: Seconds between two checks of a full disk, and the share of it that must be free to resume.
DISK_LOOK, ENOUGH = 2.0, 0.01
_DAMAGE = frozenset({Code.BinlogParseSingleEv})


@dataclass(slots=True)
class RelayCounts:
    """Metrics since the process began. ``exits``: pauses after an error, by whether it resumes by itself."""

    blocks: BlockCounts = field(default_factory=BlockCounts)
    read_errors: int = 0
    corruption: int = 0
    exits: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})


class Relay:
    """Keeps a source's binlog in ``relay_dir`` from :meth:`start` to :meth:`stop`. Thread-safe.

    ``source.flavor`` must be known. ``start_at``: where an empty folder begins, usually the earliest checkpoint of the
    source's subtasks; it is called when it is needed. ``needed``: the files that subtasks and dumps still need, called
    before every purge; it raises 30037 while they are unknown.
    """

    def __init__(
        self,
        source: SourceConfig,
        relay_dir: Path,
        readable_end: ReadableEnd,
        *,
        server_id: int,
        start_at: Callable[[], Location | None] = lambda: None,
        needed: Callable[[], Sequence[NeededFile]] = tuple,
    ) -> None:
        self.counts = RelayCounts()
        self._source = source
        self._folder = RelayDir(relay_dir)
        self._readable_end = readable_end
        self._upstream = UpstreamEnd(source)
        self._client = RelayClient(source, self._folder, readable_end, server_id, start_at, self.counts.blocks)
        self._needed = needed
        self._purger = Purger(self._folder, self._all_needed, space=self._space, now=time.time)
        self._purging = threading.Lock()
        #: Guards stage, errors and thread.
        self._lock = threading.RLock()
        self._stage = pb.Stopped
        self._errors: list[DMError] = []
        self._thread: threading.Thread | None = None
        self._halt = threading.Event()

    @property
    def goes_on(self) -> bool:
        """Whether readers at the end should wait: the relay runs, or was paused without an error."""
        with self._lock:
            return not self._errors and self._stage in (pb.Running, pb.Paused)

    @property
    def executed(self) -> str:
        """The GTID set at the relay log's end; '' while unknown."""
        progress = self._client.progress
        return progress.gtids if progress is not None else ""

    def start(self) -> None:
        """Starts the relay; does nothing if it runs already."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            # Ends the purge loop of an earlier start that failed; each start has its own event.
            self._halt.set()
            self._halt = threading.Event()
            self._client.allow_pulls()
            self._set(pb.Running)
            self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
            self._thread.start()
            if self._source.purge.interval > 0:
                ServiceThread("relay-purge", partial(self._purge_loop, self._halt), self._halt).start()

    def resume(self) -> None:
        """Resumes after :meth:`pause` or an error."""
        self.start()

    def pause(self) -> None:
        """Pauses the relay. Returns when the files are closed and complete."""
        self._end(pb.Paused)

    def stop(self) -> None:
        """Stops the relay for good."""
        self._end(pb.Stopped)

    def _end(self, stage: pb.Stage) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            self._halt.set()
        self._client.end()
        if thread is not None:
            thread.join()
        with self._lock:
            if self._thread is None:
                self._set(stage)

    def _set(self, stage: pb.Stage, error: DMError | None = None) -> None:
        with self._lock:
            self._stage = stage
            source = self._source.source_id
            self._errors = [error.with_workaround(way_on_of_relay(error, source))] if error is not None else []

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        try:
            while not self._halt.is_set():
                try:
                    self._client.pull()
                except DMError as exc:
                    failures = 1 if self._client.received else failures + 1
                    if not self._survives(exc, failures):
                        return
            self._client.close()
        except DMError as exc:
            self._failed(exc)
        except Exception as exc:  # noqa: BLE001 - every error must be visible in query-status
            self._failed(
                errors.new(
                    Code.RelayWriterStatusNotValid, f"the relay failed: {exc!r}", raw=exc, workaround=Advice.DEFECT
                )
            )
        finally:
            self._client.drop()

    def _survives(self, exc: DMError, failures: int) -> bool:
        """Waits before the next retry; False when only an operator can help."""
        full = is_disk_full(exc)
        if not full:
            self.counts.read_errors += exc.scope == "upstream"
            self.counts.corruption += exc.kind in _DAMAGE
        if not full and not exc.retryable:
            self._failed(exc)
            return False
        log.warning("the relay was interrupted", source=self._source.source_id, error=str(exc), failures=failures)
        if full:
            self._await_space(exc)
        else:
            longest = min(LONGEST_PAUSE, self._source.checker.backoff_max)
            self._halt.wait(min(0.2 * 2 ** min(failures, 10), longest))
        return True

    def _failed(self, exc: DMError) -> None:
        log.error("the relay paused", source=self._source.source_id, error=str(exc))
        self.counts.exits[False] += 1
        self._set(pb.Paused, exc)

    def _await_space(self, exc: DMError) -> None:
        """Shows the stage Paused with the reason until the disk has space again."""
        self.counts.exits[True] += 1
        self._set(pb.Paused, exc)
        while not self._halt.wait(DISK_LOOK):
            usage = shutil.disk_usage(self._existing())
            if usage.free > ENOUGH * usage.total:
                self._set(pb.Running)
                return

    # -- status and purge ---------------------------------------------------------------------------------------------

    def status(self) -> pb.RelayStatus:
        """A snapshot for ``query-status``; waits for the upstream for :data:`ANSWER_TIMEOUT` at most. Never raises."""
        end, current = self._upstream.get()
        progress, master = self._client.progress, end.location if end is not None else None
        here = None if progress is None else Position(progress.end.file, progress.end.size)
        with self._lock:
            status = pb.RelayStatus(stage=self._stage)
            if self._errors:
                status.result.CopyFrom(
                    pb.ProcessResult(errors=[pb.ProcessError(**error.to_dict()) for error in self._errors])
                )
        if master is not None:
            status.masterBinlog, status.masterBinlogGtid = str(master.position), master.gtid_set
        lag = relay_lag(
            # An earlier answer proves nothing.
            end if current else None,
            here,
            self._client.newest,
            running=status.stage == pb.Running,
            connected=self._client.connected,
        )
        status.secondsBehind, status.bytesBehind, status.lagReason = lag.seconds, lag.unread, lag.reason
        if progress is not None:
            status.relaySubDir, status.relayBinlog, status.relayBinlogGtid = (
                progress.end.subdir,
                str(here),
                progress.gtids,
            )
            status.relayCatchUpMaster = current and master is not None and master.position == here
        return status

    def purge(self, *, filename: str = "", sub_dir: str = "", before: float = 0.0, inactive: bool = False) -> int:
        """Removes files that are not needed: those before ``filename``, those last written before ``before`` (seconds
        since the epoch), or all (``inactive``). Returns their number.

        Raises 30039 unless exactly one of them is given, 30035 while another purge runs, 30037 while the needed files
        are unknown, 30038 when there is no relay log, 30042 for a file that is missing or still needed.
        """
        if [bool(filename), bool(before), inactive].count(True) != 1:
            raise errors.new(
                Code.RelayPurgeRequestNotValid,
                "purge-relay takes exactly one of a file, a time, and inactive",
                workaround="Name the first file to keep: purge-relay -s <source> -f <file>.",
            )
        if not self._purging.acquire(blocking=False):
            raise errors.new(
                Code.RelayThisStrategyIsPurging,
                "a purge of the relay log is already running",
                workaround="Try again when it is complete.",
            )
        try:
            if filename:
                return self._purger.up_to(filename, sub_dir)
            return self._purger.unneeded() if inactive else self._purger.older_than(before)
        finally:
            self._purging.release()

    def _purge_loop(self, halt: threading.Event) -> None:
        rules = self._source.purge
        while not halt.wait(rules.interval):
            with self._purging:
                try:
                    self._purger.regularly(expires=rules.expires, remain_space=rules.remain_space)
                except DMError as exc:
                    log.warning("the relay log was not purged", source=self._source.source_id, error=str(exc))

    def _all_needed(self) -> Sequence[NeededFile]:
        """The files that others need, and the file being written."""
        end = self._readable_end.end()
        if end is None:
            raise errors.new(
                Code.RelayNoActiveRelayLog,
                "no relay log is being written",
                workaround="Run start-relay, and wait until query-status shows the relay's position.",
            )
        return [*self._needed(), NeededFile(end.subdir, end.file)]

    def _space(self) -> int:
        return shutil.disk_usage(self._existing()).free

    def _existing(self) -> Path:
        """The relay folder, or the folder in which it will be created."""
        path = self._folder.path
        return next(folder for folder in (path, *path.absolute().parents) if folder.exists())
