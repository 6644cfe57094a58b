"""Skips the task's own transactions in the target's binlog, without a Python object for each event. Pure.

The result is the same as of taking every event. Without the compiled code, every event is taken.
"""

from __future__ import annotations

from types import ModuleType

from dm_worker.foreign_writes.write_sorter import WriteSorter
from pkg import native
from pkg.binlog.position import Position


class OwnPassing:
    """A :class:`RawScan` for a sorter. ``offset``: the end of the last event that was skipped."""

    def __init__(self, scan: ModuleType, sorter: WriteSorter) -> None:
        self._scan = scan
        self._sorter = sorter
        self.offset = 0

    def __call__(self, raw: bytes, pos: int, packets: bool, checksummed: bool, /) -> int:
        sorter = self._sorter
        if sorter.is_collecting:
            return pos
        boundary = sorter.boundary
        after, self.offset, end, sorter.own, sorter.inside = self._scan.pass_known(
            raw, pos, packets, checksummed, self.offset, boundary.pos, sorter.own, sorter.inside,
            sorter.known.own_names, sorter.known.other_names,
        )  # fmt: skip
        sorter.boundary = Position(boundary.name, end)
        return int(after)


def own_passing(sorter: WriteSorter) -> OwnPassing | None:
    """A new one; None without the compiled code."""
    module = native.load("scan")
    return None if module is None else OwnPassing(module, sorter)
