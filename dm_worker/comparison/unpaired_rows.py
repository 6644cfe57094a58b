"""Which rows two sides do not have in common, as multisets, compiled or in Python. Pure.

Rows may come in any order: memory is taken by those that have not met their equal yet, and by a number for each
identity. The values at the start of a row decide whether two rows are equal; more may follow them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from dm_worker.table_reads.column_literals import FieldValue
from dm_worker.table_reads.row_splitter import RowSplitter
from dm_worker.table_reads.row_stream import Consumer
from pkg.native import load

_NATIVE = load("compare")
#: The source of the target's rows.
TARGET = -1
#: What of its identity is unpaired beside a row: perhaps not all of its rows, all of them, or there is no other row of
#: it on any side, and this one is there once.
PARTLY, WHOLE, ALONE = 0, 1, 2
#: About what a row takes beside its bytes.
_ROW_BYTES = 200


class UnpairedBlock(NamedTuple):
    """The rows of a source (:data:`TARGET`, or an upstream table's number), in the order in which they came.

    Of each row ``states`` has a state, ``times`` how much more often it is on this side, and ``columns`` its values.
    """

    source: int
    states: bytes
    times: list[int]
    columns: tuple[list[FieldValue], ...]


class UnpairedRows(Protocol):
    """The rows of all result sets that have not met their equal."""

    @property
    def held(self) -> int:
        """Bytes of memory."""
        ...

    def rows_of(self, source: int, width: int, /) -> Consumer[int]:
        """Takes the packets of a result set whose rows have ``width`` values; counts the rows."""
        ...

    def discard(self) -> None:
        """Frees all rows, and keeps none of those that follow."""
        ...

    def take(self) -> list[tuple[int, bytes, list[int], tuple[list[FieldValue], ...]]]:
        """All rows, as :class:`UnpairedBlock` has them, the target's first; none is kept."""
        ...


def unpaired_rows(forms: int, keys: Sequence[int], share: int = 0, shares: int = 1) -> UnpairedRows:
    """The first ``forms`` values of rows are compared; ``keys`` are the numbers of those that identify a row, empty for
    all. Of several passes over the same rows, each takes only the identities of its own share."""
    if _NATIVE is None:
        return PythonUnpairedRows(forms, keys, share, shares)
    native: UnpairedRows = _NATIVE.UnpairedRows(forms, tuple(keys), share, shares)
    return native


class _Unmatched:
    __slots__ = ("source", "times", "values")

    def __init__(self, source: int, values: tuple[FieldValue, ...]) -> None:
        self.source = source
        self.times = 1
        self.values = values

    @property
    def size(self) -> int:
        return _ROW_BYTES + sum(len(value) for value in self.values if value is not None)


class PythonUnpairedRows:
    """The same in Python."""

    def __init__(self, forms: int, keys: Sequence[int], share: int = 0, shares: int = 1) -> None:
        self.held = 0
        self._forms = forms
        self._keys = tuple(keys) or tuple(range(forms))
        self._share = share
        self._shares = shares
        self._waiting: dict[tuple[FieldValue, ...], _Unmatched] = {}
        self._seen: Counter[tuple[FieldValue, ...]] = Counter()
        self._discarding = False

    def rows_of(self, source: int, width: int) -> PythonResultRows:
        return PythonResultRows(self, source, width)

    def discard(self) -> None:
        self._discarding = True
        self._forget()

    def _forget(self) -> None:
        self._waiting, self._seen, self.held = {}, Counter(), 0

    def add(self, source: int, values: tuple[FieldValue, ...]) -> None:
        compared = values[: self._forms]
        identity = self._identity(compared)
        if self._discarding or (self._shares > 1 and hash(identity) % self._shares != self._share):
            return
        self._seen[identity] += 1
        one = self._waiting.get(compared)
        if one is None:
            one = self._waiting[compared] = _Unmatched(source, values)
            self.held += one.size
        elif (one.source == TARGET) == (source == TARGET):
            one.times += 1
        elif one.times > 1:
            one.times -= 1
        else:
            self.held -= one.size
            del self._waiting[compared]

    def take(self) -> list[tuple[int, bytes, list[int], tuple[list[FieldValue], ...]]]:
        waiting = [(self._identity(compared), one) for compared, one in self._waiting.items()]
        here: Counter[tuple[FieldValue, ...]] = Counter()
        for identity, one in waiting:
            here[identity] += one.times

        def state(identity: tuple[FieldValue, ...]) -> int:
            rows = self._seen[identity]
            return ALONE if rows == 1 else WHOLE if rows == here[identity] else PARTLY

        found = []
        for source in sorted({one.source for _, one in waiting}):
            rows = [(state(identity), one) for identity, one in waiting if one.source == source]
            columns = tuple(map(list, zip(*(one.values for _, one in rows), strict=True)))
            found.append((source, bytes(state for state, _ in rows), [one.times for _, one in rows], columns))
        self._forget()
        return found

    def _identity(self, compared: tuple[FieldValue, ...]) -> tuple[FieldValue, ...]:
        return tuple(compared[number] for number in self._keys)


class PythonResultRows:
    """The rows of one result set; see :class:`~dm_worker.table_reads.row_stream.Consumer`."""

    def __init__(self, table: PythonUnpairedRows, source: int, width: int) -> None:
        self._table = table
        self._source = source
        self._width = width
        self._splitter = RowSplitter(width)

    @property
    def done(self) -> bool:
        return self._splitter.done

    @property
    def error(self) -> bytes | None:
        return self._splitter.error

    def feed(self, data: bytes | memoryview) -> int:
        values, rows = self._splitter.feed(data)
        for row in zip(*[iter(values)] * self._width, strict=True):
            self._table.add(self._source, row)
        return rows
