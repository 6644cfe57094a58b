"""Finds the rows that two streams do not have in common, as multisets. Pure.

Rows may come in any order: memory holds the rows whose equal has not arrived yet. Streams in the same order advance
together, so that whole windows are compared at once, not row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm_worker.table_reads.column_literals import FieldValue

#: The values of whole rows, concatenated.
RowValues = Sequence[FieldValue]
#: The part of a row that must be equal: first the values of its key, then the rest in any form.
Item = tuple[FieldValue, ...]
MakeItem = Callable[[tuple[FieldValue, ...]], Item]


class TooManyRowsError(Exception):
    """The rows that wait for their equal exceed the limit of memory."""


class RowDifference:
    """The rows of two sides that are not on the other, each as often as it is there more often.

    ``upstream`` and ``target``: item → how often. ``keys`` is the number of an item's values that identify the row, 0
    for all. Of several passes over the same rows, each takes only the identities of its own share.
    """

    def __init__(self, width: int, make_item: MakeItem, keys: int, most: int, share: int = 0, shares: int = 1) -> None:
        self.upstream: dict[Item, int] = {}
        self.target: dict[Item, int] = {}
        self._keys = keys or None
        self._width = width
        self._make_item = make_item
        self._most = most
        self._share = share
        self._shares = shares

    def identities(self) -> set[Item]:
        """The rows that the other side does not have."""
        return {item[: self._keys] for one in (self.upstream, self.target) for item in one}

    def add(self, upstream: RowValues, target: RowValues) -> tuple[int, int]:
        """Adds a window of each side; returns how many rows of each wait for their equal. Raises TooManyRowsError."""
        if upstream == target:
            return len(self.upstream), len(self.target)
        self._take(upstream, self.upstream, self.target)
        self._take(target, self.target, self.upstream)
        if len(self.upstream) + len(self.target) > self._most:
            raise TooManyRowsError
        return len(self.upstream), len(self.target)

    def _take(self, values: RowValues, own: dict[Item, int], other: dict[Item, int]) -> None:
        make, keys, shares = self._make_item, self._keys, self._shares
        for row in zip(*[iter(values)] * self._width, strict=True):
            item = make(row)
            if shares > 1 and hash(item[:keys]) % shares != self._share:
                continue
            waiting = other.get(item)
            if waiting is None:
                own[item] = own.get(item, 0) + 1
            elif waiting == 1:
                del other[item]
            else:
                other[item] = waiting - 1
