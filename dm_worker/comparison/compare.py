"""Compares a part of a table with the tables that merge into it, between sessions that the caller opened.

First both sides' checksums; where they differ, the keys and digests of the rows; then the rows that differ, whole. Of
more rows than fit into memory, checksums by groups of their digests tell first which groups differ. Where digests can't
be compared, all rows are read instead of the first two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pymysql.connections import Connection

from dm_worker.comparison.checksums import Checksums, added, count_rows, differing
from dm_worker.comparison.found_rows import FoundRow, differences
from dm_worker.comparison.outcome import ChunkOutcome, ComparisonLimits, Difference, DifferenceKind
from dm_worker.comparison.pair import WHOLE, KeyRange, TablePair, TableSide, Way
from dm_worker.comparison.readings import reader_of, row_digest_maker
from dm_worker.comparison.row_difference import Item, MakeItem, RowDifference, TooManyRowsError
from dm_worker.comparison.row_reader import RowReader, read_difference
from dm_worker.comparison.statements import (
    BUCKETS,
    checksum_query,
    digests_query,
    forms_query,
    lookup_condition,
    range_condition,
    row_digest,
    rows_query,
)
from dm_worker.comparison.whole_rows import WholeRows
from dm_worker.table_reads.column_literals import FieldValue
from dm_worker.table_reads.row_splitter import RowSplitter
from dm_worker.table_reads.row_stream import send, stream

ReportDifference = Callable[[Difference], None]
#: Called before statements are sent, while all sessions are free.
BeforeStatements = Callable[[], None]
#: Keys per statement that looks rows up, and the share of a part's rows up to which that is cheaper than a scan.
_LOOKED_UP, _FEW = 200, 16
#: Passes over a part's rows, at most.
_MOST_SHARES = 4**6
LIMITS = ComparisonLimits()


def compare_chunk(
    sources: Sequence[Connection[Any]],
    target: Connection[Any],
    pair: TablePair,
    part: KeyRange = WHOLE,
    limits: ComparisonLimits = LIMITS,
    *,
    report: ReportDifference,
    before: BeforeStatements = lambda: None,
) -> ChunkOutcome:
    """Reports each row of the part that differs. ``sources`` are the upstream's sessions by the pair's numbers.

    All sessions are free afterwards. Raises ``pymysql.Error``, after which they are not, and UnreadableValueError for
    a value that a server can't show.
    """
    return _ChunkComparison(sources, target, pair, part, limits, report, before).outcome()


@dataclass(slots=True)
class _ChunkComparison:
    """One call of :func:`compare_chunk`. ``rows`` and ``read`` are what the outcome tells."""

    sources: Sequence[Connection[Any]]
    target: Connection[Any]
    pair: TablePair
    part: KeyRange
    limits: ComparisonLimits
    report: ReportDifference
    before: BeforeStatements
    rows: tuple[int, int] = (0, 0)
    read: int = 0
    steps: list[str] = field(default_factory=list)
    found: dict[DifferenceKind, int] = field(default_factory=dict)
    digested: bool = False

    def outcome(self) -> ChunkOutcome:
        if self.pair.way is Way.STREAMED or not self._by_digests():
            self._by_rows()
        found = tuple(sorted(self.found.items(), key=lambda one: one[0].value))
        return ChunkOutcome(self.rows, self.read, ", ".join(self.steps), found)

    # -- which rows may differ -------------------------------------------------------------------------------------

    def _by_digests(self) -> bool:
        """False when a server can't build some row's text, so that its digest is not known."""
        self.steps.append("checksums")
        upstream, target = self._checksums(grouped=False)
        self.rows = count_rows(upstream), count_rows(target)
        if any(bucket.undigested for bucket in (*upstream.values(), *target.values())):
            self.steps.append("a row is longer than a server's max_allowed_packet")
            return False
        if upstream != target:
            few = self._differing_buckets() if max(self.rows) > self.limits.most_rows else None
            self.steps.append("digests" if few is None else f"digests of {len(few)} of {BUCKETS} groups")
            self.digested = True
            width = len(self.pair.key) + 1
            self._find(lambda side: digests_query(self.pair, side, self.part, few), width, lambda row: row)
        return True

    def _differing_buckets(self) -> list[int] | None:
        """The groups whose rows differ; None where they are so many that all rows may as well be read."""
        buckets = differing(*self._checksums(grouped=True))
        return buckets if len(buckets) * 2 < BUCKETS else None

    def _by_rows(self) -> None:
        self.steps.append("rows")
        self.digested = False
        readers = [reader_of(column.reading, guarded=column.guarded) for column in self.pair.columns]
        make = row_digest_maker(readers, self.pair.key)
        self._find(lambda side: forms_query(self.pair, side, self.part), len(readers), make)

    def _find(self, statement: Callable[[TableSide], str], width: int, make: MakeItem) -> None:
        """Finds the rows of a statement that are not on both sides equally often, in as many passes as memory takes."""
        waiting = [(0, 1)]
        while waiting:
            share, shares = waiting.pop()
            # The rows of one key stay together, however many they are.
            most = self.limits.most_rows if shares < _MOST_SHARES else sys.maxsize
            difference = RowDifference(width, make, len(self.pair.key), most, share, shares)
            try:
                self._pass(statement, width, difference)
            except TooManyRowsError:
                self.steps.append(f"a pass of {4 * shares}")
                waiting += [(share + more * shares, 4 * shares) for more in range(4)]
                continue
            suspects = difference.identities()
            if suspects:
                self._resolve(suspects)

    def _pass(self, statement: Callable[[TableSide], str], width: int, difference: RowDifference) -> None:
        self.before()
        upstream = RowReader([(self._session(side), statement(side)) for side in self.pair.sources], width)
        target = RowReader([(self.target, statement(self.pair.target))], width)
        try:
            read_difference(upstream, target, difference)
        finally:
            self.read += upstream.bytes + target.bytes
        if not self.digested:
            self.rows = upstream.rows, target.rows

    def _checksums(self, *, grouped: bool) -> tuple[Checksums, Checksums]:
        """Of both sides; the servers work at the same time."""
        waiting = [*((self._session(side), side) for side in self.pair.sources), (self.target, self.pair.target)]
        # By object: the tables of both sides may have the same names and columns.
        values: dict[int, Sequence[FieldValue]] = {}
        while waiting:
            # One statement at a time on each session.
            now = {id(conn): (conn, side) for conn, side in reversed(waiting)}
            waiting = [one for one in waiting if now[id(one[0])][1] is not one[1]]
            sqls = [
                (conn, side, checksum_query(self.pair, side, self.part, grouped=grouped)) for conn, side in now.values()
            ]
            self.before()
            for conn, _, sql in sqls:
                send(conn, sql)
            for conn, side, sql in sqls:
                values[id(side)] = self._answer(conn, sql)
        return added(values[id(side)] for side in self.pair.sources), added([values[id(self.pair.target)]])

    def _answer(self, conn: Connection[Any], sql: str) -> list[FieldValue]:
        answer: list[FieldValue] = []
        for (values, _), size in stream(conn, sql, RowSplitter, sent=True):
            answer += values
            self.read += size
        return answer

    def _session(self, side: TableSide) -> Connection[Any]:
        return self.target if side is self.pair.target else self.sources[side.connection]

    # -- how they differ -------------------------------------------------------------------------------------------

    def _resolve(self, suspects: set[Item]) -> None:
        """Reads the rows with these identities, and reports how they differ."""
        lookups = all(lookup is not None for side in self._sides() for lookup in side.lookups)
        found = lookups and self.pair.key and not any(None in one for one in suspects)
        if found and len(suspects) * _FEW < max(self.rows):
            self.steps.append(f"{len(suspects)} rows by key")
            waiting = sorted(suspects)  # type: ignore[type-var]
            size = _LOOKED_UP
            while waiting:
                wanted = set(waiting[:size])
                left = self._report_rows(wanted, self._lookup(wanted))
                waiting = [*left, *waiting[size:]]
                size = max(1, size // 4) if left else size
            return
        self.steps.append(f"{len(suspects)} rows by scan")
        while suspects:
            suspects = self._report_rows(suspects, self._scan)

    def _sides(self) -> Sequence[TableSide]:
        return (*self.pair.sources, self.pair.target)

    def _lookup(self, wanted: Iterable[Item]) -> Callable[[TableSide], str]:
        keys: Any = sorted(wanted)  # type: ignore[type-var]
        return lambda side: lookup_condition([one for one in side.lookups if one is not None], keys)

    def _scan(self, side: TableSide) -> str:
        return range_condition(self.pair, side, self.part)

    def _report_rows(self, wanted: set[Item], condition: Callable[[TableSide], str]) -> set[Item]:
        """Reports the rows with the wanted identities; returns those for which there was no memory."""
        upstream: dict[Item, list[FoundRow]] = {}
        target: dict[Item, list[FoundRow]] = {}
        left: set[Item] = set()
        held = 0
        for number, side in enumerate(self._sides()):
            own = target if side is self.pair.target else upstream
            source = -1 if side is self.pair.target else number
            for identity, make in self._whole_rows(side, source, condition(side), wanted):
                begun = identity in upstream or identity in target
                if not begun and (held > self.limits.most_bytes or identity in left):
                    left.add(identity)
                    continue
                row = make()
                own.setdefault(identity, []).append(row)
                held += row.size
        for identity in upstream.keys() | target.keys():
            for difference in differences(self.pair, upstream.get(identity, ()), target.get(identity, ())):
                self.found[difference.kind] = self.found.get(difference.kind, 0) + 1
                self.report(difference)
        return left

    def _whole_rows(
        self, side: TableSide, source: int, condition: str, wanted: Collection[Item]
    ) -> Iterator[tuple[Item, Callable[[], FoundRow]]]:
        """Identity of the wanted rows under a condition, and each row as it is made on demand."""
        rows = WholeRows(self.pair, side, source)
        # Without a key the server's digest is the identity, where it was so before.
        leading = row_digest(self.pair, side) if self.digested and not self.pair.key else ""
        sql = rows_query(rows.layout, side, condition, leading)
        width = len(rows.layout.expressions) + bool(leading)
        self.before()
        for (values, _), size in stream(self._session(side), sql, RowSplitter):
            self.read += size
            for whole in zip(*[iter(values)] * width, strict=True):
                row = whole[bool(leading) :]
                identity = whole[:1] if leading else rows.identity(row)
                if identity in wanted:
                    yield identity, partial(rows.found, row)
