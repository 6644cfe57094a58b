"""The rate of a sweep and the duration of its rounds. Pure, no I/O.

Between two jobs the sweep rests, outside of any transaction and without a slot of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm_worker.diff.progress import ENDED, DiffProgress
from dm_worker.subtask.rate import percent
from pkg.mysql.names import qualified

#: Reading this many bytes counts as one row.
ROW_BYTES = 512
#: The rest after a job is at least this many times as long as the job.
LEAST_REST = 4.0
#: The most unswept tables that the status names.
_NAMED = 3


def rest_after(rows: int, read: int, seconds: float, rate: int) -> float:
    """Seconds to rest after a job of ``seconds`` that compared ``rows`` and read ``read`` bytes, to keep ``rate`` rows
    per second; 0 without a rate."""
    if rate <= 0:
        return 0.0
    return max(max(rows, read / ROW_BYTES) / rate - seconds, LEAST_REST * seconds)


@dataclass(frozen=True, slots=True)
class SweepState:
    """The progress of a sweep. ``elapsed``: seconds since its round began; None between two rounds. ``whole``: seconds
    that the last whole round took, 0 before its end. ``waits_for``: '' while it compares or rests."""

    progress: DiffProgress
    elapsed: float | None
    whole: float
    waits_for: str = ""

    def text(self) -> str:
        """For operators."""
        last = f"last whole round: {self.whole:.0f}s" if self.whole else "last whole round: none yet"
        return "; ".join(filter(None, (last, self._present(), self.left_out(), self._wait())))

    def _present(self) -> str:
        if self.elapsed is None:
            return "the next round begins within a minute"
        tables = self.progress.tables.values()
        rows = sum(table.rows for table in tables)
        total = max(rows, sum(table.total_rows for table in tables if not table.reason))
        whole = f"{self.elapsed * total / rows:.0f}s" if rows else "unknown"
        return f"present round: {rows} of about {total} rows ({percent(rows, total)}), estimated {whole} in all"

    def left_out(self, what: str = "not swept as a whole") -> str:
        """The tables that are not compared, or not as a whole."""
        found = [one for one in list(self.progress.tables.values()) if one.state in ENDED and one.shown_reason]
        named = [f"{qualified(*one.target)}: {one.shown_reason}" for one in found[:_NAMED]]
        return f"tables {what}: {len(found)} ({'; '.join(named)})" if found else ""

    def _wait(self) -> str:
        return f"waits: {self.waits_for}" if self.waits_for else ""
