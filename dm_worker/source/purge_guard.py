"""Predicts that an upstream will purge binlog files that are still needed, before error 1236 reports it. Pure.

A server removes a file when it is older than its retention, or when an operator, a cloud agent or a space limit purges
it. Both follow the order of the files, so the guard compares how fast a reader and the removal advance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from pkg.binlog.position import Position, file_number
from pkg.errors.workarounds import Advice, StoppedUnit, rendered

#: A reader that does not advance causes a warning when less than this part of the retention is left.
WARNING_SHARE = 0.5
#: Purges other than by retention are extrapolated from the last hour, and this many seconds ahead.
WINDOW, HORIZON = 3600.0, 86400.0


class RiskLevel(IntEnum):
    """How serious the risk is."""

    OK = 0
    WARNING = 1
    LOST = 2


@dataclass(frozen=True, slots=True)
class PurgeRisk:
    """``seconds_left`` until a needed file is removed, if nothing changes; None when no removal is expected."""

    level: RiskLevel
    seconds_left: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class PurgeDistance:
    """How far the upstream's purge is from what a reader needs.

    ``before``: bytes from the ``oldest`` file's start to the ``needed`` position; ``after``: from there to the end;
    None where the upstream does not have the position. ``retention`` and ``expires`` in seconds: how long files stay by
    the upstream's settings, and when the needed one goes by them; None for never. For a file that is being written,
    ``expires`` is as if it ended now.
    """

    needed: Position
    oldest: str = ""
    before: int | None = None
    after: int | None = None
    retention: float | None = None
    expires: float | None = None


NO_RISK = PurgeRisk(RiskLevel.OK)
_WORKAROUND = (
    "Keep binlogs longer there (expire_logs_days, binlog_expire_logs_seconds), or use a relay, which fetches them."
)


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    oldest: str
    read: int
    purged: int


class PurgeGuard:
    """Watches one reader of one upstream; call :meth:`look` regularly."""

    def __init__(self, stopped: StoppedUnit) -> None:
        """``stopped``: what cannot continue once its files are gone."""
        self._stopped = stopped
        self._closed: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._samples: deque[_Sample] = deque()
        self._position: Position | None = None

    def look(
        self, now: float, files: Mapping[str, int], retention: float | None, position: Position, lag: float = 0.0
    ) -> PurgeRisk:
        """The risk for a reader at ``position``, given the upstream's ``files`` (sizes in bytes, oldest first).

        ``retention``: seconds that a file stays after it was closed, None for ever. ``lag``: seconds since the event at
        ``position`` was written, 0 when unknown. ``now``: seconds of a monotonic clock.
        """
        if not files:
            return NO_RISK
        self._note(now, files, position, lag)
        if position.name not in files:
            if file_number(position.name) > file_number(next(iter(files))):
                return NO_RISK
            return PurgeRisk(
                RiskLevel.LOST,
                0.0,
                f"{position.name} is still needed, but the upstream has purged it. "
                f"The tables must be copied again: {rendered(Advice.COPY_AGAIN, self._stopped)}.",
            )
        return max(
            (self._by_age(now, files, retention, position), self._by_purges(now, files, position)), key=_severity
        )

    def distance(
        self, now: float, files: Mapping[str, int], retention: float | None, position: Position
    ) -> PurgeDistance:
        """The distance as of the last :meth:`look`; the same arguments."""
        if position.name not in files:
            return PurgeDistance(position, next(iter(files), ""), retention=retention)
        before = _offset(files, position)
        closed = self._closed.get(position.name, now)
        return PurgeDistance(
            position,
            next(iter(files)),
            before,
            max(0, sum(files.values()) - before),
            retention,
            None if retention is None else max(0.0, closed + retention - now),
        )

    # -- observations -------------------------------------------------------------------------------------------

    def _note(self, now: float, files: Mapping[str, int], position: Position, lag: float) -> None:
        names = list(files)
        purged = sum(size for name, size in self._sizes.items() if name not in files)
        read = self._bytes_read(files, position)
        for name in names[:-1]:
            # A file that was closed before the first look is at least as old as the event being read from it.
            first = not self._sizes and name == position.name
            self._closed.setdefault(name, now - lag if first else now)
        self._closed = {name: at for name, at in self._closed.items() if name in files}
        last = self._samples[-1] if self._samples else _Sample(now, names[0], 0, 0)
        self._samples.append(_Sample(now, names[0], last.read + read, last.purged + purged))
        while now - self._samples[0].at > WINDOW and len(self._samples) > 2:
            self._samples.popleft()
        self._sizes, self._position = dict(files), position

    def _bytes_read(self, files: Mapping[str, int], position: Position) -> int:
        """Bytes read since the last look, as far as the files show."""
        before = self._position
        if before is None or before.name not in files or position.name not in files:
            return 0
        return max(0, _offset(files, position) - _offset(files, before))

    def _rates(self) -> tuple[float, float]:
        """Bytes per second that were read and that were purged."""
        first, last = self._samples[0], self._samples[-1]
        seconds = last.at - first.at
        if seconds <= 0:
            return 0.0, 0.0
        return (last.read - first.read) / seconds, (last.purged - first.purged) / seconds

    # -- the prediction -----------------------------------------------------------------------------------------

    def _by_age(self, now: float, files: Mapping[str, int], retention: float | None, position: Position) -> PurgeRisk:
        if not retention:
            return NO_RISK
        speed, _ = self._rates()
        names = list(files)
        unread = -position.pos
        for name in names[names.index(position.name) : -1]:
            left = self._closed[name] + retention - now
            unread += files[name]
            if speed > 0 and unread / speed >= left:
                return _warning(name, left, f"at {speed:.0f} bytes/s it will be read too late")
            if speed <= 0 and left < WARNING_SHARE * retention:
                return _warning(name, left, "nothing is read from it")
        return NO_RISK

    def _by_purges(self, now: float, files: Mapping[str, int], position: Position) -> PurgeRisk:
        speed, purging = self._rates()
        if purging <= speed or list(files)[-1] == position.name:
            return NO_RISK
        left = _offset(files, Position(position.name, 0)) / (purging - speed)
        if left > HORIZON:
            return NO_RISK
        why = f"{purging:.0f} bytes/s of binlog are purged and {speed:.0f} bytes/s are read"
        return _warning(position.name, left, why)


def _offset(files: Mapping[str, int], position: Position) -> int:
    """Bytes from the oldest file's start."""
    total = 0
    for name, size in files.items():
        if name == position.name:
            return total + position.pos
        total += size
    return total


def _severity(risk: PurgeRisk) -> tuple[int, float]:
    return risk.level, -(risk.seconds_left or 0.0)


def _warning(name: str, left: float, why: str) -> PurgeRisk:
    text = f"the upstream will purge {name}, which is still needed, in about {_duration(left)}: {why}. {_WORKAROUND}"
    return PurgeRisk(RiskLevel.WARNING, max(left, 0.0), text)


def _duration(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.0f} hours"
    return f"{max(seconds, 0.0) / 60:.0f} minutes"
