"""Skips the rows in a binlog when only its statements matter, without a Python object for each event. Pure.

The result is the same as of reading every event. Without the compiled code, every event is read.
"""

from __future__ import annotations

from collections.abc import Callable

from pkg import native


class RowPassing:
    """A :class:`RawScan` that skips rows events and those of transactions. ``offset``: the end of the last one."""

    def __init__(self, pass_rows: Callable[[bytes, int, bool, bool, int], tuple[int, int]]) -> None:
        self._pass_rows = pass_rows
        self.offset = 0

    def __call__(self, raw: bytes, pos: int, packets: bool, checksummed: bool, /) -> int:
        pos, self.offset = self._pass_rows(raw, pos, packets, checksummed, self.offset)
        return pos


def row_passing() -> RowPassing | None:
    """A new one; None without the compiled code."""
    module = native.load("scan")
    return None if module is None else RowPassing(module.pass_rows)
