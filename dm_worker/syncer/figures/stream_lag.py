"""How far the reader of the binlog is behind the upstream's end, and why. Pure."""

from __future__ import annotations

from dm_worker.syncer.figures.lag_reason import HANDING, PLANNING, REOPENING, SOURCE
from pkg.status.lag import APPLYING, AWAY, PLAN, READ, RELAY, RETRY, SOURCE_IDLE, UNKNOWN, StreamLag

#: An answer of the upstream that is older than this many seconds proves nothing.
STALE = 15.0
_BY_STAGE = {REOPENING: RETRY, HANDING: APPLYING, PLANNING: PLAN}


class StreamWatch:
    """Looked at once a second during one run. Times are unix seconds of the upstream's clock."""

    def __init__(self) -> None:
        self._answered: float | None = None
        #: All that was written before this time is read; 0 while unknown.
        self._read_until = 0.0
        #: Bytes that are not read; None while unknown.
        self._unread: int | None = None

    def look(self, now: float, *, newest: int, unread: int | None) -> None:
        """The upstream has answered at ``now``. ``newest``: time of the newest event that was read, 0 for none.
        ``unread``: bytes from there to the upstream's end, None when they cannot be counted."""
        self._answered, self._unread = now, unread
        self._read_until = now if unread == 0 else max(self._read_until, newest)

    def missed(self) -> None:
        """The upstream did not answer: it may have written since."""
        self._answered = None

    def answers(self, now: float) -> bool:
        """Whether the upstream's last answer still counts."""
        return self._answered is not None and now - self._answered < STALE

    def lag(self, now: float, stage: str, *, local: bool) -> StreamLag:
        """``stage``: of the reader. ``local``: it reads the relay log."""
        if not self.answers(now):
            return StreamLag(UNKNOWN, UNKNOWN, RETRY if stage == REOPENING else AWAY)
        if self._unread == 0:
            return StreamLag(0, 0, SOURCE_IDLE)
        seconds = max(0, int(now - self._read_until)) if self._read_until else UNKNOWN
        reason = RELAY if local and stage == SOURCE else _BY_STAGE.get(stage, READ)
        return StreamLag(seconds, UNKNOWN if self._unread is None else self._unread, reason)
