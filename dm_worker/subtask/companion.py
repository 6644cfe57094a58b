"""The protocol between a subtask and its companions: work beside a unit, such as a comparison of the rows it writes.

A companion runs while the unit that it accompanies may change something. It starts when that unit begins, stops at
every pause, failure or stop of the subtask, and starts again with the unit's next run. It has its own threads, its own
stage (Running, Paused, Stopped) and its own errors. A pause does not wait for it; only the end of the subtask does. Its
errors do not stop the subtask, unless it calls ``fail``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pkg.errors import DMError
from pkg.pb import dmworker_pb2 as pb

#: Stops the unit and pauses the subtask with these errors. No effect after the companion was stopped.
FailSubTask = Callable[[Sequence[DMError]], None]


class Companion(Protocol):
    """``start``, ``stop`` and ``fill`` return at once. An exception of any method is logged, the subtask continues."""

    #: The type of the unit that it accompanies.
    unit_type: pb.UnitType

    def start(self, fail: FailSubTask) -> None:
        """Starts, or continues after a stop; the work before that stop may not have ended yet.

        It may call ``fail`` from its own threads, if the subtask must not continue after its errors.
        """
        ...

    def stop(self) -> None:
        """Asks the companion to end soon."""
        ...

    def join(self) -> None:
        """Waits until a stopped companion has ended."""
        ...

    def fill(self, status: pb.SubTaskStatus) -> None:
        """Adds its own part to the subtask's status, in every stage of the subtask."""
        ...
