"""The worker's part in a pair of snapshots: holds the syncer at the position of a task's upstream snapshot, one task at
a time.

Every source that takes part in a comparison or a sweep serves it, also while the tables that another source compares
are left. It also answers tasks that only ask whether the source is served.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import pymysql

from dm_worker.diff.meeting import ASKED, CALLED, GIVEN_UP, HELD, PLACE_SECONDS, READY, REFUSED, WANTED, PairMeeting
from pkg.binlog.position import Location
from pkg.errors import DMError
from pkg.process.log import get_logger

log = get_logger("diff.holds")

#: Default seconds between two checks whether a task requests a pair.
_IDLE = 0.05


class HoldSyncer(Protocol):
    """Holds replication at one position."""

    def hold(self, place: Location | None, seconds: float) -> str:
        """Waits until all before ``place`` is applied, and nothing after it; '' then, else the reason why not.

        None: wherever it is now. Replaces an earlier hold. The syncer continues by itself after ``seconds``."""
        ...

    def release(self) -> None:
        """Releases the syncer. No effect if it is not held."""
        ...


class PairHolds:
    """Serves tasks from a thread of its own within a ``with`` block."""

    def __init__(self, open_meeting: Callable[[], PairMeeting], syncer: HoldSyncer, idle: float = _IDLE) -> None:
        """``idle``: seconds between two checks whether a task requests a pair."""
        self._open_meeting = open_meeting
        self._syncer = syncer
        self._idle = idle
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="diff-holds", daemon=True)

    def __enter__(self) -> PairHolds:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        while self._thread.is_alive():
            # It ends a wait for the syncer, which may begin only now.
            self._syncer.release()
            self._thread.join(_IDLE)

    def _main(self) -> None:
        meeting: PairMeeting | None = None
        while not self._stop.is_set():
            try:
                meeting = meeting or self._open_meeting()
                for row in meeting.rows(WANTED, CALLED):
                    if row.step == CALLED:
                        meeting.answer_calls()
                    else:
                        self._serve(meeting, row.asker)
            except (DMError, pymysql.Error, OSError) as exc:
                # The waiting tasks reach their time limit; if the target is lost, their own connections are lost too.
                log.warning("cannot serve a pair of snapshots; trying again", error=str(exc))
                if meeting is not None:
                    meeting.close()
                meeting = None
            self._stop.wait(self._idle)
        if meeting is not None:
            meeting.close()

    def _serve(self, meeting: PairMeeting, asker: str) -> None:
        try:
            # Before the snapshot: replication would be beyond its position when that is known.
            reason = self._syncer.hold(None, PLACE_SECONDS)
            if reason or self._stop.is_set():
                meeting.move(asker, WANTED, REFUSED, reason=reason or "the comparison ends")
                return
            if not meeting.move(asker, WANTED, READY):
                return
            asked = meeting.await_other(asker, READY, PLACE_SECONDS, self._stop.is_set)
            if asked is None or asked.step != ASKED or asked.place is None:
                meeting.move(asker, READY, GIVEN_UP, reason="the task opened no snapshot of the upstream in time")
                return
            reason = self._syncer.hold(asked.place, PLACE_SECONDS)
            if reason:
                meeting.move(asker, ASKED, REFUSED, reason=reason)
                return
            if meeting.move(asker, ASKED, HELD):
                meeting.await_other(asker, HELD, PLACE_SECONDS, self._stop.is_set)
        finally:
            self._syncer.release()
