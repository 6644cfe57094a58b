"""The protocol that every unit (dump, load, sync) keeps towards its subtask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb

if TYPE_CHECKING:
    pass


@dataclass(slots=True)
class UnitOutcome:
    """How a unit's run ended: ``finished`` (its work is done), else canceled on request or failed with errors."""

    finished: bool = False
    canceled: bool = False
    errors: list[DMError] = field(default_factory=list)


class Control:
    """What a unit and its owner say to each other about one run. Thread-safe.

    A run first initialises, which changes nothing that anybody relies on; whoever asks it to stop then need not wait
    for it, for it can't :meth:`begin` any more. ``may_begin`` is asked once, in the run's thread.
    """

    def __init__(self, may_begin: Callable[[], bool] = lambda: True) -> None:
        self._may_begin = may_begin
        self._begun = False
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Asks the run to end. Before it was started too."""
        self._stopping.set()

    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def begin(self) -> bool:
        """Asked by the unit before it changes anything; False: it shall end as it is. True again, once it has begun."""
        self._begun = self._begun or (not self.is_stopping() and self._may_begin())
        return self._begun


UnitStatus = pb.DumpStatus | pb.LoadStatus | pb.SyncStatus


class Unit(Protocol):
    """One stage of a subtask. ``run`` blocks in the subtask's thread; the other methods come from other threads."""

    #: ``pb.Dump``, ``pb.Load`` or ``pb.Sync``.
    unit_type: pb.UnitType

    def is_finished(self) -> bool:
        """Whether earlier runs already completed this unit (so that the chain starts at a later one)."""
        ...

    def run(self, control: Control | None = None) -> UnitOutcome:
        """Works until done, stopped or failed. May be called again after a pause; goes on from durable state.

        Ends without having changed anything if ``control`` was stopped before it asked to begin.
        """
        ...

    def stop(self, *, graceful: bool, control: Control | None = None) -> None:
        """Asks the run of ``control``, or the present one, to return soon: at the next safe point, or at once when not
        graceful. Does nothing to other runs. To be called until ``run`` returns: what is to be ended may begin only
        now. Doing it again has no other effect.
        """
        ...

    def status(self) -> UnitStatus:
        """A snapshot for ``query-status``; cheap, never blocks on a server, never raises."""
        ...

    def remove_meta(self) -> None:
        """Drops what the unit keeps in the target's meta schema for this subtask's source (``--remove-meta``)."""
        ...
