"""Changes that were applied before the validation began, from a position of the binlog on. Pure.

A round of the sweep that begins afterwards looks at each row, also at those that these changes touched, and at one
position of both sides: so it compares what is left of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class EarlierChanges:
    """``since``: the position, and which start it is of. ``run``: the last round that began afterwards."""

    since: str
    run: str = ""

    @property
    def waiting(self) -> str:
        """What the status says until the round has ended."""
        return f"changes from {self.since} on that were applied before: the sweep compares them, by a whole round"

    def ended(self, left_out: str) -> str:
        """What it says afterwards. ``left_out``: the tables that the round could not compare, '' for none."""
        return f"{self._done}, but for {left_out}" if left_out else self._done

    def is_done(self, notes: Iterable[str]) -> bool:
        """Whether an earlier process has said so."""
        return any(note.startswith(self._done) for note in notes)

    @property
    def _done(self) -> str:
        return f"all changes from {self.since} on are compared"
