"""The protocol between a run and who follows what it applies, such as the continuous validation.

All methods are called by the run's main thread, which waits for them: they must be short. Between ``applied`` and the
next ``applying`` no batch is being applied: the validation opens its snapshot of the target then, in its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from dm_worker.syncer.execution.target_connections import TargetSpec
from dm_worker.syncer.figures.batch_report import Changes
from dm_worker.syncer.planning.batch import Batch
from pkg.binlog.position import Location
from pkg.mysql.names import TableId

#: The quoted names of the target's tables that other sources may change at any time, by DDL of merged shards. May be
#: called from any thread.
Unsettled = Callable[[], Collection[str]]


class BatchObserver(Protocol):
    """Batches and statements have ascending numbers, from one sequence, also across runs."""

    def began(self, target: TargetSpec, location: Location, unsettled: Unsettled) -> None:
        """A run has taken over at ``location``: what an earlier one left undone is applied again."""
        ...

    def applying(self) -> None:
        """A batch begins. ``applied`` follows, or ``interrupted`` or ``began`` if it was not completed."""
        ...

    def applied(self, batch: Batch, number: int, changes: Mapping[int, Changes], location: Location) -> None:
        """A batch is complete at the target; ``changes`` are its row changes by plan. All up to ``location`` is
        applied, except for held rows."""
        ...

    def passed(self, location: Location) -> None:
        """Events without rows of the task were passed."""
        ...

    def restructured(self, number: int | None, tables: Collection[TableId]) -> None:
        """A statement changed these tables of the target, as in :class:`StatementEffect`; ``number`` is None for one
        that another source may have executed at any time since this source met it; it is
        reported before :data:`Unsettled` leaves its tables out."""
        ...

    def interrupted(self) -> None:
        """Some of what follows the applied location is at the target, and is applied again under other numbers."""
        ...


class NoObserver:
    """Nobody follows."""

    def began(self, target: TargetSpec, location: Location, unsettled: Unsettled) -> None:
        pass

    def applying(self) -> None:
        pass

    def applied(self, batch: Batch, number: int, changes: Mapping[int, Changes], location: Location) -> None:
        pass

    def passed(self, location: Location) -> None:
        pass

    def restructured(self, number: int | None, tables: Collection[TableId]) -> None:
        pass

    def interrupted(self) -> None:
        pass


NOBODY = NoObserver()
