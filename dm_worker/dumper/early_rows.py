"""What a dump gives to a load that begins before the dump is complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dm_worker.dumper.folder import DumpWorkFolder
from dm_worker.table_reads.chunks import Chunk, TableStat
from pkg.settings.connections import DBConfig


@dataclass(frozen=True, slots=True)
class RunningDump:
    """One attempt at a dump: where it writes, and its plan. ``threads`` of the engine's slots are its own."""

    work: DumpWorkFolder
    token: str
    upstream: DBConfig
    stats: tuple[TableStat, ...]
    chunks: tuple[Chunk, ...]
    threads: int


class EarlyRows(Protocol):
    """Loads files that are complete while other files are written. No method raises: without early rows, the load
    does all of the work."""

    def step(self) -> str | None:
        """What an operator sees while rows are loaded; None without any."""
        ...

    def start_attempt(self, dump: RunningDump) -> None:
        """Starts for a new attempt; returns at once. What an earlier one has loaded is removed."""
        ...

    def settle(self, should_stop: Callable[[], bool]) -> None:
        """Waits until no file of the attempt is read any more. Its rows stay; the load continues after them."""
        ...

    def abandon(self) -> None:
        """Ends at once, and removes all rows of the attempt, whose dump does not become complete."""
        ...
