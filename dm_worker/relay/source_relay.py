"""The relay of a source on this worker: follows its desired stage, and serves readers and status."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from dm_worker.relay.layout import OWNER, RelayDir
from dm_worker.relay.purge import NeededFile
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay import Relay, RelayCounts
from dm_worker.relay.source_selection import RelayReader
from pkg import errors
from pkg.binlog.position import Location, parse_position
from pkg.config.model import SourceConfig
from pkg.errors import Code, DMError
from pkg.errors.workarounds import way_on_of_relay
from pkg.pb import dmworker_pb2 as pb
from pkg.process.log import get_logger
from pkg.status.lag import STOPPED, UNKNOWN

log = get_logger(__name__)

#: The folder of relay logs when neither worker nor source configures one.
DEFAULT_FOLDER = "relay-dir"


def relay_folder(worker_dir: str, source_dir: str, worker: str) -> Path:
    """The relay log folder of ``worker``: ``<relay-dir>/<worker>``; its own relay-dir wins over the source's."""
    return Path(worker_dir or source_dir or DEFAULT_FOLDER) / worker


class SourceRelay:
    """Keeps one source's relay log in ``folder``, as replica ``server_id`` of the upstream (None: the source's own id).

    ``start_at`` and ``needed``: see :class:`Relay`.
    """

    def __init__(
        self,
        source: SourceConfig,
        folder: Path,
        *,
        start_at: Callable[[], Location | None],
        needed: Callable[[RelayDir, ReadableEnd], Sequence[NeededFile]],
        server_id: int | None = None,
    ) -> None:
        self.folder = RelayDir(folder)
        self.readable_end = ReadableEnd()
        self._source = source
        self._start_at = start_at
        self._needed = needed
        # The source's server id is its relay's; each subtask that reads the upstream has its own.
        self._server_id = source.server_id if server_id is None else server_id
        self._lock = threading.Lock()
        self._relay: Relay | None = None
        self._error: DMError | None = None

    # -- stages -------------------------------------------------------------------------------------------------------

    def change_stage(self, stage: str) -> None:
        """Goes to stage ``Running`` or ``Paused``; stops the relay for ''. ``Running`` again resumes a failed relay."""
        if not stage:
            self.close()
            return
        try:
            relay = self._made()
        except (DMError, OSError) as exc:
            error = _unusable(self.folder.path, exc)
            self._error = error.with_workaround(way_on_of_relay(error, self._source.source_id))
            log.error("the relay does not start", source=self._source.source_id, error=str(self._error))
            return
        self._error = None
        if stage == "Paused":
            relay.pause()
        else:
            relay.resume()
        log.info("relay stage changed", source=self._source.source_id, stage=stage)

    def close(self) -> None:
        """Stops the relay; the files stay."""
        with self._lock:
            relay, self._relay, self._error = self._relay, None, None
        if relay is not None:
            relay.stop()
            log.info("relay stage changed", source=self._source.source_id, stage="Stopped")

    def _made(self) -> Relay:
        with self._lock:
            if self._relay is None:
                self._take_folder()
                self._relay = Relay(
                    self._source,
                    self.folder.path,
                    self.readable_end,
                    server_id=self._server_id,
                    start_at=self._start_at,
                    needed=lambda: self._needed(self.folder, self.readable_end),
                )
            return self._relay

    def _take_folder(self) -> None:
        """Removes another source's files: the folder is this worker's, and a worker serves one source.

        Raises 30033 for files that are not known to be a relay log; they stay.
        """
        folder, source = self.folder, self._source.source_id
        owner, there = folder.owner(), [path.name for path in folder.entries()]
        if there and not owner:
            raise errors.new(
                Code.RelayMkdir,
                f"the relay folder {folder.path} is not empty ({', '.join(there[:5])}), and no file {OWNER} in it "
                "names the source of this relay log; nothing was removed",
                workaround=f"If it is the relay log of source {source}, write this name into {folder.path / OWNER}. "
                "Otherwise move the files away, or set another relay-dir for the worker. Then resume-relay.",
            )
        if owner != source and there:
            log.warning(
                "removing the relay log of another source, which this worker served before",
                folder=str(folder.path), former=owner, source=source, entries=there,
            )  # fmt: skip
            folder.clear()
        folder.own(source)

    # -- for readers --------------------------------------------------------------------------------------------------

    def reader(self) -> RelayReader:
        """A reader for one subtask."""
        return RelayReader(self, self._source.flavor)

    def goes_on(self) -> bool:
        relay = self._relay
        return relay is not None and relay.goes_on

    def executed(self) -> str:
        relay = self._relay
        return relay.executed if relay is not None else ""

    def caught_up(self) -> bool:
        status = self.status()
        if status is None or not status.masterBinlog or not status.relayBinlog:
            return False
        return parse_position(status.masterBinlog) <= parse_position(status.relayBinlog)

    # -- for the worker -----------------------------------------------------------------------------------------------

    @property
    def counts(self) -> RelayCounts | None:
        """Counts for metrics; None without a relay."""
        relay = self._relay
        return relay.counts if relay is not None else None

    def status(self) -> pb.RelayStatus | None:
        """The status for ``query-status``; None when there is no relay."""
        relay, error = self._relay, self._error
        if error is not None:
            result = pb.ProcessResult(errors=[pb.ProcessError(**error.to_dict())])
            return pb.RelayStatus(
                stage=pb.Paused, result=result, secondsBehind=UNKNOWN, bytesBehind=UNKNOWN, lagReason=STOPPED
            )
        return relay.status() if relay is not None else None

    def purge(self, *, filename: str, sub_dir: str, before: float, inactive: bool) -> int:
        """See :meth:`Relay.purge`; raises 30038 when there is no relay."""
        relay = self._relay
        if relay is None:
            raise errors.new(
                Code.RelayNoActiveRelayLog,
                f"source {self._source.source_id} has no relay on this worker",
                workaround="Run start-relay, and wait until query-status shows the relay's position.",
            )
        return relay.purge(filename=filename, sub_dir=sub_dir, before=before, inactive=inactive)


def _unusable(folder: Path, exc: DMError | OSError) -> DMError:
    if isinstance(exc, DMError):
        return exc
    return errors.new(
        Code.RelayMkdir,
        f"the relay folder {folder} can't be used: {exc}",
        raw=exc,
        workaround="Check relay-dir in the worker's configuration and its permissions, then resume-relay.",
    )
