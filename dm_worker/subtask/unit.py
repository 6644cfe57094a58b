"""The protocol between a subtask and its units (dump, load, sync)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb


@dataclass(slots=True)
class UnitOutcome:
    """How a unit's run ended: ``finished`` (its work is done), else canceled on request or failed with errors."""

    finished: bool = False
    canceled: bool = False
    errors: list[DMError] = field(default_factory=list)


class Control:
    """The state of one run, shared by a unit and its subtask. Thread-safe.

    A run first initialises, which changes nothing durable. A run that is stopped during that time need not be waited
    for, because it cannot :meth:`try_begin` any more. ``may_begin`` is called once, in the run's thread.

    ``safe_request``: identifies the operator's request to apply the batch that stopped again in safe mode; 0 for none.
    Each run receives it; the unit fulfils it once.
    """

    def __init__(self, may_begin: Callable[[], bool] = lambda: True, safe_request: int = 0) -> None:
        self._may_begin = may_begin
        self.safe_request = safe_request
        self._begun = False
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Asks the run to end; may be called before the run has started."""
        self._stopping.set()

    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def try_begin(self) -> bool:
        """Called by the unit before it changes anything; on False it ends unchanged. Once True, always True."""
        self._begun = self._begun or (not self.is_stopping() and self._may_begin())
        return self._begun


class Unit(Protocol):
    """One stage of a subtask. ``run`` blocks in the subtask's thread; the other methods come from other threads."""

    #: ``pb.Dump``, ``pb.Load`` or ``pb.Sync``.
    unit_type: pb.UnitType

    @property
    def received_bytes(self) -> int:
        """Bytes that the upstream sent to this unit's runs: dumped rows, or the binlog stream."""
        ...

    def is_finished(self) -> bool:
        """Whether earlier runs completed this unit, so that the chain starts at a later one."""
        ...

    def run(self, control: Control | None = None) -> UnitOutcome:
        """Works until done, stopped or failed. May be called again after a pause; continues from durable state.

        Ends without any change if ``control`` was stopped before the run began.
        """
        ...

    def stop(self, *, graceful: bool, control: Control | None = None) -> None:
        """Asks the run of ``control``, or the current one, to return: at the next safe point, or at once when not
        graceful. Other runs are not affected. Call it again until ``run`` returns: a job may start after the call.
        Repeated calls have no other effect.
        """
        ...

    def fill(self, status: pb.SubTaskStatus, received_before: int) -> None:
        """Adds its own part to the subtask's status for ``query-status``; cheap, never blocks on a server.

        ``received_before`` is the sum of ``received_bytes`` of the units before it in the chain.
        """
        ...

    def remove_meta(self) -> None:
        """Drops what the unit keeps in the target's meta schema for this subtask's source (``--remove-meta``)."""
        ...
