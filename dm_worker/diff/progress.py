"""The progress of a comparison: its tables, their chunks and the results of the chunks. Pure, no I/O.

A table is first planned (cut into chunks), then each chunk is compared, in any order. Work is never repeated:
:mod:`state_table` stores results in the target, and a new run continues from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from pkg.mysql.names import TableId


class ComparedState(StrEnum):
    """The state of one target table, as the status shows it::

    pending -- planned --> comparing -- all chunks compared --> equal, different, or (equal in a part) not compared
       |                       |
       +-----------------------+--- the table can't be compared ---> not compared
    """

    PENDING = "pending"
    COMPARING = "comparing"
    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_COMPARED = "not compared"


#: No chunk of the table will be compared any more.
ENDED = frozenset({ComparedState.EQUAL, ComparedState.DIFFERENT, ComparedState.NOT_COMPARED})
#: The most keys of a table that the status shows.
SHOWN_KEYS = 10


@dataclass(frozen=True, slots=True)
class DiffCounts:
    """Rows that the target lacks, has in addition, has with other values, and (without a key) has too often."""

    missing: int = 0
    extra: int = 0
    changed: int = 0
    doubled: int = 0

    def __add__(self, other: DiffCounts) -> DiffCounts:
        return DiffCounts(
            self.missing + other.missing,
            self.extra + other.extra,
            self.changed + other.changed,
            self.doubled + other.doubled,
        )

    @property
    def total(self) -> int:
        return self.missing + self.extra + self.changed + self.doubled


@dataclass(frozen=True, slots=True)
class ComparedChunk:
    """What the comparison of a chunk found. ``place``: the position of both sides. ``keys``: the first that differ.

    ``ends``: where the differences end in the files (:mod:`difference_files`); zeros without any.
    """

    counts: DiffCounts
    rows: int
    bytes: int
    place: str
    how: str
    keys: tuple[str, ...] = ()
    ends: tuple[int, int] = (0, 0)

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> ComparedChunk:
        return ComparedChunk(
            DiffCounts(**data["counts"]),
            int(data["rows"]),
            int(data["bytes"]),
            str(data["place"]),
            str(data["how"]),
            tuple(data["keys"]),
            (int(data["ends"][0]), int(data["ends"][1])),
        )


@dataclass(frozen=True, slots=True)
class ChunkRepair:
    """The repair of a chunk's rows. ``ends``: where its differences end in the files, which must not lose them any
    more. ``is_done``: it is committed, and has changed ``rows``."""

    ends: tuple[int, int]
    rows: int = 0
    is_done: bool = False

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> ChunkRepair:
        first, second = data["ends"]
        return ChunkRepair((int(first), int(second)), int(data["rows"]), bool(data["is_done"]))


@dataclass(frozen=True, slots=True)
class ChunkWork:
    """A chunk to compare: ``span`` is its part of the table, as :mod:`dm_worker.comparison` writes and reads it."""

    target: TableId
    number: int
    span: str


@dataclass(slots=True)
class TableProgress:
    """One target table. ``sources``: names for the status. ``reason``: why it is not compared; '' where it is.
    ``unjudged``: why it is not called equal even if no row differs; '' where it is.

    ``planned``: how many chunks the table has; those that a sample leaves out are not in ``spans``. ``first``: the
    number of the first one. ``repairs``: of chunks, by their numbers. ``outline``: that of the pair for which the
    chunks were cut.
    """

    target: TableId
    sources: tuple[str, ...]
    total_rows: int = 0
    planned: int = 0
    spans: dict[int, str] | None = None
    done: dict[int, ComparedChunk] = field(default_factory=dict)
    reason: str = ""
    outline: str = ""
    unjudged: str = ""
    first: int = 0
    repairs: dict[int, ChunkRepair] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the table were compared."""
        whole = not self.reason and self.spans is not None and not self.is_sample
        return whole and len(self.done) == self.planned

    @property
    def is_sample(self) -> bool:
        return self.spans is not None and len(self.spans) < self.planned

    @property
    def results(self) -> list[ComparedChunk]:
        """The results of the chunks, in the order in which they were compared. A copy, because the status reads it in
        another thread."""
        return list(self.done.values())

    @property
    def repaired(self) -> int:
        """How many rows were repaired."""
        return sum(one.rows for one in list(self.repairs.values()))

    @property
    def counts(self) -> DiffCounts:
        return sum((chunk.counts for chunk in self.results), DiffCounts())

    @property
    def state(self) -> ComparedState:
        if self.reason:
            return ComparedState.NOT_COMPARED
        if self.spans is None:
            return ComparedState.PENDING
        if len(self.done) < len(self.spans):
            return ComparedState.COMPARING
        if self.counts.total:
            return ComparedState.DIFFERENT
        # A table that was only partly compared is not called equal.
        return ComparedState.NOT_COMPARED if self.is_sample or self.unjudged else ComparedState.EQUAL

    @property
    def shown_reason(self) -> str:
        """Why it is not compared, or not as a whole."""
        if self.reason or self.spans is None:
            return self.reason
        sample = f"only a sample was compared: {len(self.spans)} of {self.planned} chunks" if self.is_sample else ""
        return "; ".join(filter(None, (sample, self.unjudged)))

    @property
    def first_keys(self) -> list[str]:
        return [key for chunk in self.results for key in chunk.keys][:SHOWN_KEYS]

    @property
    def place(self) -> str:
        """The position of the chunk that was compared last."""
        return self.results[-1].place if self.done else ""

    @property
    def how(self) -> str:
        return self.results[-1].how if self.done else ""

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.results)

    @property
    def bytes(self) -> int:
        return sum(chunk.bytes for chunk in self.results)


class DiffProgress:
    """All tables of a comparison on one source."""

    def __init__(self, tables: Iterable[TableProgress]) -> None:
        self.tables: dict[TableId, TableProgress] = {table.target: table for table in tables}

    def next_unplanned(self) -> TableProgress | None:
        """The table to plan next, when no chunk waits; None when there is none."""
        return next((one for one in self.tables.values() if one.state is ComparedState.PENDING), None)

    def waiting(self, most: int, is_due: Callable[[ChunkWork], bool] = lambda _: True) -> list[ChunkWork]:
        """The next chunks to compare, at most ``most``, of those that are due: those of a table together, in its
        order."""
        found: list[ChunkWork] = []
        for table in self.tables.values():
            if table.state is not ComparedState.COMPARING or table.spans is None:
                continue
            for number, span in table.spans.items():
                if len(found) == most:
                    return found
                work = ChunkWork(table.target, number, span)
                if number not in table.done and is_due(work):
                    found.append(work)
        return found

    def planned(
        self, target: TableId, spans: Iterable[str], *, sample: float = 0.0, outline: str = "", unjudged: str = ""
    ) -> None:
        """The table consists of these chunks; with a ``sample`` only that share of them (percent) is compared."""
        table, chunks = self.tables[target], list(spans)
        table.outline, table.unjudged = outline, unjudged
        table.planned = len(chunks)
        table.spans = {table.first + i: span for i, span in enumerate(chunks) if is_in_sample(i, sample)}

    def planned_again(self, target: TableId) -> list[ChunkWork]:
        """Makes the table wait for a plan again, because its chunks are no longer parts of it; returns the chunks whose
        results are forgotten. The next chunks get new numbers. What was repaired stays, also what is committed later.
        """
        table = self.tables[target]
        spans = table.spans or {}
        lost = [ChunkWork(target, number, spans[number]) for number in table.done]
        table.spans, table.done, table.first = None, {}, table.first + table.planned
        return lost

    def compared(self, work: ChunkWork, result: ComparedChunk) -> bool:
        """Stores the result; False if the chunk does not wait for one, as when its table is not compared any more."""
        table = self.tables[work.target]
        if table.reason or table.spans is None or table.spans.get(work.number) != work.span:
            return False
        if work.number in table.done:
            return False
        table.done[work.number] = result
        return True

    def refused(self, target: TableId, reason: str) -> None:
        """The table, or what is left of it, is not compared: differences found so far stay in the counts."""
        if not reason:
            raise ValueError("a table that is not compared needs a reason")
        self.tables[target].reason = reason

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Where the differences of chunks that have some end in the files, and those that a repair may have changed."""
        found = [chunk.ends for table in self.tables.values() for chunk in table.results if chunk.counts.total]
        return [*found, *(one.ends for table in self.tables.values() for one in table.repairs.values())]

    def repairs_read(self, repairs: Mapping[TableId, Mapping[int, ChunkRepair]]) -> None:
        """Takes what is stored of repairs; what is known of the files stays."""
        for target, found in repairs.items():
            mine = self.tables[target].repairs
            for number, one in found.items():
                mine[number] = replace(one, ends=mine[number].ends) if number in mine else one

    def forget_differences(self) -> list[ChunkWork]:
        """Makes the chunks with differences wait again, because their keys are lost; returns them."""
        lost: list[ChunkWork] = []
        for table in self.tables.values():
            table.repairs = {number: replace(one, ends=(0, 0)) for number, one in table.repairs.items()}
            for number, chunk in list(table.done.items()):
                if chunk.counts.total and table.spans is not None:
                    del table.done[number]
                    lost.append(ChunkWork(table.target, number, table.spans[number]))
        return lost

    @property
    def is_done(self) -> bool:
        return all(table.state in ENDED for table in self.tables.values())

    def verdict(self) -> str:
        """The verdict on all tables. A table that differs outweighs one that was not compared."""
        if not self.is_done:
            return "running"
        return verdict_of(table.state for table in self.tables.values())


def verdict_of(states: Iterable[str]) -> str:
    """The verdict on tables (or sources) that have ended. Without tables it is "not compared"."""
    found = set(states)
    for state in (ComparedState.DIFFERENT, ComparedState.NOT_COMPARED):
        if state in found:
            return state.value
    return ComparedState.EQUAL.value if found == {ComparedState.EQUAL} else ComparedState.NOT_COMPARED.value


def is_in_sample(number: int, percent: float) -> bool:
    """Whether a chunk belongs to the sample: as evenly spread as the share allows, the first one always; 0: all."""
    if percent <= 0 or percent >= 100:
        return True
    return number == 0 or int(number * percent / 100) != int((number - 1) * percent / 100)
