"""Decides whether a subtask reads the relay log or the upstream.

A subtask reads the relay log while the relay runs and its files have what the subtask needs; otherwise the upstream.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from dm_worker.relay.layout import RelayDir
from dm_worker.relay.readable_end import ReadableEnd
from dm_worker.relay.relay_stream import open_relay
from pkg import errors
from pkg.binlog.events import Event
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.stream import BinlogStream, RawScan
from pkg.errors import Code, DMError
from pkg.process.log import get_logger

log = get_logger(__name__)

#: Seconds that a subtask waits for a relay that just started or lags a little, before it reads the upstream.
CATCH_UP_TIMEOUT = 5.0
#: Seconds between two checks whether the relay has caught up, while a subtask reads the upstream.
LOOK_INTERVAL = 5.0
#: Seconds for which a reader avoids the relay log after it was damaged or lacked what the reader needs.
DISTRUST_PERIOD = 300.0
_POLL = 0.1
#: Errors that the relay's files may have caused: the upstream is read instead.
_DAMAGE = frozenset(
    {Code.BinlogParseSingleEv, Code.RelayNoActiveRelayLog, Code.NoRelayPosMatchGTID, Code.BinlogFileNotValid}
)


class ReadableRelay(Protocol):
    """The relay, for its readers."""

    folder: RelayDir
    readable_end: ReadableEnd

    def goes_on(self) -> bool:
        """Whether readers at its end should wait for more: it runs, or an operator paused it."""

    def executed(self) -> str:
        """The GTID set at its end; '' while unknown."""

    def caught_up(self) -> bool:
        """Whether it has everything that the upstream had at the time of the call. May take some time."""


class RelayReader:
    """Opens the relay log for one subtask. ``flavor`` is the upstream's."""

    def __init__(self, relay: ReadableRelay, flavor: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._relay = relay
        self._flavor = flavor
        self._clock = clock
        self._distrusted_until = float("-inf")

    def open(self, location: Location, *, use_gtid: bool) -> BinlogStream | None:
        """The relay log from ``location`` on; None when the upstream must be read. Raises 11093 or 11095."""
        deadline = self._clock() + CATCH_UP_TIMEOUT
        while self._trusted() and self._relay.goes_on():
            if not self._behind(location, use_gtid):
                return self._open(location, use_gtid)
            if self._clock() > deadline:
                break
            time.sleep(_POLL)
        return None

    def watched(self, stream: BinlogStream) -> BinlogStream:
        """The upstream's ``stream``, which ends retryably once the relay log has caught up with the upstream."""
        return _Watched(stream, self._may_change_over, self._clock)

    def _open(self, location: Location, use_gtid: bool) -> BinlogStream | None:
        relay = self._relay
        try:
            stream = open_relay(
                relay.folder,
                relay.readable_end,
                location,
                flavor=self._flavor,
                use_gtid=use_gtid,
                goes_on=relay.goes_on,
            )
        except DMError as exc:
            if exc.kind not in _DAMAGE:
                raise
            self.distrust(exc)
            return None
        if stream is None:
            log.info(
                "the relay log does not contain the next events: reading the upstream instead", location=str(location)
            )
            self._distrusted_until = self._clock() + DISTRUST_PERIOD
            return None
        return _Guarded(stream, self.distrust)

    def _behind(self, location: Location, use_gtid: bool) -> bool:
        """Whether the relay log does not reach ``location`` yet."""
        end = self._relay.readable_end.end()
        if end is None:
            return True
        if not use_gtid:
            return Position(end.file, end.size) < location.position
        here, wanted = (parse_gtid_set(text, self._flavor) for text in (self._relay.executed(), location.gtid_set))
        return not here.contains(wanted)  # type: ignore[arg-type]

    def distrust(self, exc: DMError) -> None:
        """The relay log is damaged at this reader's position."""
        log.error("the relay log can't be read: reading the upstream instead", error=str(exc))
        self._distrusted_until = self._clock() + DISTRUST_PERIOD

    def _trusted(self) -> bool:
        return self._clock() >= self._distrusted_until

    def _may_change_over(self) -> bool:
        return self._trusted() and self._relay.goes_on() and self._relay.caught_up()


class _Wrapped:
    """A stream whose reading is wrapped."""

    def __init__(self, stream: BinlogStream) -> None:
        self._stream = stream

    @property
    def file(self) -> str:
        return self._stream.file

    def close(self) -> None:
        self._stream.close()

    def abort(self) -> None:
        self._stream.abort()


class _Guarded(_Wrapped):
    """The relay log. Damage makes the reader open another stream; it does not stop the task."""

    def __init__(self, stream: BinlogStream, distrust: Callable[[DMError], None]) -> None:
        super().__init__(stream)
        self._distrust = distrust

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        """See :meth:`BinlogStream.read`."""
        try:
            return self._stream.read(max_bytes, timeout, scan)
        except DMError as exc:
            if exc.retryable or exc.kind not in _DAMAGE:
                raise
            self._distrust(exc)
            raise DMError(
                exc.kind,
                exc.message,
                raw_cause=exc.raw_cause,
                workaround=exc.workaround,
                scope=exc.scope,
                retryable=True,
            ) from exc


class _Watched(_Wrapped):
    """The upstream, until the relay log is the better source."""

    def __init__(self, stream: BinlogStream, is_better: Callable[[], bool], clock: Callable[[], float]) -> None:
        super().__init__(stream)
        self._is_better = is_better
        self._clock = clock
        self._looked = clock()

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        """See :meth:`BinlogStream.read`."""
        now = self._clock()
        if now - self._looked >= LOOK_INTERVAL:
            self._looked = now
            if self._is_better():
                raise errors.new(
                    Code.SyncerGetEvent,
                    "the relay log has caught up with the upstream: reading continues from it",
                    retryable=True,
                )
        return self._stream.read(max_bytes, timeout, scan)
