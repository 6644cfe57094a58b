"""The age of the oldest change that is not applied. Pure."""

from __future__ import annotations

from pkg.status.lag import UNKNOWN

#: For this many seconds after a check found all applied, the task counts as up to date.
FRESH = 5.0


class LagWatch:
    """Checked once a second, over all runs of a task. Times are unix seconds of the upstream's clock."""

    def __init__(self) -> None:
        #: All that was committed before this time is applied; None while unknown.
        self._applied_until: float | None = None
        #: Whether all was applied at the last check.
        self._at_end = False

    def look(self, now: float, *, oldest: int, newest: int, at_end: bool | None, held: bool) -> None:
        """``oldest``: commit time of the oldest change not yet applied, 0 for none. ``newest``: time of the newest
        event that was read, 0 for none. ``at_end``: whether the checkpoint is at the binlog's end at ``now``; None
        when the upstream did not answer. ``held``: rows of merged shards are held back."""
        if oldest:
            self._applied_until, self._at_end = oldest, False
        elif at_end and not held:
            self._applied_until, self._at_end = now, True
        else:
            if newest and (self._applied_until is None or not held):
                # What was read is applied; what follows it is later.
                self._applied_until = max(self._applied_until or 0, newest)
            self._at_end = self._at_end and at_end is None and not held

    def run_changed(self) -> None:
        """A run begins or has ended: what the upstream writes in between is unknown. A known lag continues."""
        if self._at_end:
            self._applied_until, self._at_end = None, False

    def seconds(self, now: float, oldest: int) -> int:
        """The lag, at most; :data:`UNKNOWN` if unknown. ``oldest`` as in :meth:`look`, current."""
        since = oldest or self._applied_until
        if since is None:
            return UNKNOWN
        if not oldest and self._at_end and now - since < FRESH:
            return 0
        return max(0, int(now - since))
