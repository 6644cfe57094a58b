"""Holds a run at a location: all before it is applied and durable, and nothing after it is applied until the release.

Callers ask from any thread; the main loop answers. A hold ends with its time limit, its release, or the run. Whether
the target is still there when somebody reads it, only the target shows (:mod:`target_location` of ``checkpoint``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pkg.binlog.position import Location
from pkg.process.log import get_logger

log = get_logger("syncer.hold")

#: The longest time limit (seconds).
LONGEST_HOLD = 300.0
#: Seconds between two checks whether the run is to stop.
_POLL = 0.05
NOT_REPLICATING = "the subtask does not replicate"
OPERATORS = "replication is held already, and not for a comparison"
REPLACED = "the hold was released, or another one has replaced it"


@dataclass(frozen=True, slots=True)
class HoldState:
    """The answer to a request. ``location``: the checkpoint, None while unknown; of a hold, exactly where the target's
    rows are. ``reason``: why there is no hold; '' for a hold."""

    location: Location | None
    reason: str = ""

    @property
    def is_held(self) -> bool:
        return not self.reason


@dataclass(eq=False, slots=True)
class HoldRequest:
    """A hold that is asked for. ``location``: None for where the run is. ``deadline`` (of ``time.monotonic``): until
    when it must hold, and once it does, until when it holds. ``answer``: None until the run has one."""

    number: int
    location: Location | None
    limit: float
    deadline: float
    yields: bool = False
    answer: HoldState | None = None


class Hold:
    """The hold of one subtask: one at a time, a new request replaces the one before. One that ``yields`` replaces, and
    its release ends, only others that do."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wake: Callable[[], None] = lambda: None
        self._number = 0
        self._request: HoldRequest | None = None
        self._is_running = False
        #: The run's checkpoint when it last answered.
        self._checkpoint: Location | None = None

    # -- callers ------------------------------------------------------------------------------------------------

    def at(self, location: Location | None, limit: float, *, yields: bool = False) -> HoldState:
        """Waits for ``limit`` seconds at most until the run holds, which then lasts for ``limit`` seconds at most.

        ``location`` must be the end of a transaction; None holds at the end of what is being applied.
        """
        with self._changed:
            if not self._is_running:
                return HoldState(self._checkpoint, NOT_REPLICATING)
            if yields and self._is_firm:
                return HoldState(self._checkpoint, OPERATORS)
            self._number += 1
            mine = HoldRequest(self._number, location, limit, time.monotonic() + limit, yields)
            self._request = mine
            self._changed.notify_all()
            self._wake()
            self._changed.wait_for(lambda: mine.answer is not None or self._request is not mine, limit)
            if mine.answer is not None:
                return mine.answer
            if self._request is mine:
                self._request = None
                return HoldState(self._checkpoint, f"the location was not reached within {limit:g} s")
            return HoldState(self._checkpoint, REPLACED if self._is_running else NOT_REPLICATING)

    def release(self, *, yields: bool = False) -> None:
        """Ends the hold, or withdraws the request; without one, it does nothing."""
        with self._changed:
            if yields and self._is_firm:
                return
            self._request = None
            self._changed.notify_all()

    @property
    def _is_firm(self) -> bool:
        """Whether there is a hold, or a request, that does not yield."""
        return self._request is not None and not self._request.yields

    @property
    def shown(self) -> str:
        """The hold for the status; '' for none."""
        with self._changed:
            request = self._request
            if request is None:
                return ""
            if request.answer is None:
                return f"will be held at {request.location or 'the end of the running batch'}"
            left = max(0.0, request.deadline - time.monotonic())
            return f"held at {request.answer.location} for at most {left:.0f} s more"

    # -- the run ------------------------------------------------------------------------------------------------

    def run_started(self, checkpoint: Location, wake: Callable[[], None] = lambda: None) -> None:
        """The run replicates from here on. ``wake`` is called, from any thread, for a request and for the end."""
        with self._changed:
            self._is_running, self._checkpoint, self._wake = True, checkpoint, wake

    def run_ended(self) -> None:
        """The run ends, or is to end: so does the hold."""
        with self._changed:
            self._is_running, self._request = False, None
            self._changed.notify_all()
            self._wake()

    def wanted(self) -> HoldRequest | None:
        """The request that waits for an answer; None for none."""
        with self._changed:
            request = self._request
            return request if request is not None and request.answer is None else None

    def refuse(self, request: HoldRequest, reason: str, checkpoint: Location) -> None:
        """There will be no hold, because of ``reason``."""
        with self._changed:
            self._checkpoint = checkpoint
            request.answer = HoldState(checkpoint, reason)
            if self._request is request:
                self._request = None
            self._changed.notify_all()

    def keep(self, request: HoldRequest, location: Location, should_stop: Callable[[], bool]) -> None:
        """Holds at ``location``: blocks until the hold ends."""
        began = time.monotonic()
        with self._changed:
            self._checkpoint = location
            if self._request is not request:
                return
            request.answer, request.deadline = HoldState(location), began + request.limit
            self._changed.notify_all()
            while self._request is request and not should_stop():
                left = request.deadline - time.monotonic()
                if left <= 0:
                    self._request = None
                else:
                    self._changed.wait(min(left, _POLL))
        log.info("held", location=str(location), seconds=f"{time.monotonic() - began:.3f}")
