"""Whether the next part of a table is compared by checksums or by reading its rows whole: the way that took less time
per row. Pure.

On a fast network, whole rows take less of both servers than digests; on a slow one, checksums are the only way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dm_worker.comparison.outcome import ChunkOutcome

#: Of so many equal parts, one is compared in the slower way, because times change.
_MEASURED = 32
#: The most bytes of rows per second of which a server makes digests.
_DIGESTED = 2 << 30


@dataclass(slots=True)
class ChunkWays:
    """The parts of one table, each compared by ``compare_chunk`` with ``whole`` as :meth:`whole` says, and noted by
    :meth:`took`."""

    _dense: bool = False
    _equal: int = 0
    #: Seconds per row of the last equal part, and seconds of a part: by whether it was read whole.
    _per_row: dict[bool, float] = field(default_factory=dict)
    _seconds: float = 0.0

    @property
    def can_choose(self) -> bool:
        """Whether checksums of a part were measured."""
        return False in self._per_row

    def whole(self, bytes_per_second: float, seconds: float) -> bool:
        """Whether the next part is read whole. ``bytes_per_second``: the speed at which rows arrive, 0 to read only a
        part of which many rows may differ; ``seconds``: the most that reading may take."""
        if self._dense:
            return True
        if not self.can_choose or self._seconds * _DIGESTED > seconds * bytes_per_second:
            return False
        if True not in self._per_row:
            return True
        return (self._per_row[True] < self._per_row[False]) != (self._equal % _MEASURED == 0)

    def took(self, outcome: ChunkOutcome, seconds: float, *, whole: bool) -> None:
        """Notes how long a part took."""
        self._dense = outcome.dense
        rows = max(outcome.rows)
        if outcome.equal and rows:
            self._equal += 1
            self._per_row[whole] = seconds / rows
            if not whole:
                self._seconds = seconds
