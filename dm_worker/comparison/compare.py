"""Compares a part of a table with the tables that merge into it, between sessions that the caller opened.

First both sides' checksums; where they differ, the keys and digests of the rows; then the rows that differ, whole. Of
more rows than fit into memory, checksums by groups of their digests tell first which groups differ. Where digests can't
be compared, all rows are read instead of the first two. Where many rows differ, all rows are read whole, once: it takes
less than to tell which ones differ, and to look for them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from typing import Any

from pymysql.connections import Connection

from dm_worker.comparison.checksums import Checksums, added, count_rows, differing
from dm_worker.comparison.found_rows import FoundRow, RowDifferences
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
    row_layout,
    rows_query,
)
from dm_worker.comparison.unpaired_reading import RowsStatement, UnpairedReader, read_unpaired
from dm_worker.comparison.unpaired_rows import ALONE, PARTLY, TARGET, UnpairedBlock, UnpairedRows, unpaired_rows
from dm_worker.comparison.whole_rows import WholeRows
from dm_worker.table_reads.column_literals import FieldValue
from dm_worker.table_reads.row_splitter import RowSplitter
from dm_worker.table_reads.row_stream import send, stream

#: Receives differences.
ReportDifferences = Callable[[Sequence[Difference]], None]
#: Called before statements are sent, when no session has a running statement.
BeforeStatements = Callable[[], None]
#: Keys per statement that looks rows up, and the share of a part's rows up to which that is cheaper than a scan: 1 in
#: so many.
_LOOKED_UP, _FEW = 200, 16
#: The most passes over a part's rows.
_MOST_SHARES = 4**6
LIMITS = ComparisonLimits()


def compare_chunk(
    sources: Sequence[Connection[Any]],
    target: Connection[Any],
    pair: TablePair,
    part: KeyRange = WHOLE,
    limits: ComparisonLimits = LIMITS,
    *,
    report: ReportDifferences,
    before: BeforeStatements = lambda: None,
    whole: bool = False,
) -> ChunkOutcome:
    """Reports each row of the part that differs. ``sources`` are the upstream's sessions by the pair's numbers.
    ``whole``: read whole rows instead of checksums, as :class:`~dm_worker.comparison.chunk_ways.ChunkWays` says.

    All sessions are free afterwards. Raises ``pymysql.Error``, after which they are not, and UnreadableValueError for
    a value that a server can't show.
    """
    return _ChunkComparison(sources, target, pair, part, limits, report, before, whole).outcome()


@dataclass(slots=True)
class _ChunkComparison:
    """One call of :func:`compare_chunk`. ``rows`` and ``read``: as in the outcome."""

    sources: Sequence[Connection[Any]]
    target: Connection[Any]
    pair: TablePair
    part: KeyRange
    limits: ComparisonLimits
    report: ReportDifferences
    before: BeforeStatements
    whole: bool
    rows: tuple[int, int] = (0, 0)
    read: int = 0
    steps: list[str] = field(default_factory=list)
    found: dict[DifferenceKind, int] = field(default_factory=dict)
    digested: bool = False

    def outcome(self) -> ChunkOutcome:
        if self.whole and self.pair.way is Way.PUSHED:
            self._by_whole_rows()
        elif self.pair.way is Way.STREAMED or not self._by_digests():
            self._by_rows()
        found = tuple(sorted(self.found.items(), key=lambda one: one[0].value))
        many = sum(self.found.values()) * _FEW >= max(1, *self.rows)
        return ChunkOutcome(self.rows, self.read, ", ".join(self.steps), found, many)

    # -- which rows may differ -------------------------------------------------------------------------------------

    def _by_digests(self) -> bool:
        """False if a server can't build some row's text, so that the row has no digest."""
        self.steps.append("checksums")
        upstream, target = self._checksums(grouped=False)
        self.rows = count_rows(upstream), count_rows(target)
        if any(bucket.undigested for bucket in (*upstream.values(), *target.values())):
            self.steps.append("a row is longer than a server's max_allowed_packet")
            return False
        if upstream != target and self._fit() and abs(self.rows[0] - self.rows[1]) * _FEW >= max(self.rows):
            self._by_whole_rows()
        elif upstream != target:
            few = None if self._fit() else self._differing_buckets()
            self.steps.append("digests" if few is None else f"digests of {len(few)} of {BUCKETS} groups")
            self.digested = True
            width = len(self.pair.key) + 1
            self._find(lambda side: digests_query(self.pair, side, self.part, few), width, lambda row: row)
        return True

    def _fit(self) -> bool:
        """Whether the part's rows fit into the limit of memory."""
        return max(self.rows) <= self.limits.most_rows

    def _differing_buckets(self) -> list[int] | None:
        """The groups whose rows differ; None if they are so many that reading all rows costs no more."""
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
            if self.digested and shares == 1 and self._fit() and len(suspects) * _FEW >= max(self.rows):
                self._by_whole_rows()
            elif suspects:
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
        # Keyed by the object: the tables of both sides may have the same names and columns.
        values: dict[int, Sequence[FieldValue]] = {}
        while waiting:
            # A session executes one statement at a time.
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
        """Reads the rows with these identities, and reports their differences."""
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
        """Reports the rows with the wanted identities; returns the identities that exceeded the limit of memory."""
        upstream: dict[Item, list[FoundRow]] = defaultdict(list)
        target: dict[Item, list[FoundRow]] = defaultdict(list)
        left: set[Item] = set()
        held = 0
        for number, side in enumerate(self._sides()):
            own = target if side is self.pair.target else upstream
            rows = WholeRows(self.pair, side, TARGET if side is self.pair.target else number)
            for found in self._wanted_rows(rows, side, condition(side), wanted):
                begun = [one for one in found if one[0] in upstream or one[0] in target or one[0] not in left]
                columns = list(zip(*(values for _, values in begun), strict=True))
                for (identity, _), row in zip(begun, rows.found(columns) if begun else (), strict=True):
                    if identity not in upstream and identity not in target and held > self.limits.most_bytes:
                        left.add(identity)
                    else:
                        own[identity].append(row)
                        held += row.size
        self._report(upstream, target)
        return left

    def _wanted_rows(
        self, rows: WholeRows, side: TableSide, condition: str, wanted: Collection[Item]
    ) -> Iterator[list[tuple[Item, Sequence[FieldValue]]]]:
        """Yields the wanted rows under a condition, with their identities, as the server sends them."""
        # Without a key the server's digest is the identity, where it was so before.
        leading = row_digest(self.pair, side) if self.digested and not self.pair.key else ""
        sql = rows_query(rows.layout, side, condition, leading)
        width = len(rows.layout.expressions) + bool(leading)
        self.before()
        for (values, _), size in stream(self._session(side), sql, RowSplitter):
            self.read += size
            whole = zip(*[iter(values)] * width, strict=True)
            if leading:
                yield [(row[:1], row[1:]) for row in whole if row[:1] in wanted]
            else:
                yield [(identity, row) for row in whole if (identity := rows.identity(row)) in wanted]

    def _report(self, upstream: Mapping[Item, Sequence[FoundRow]], target: Mapping[Item, Sequence[FoundRow]]) -> None:
        """Reports the differences between the rows of each identity."""
        between = RowDifferences(self.pair).between
        looks = (between(upstream.get(one, ()), target.get(one, ())) for one in dict.fromkeys((*upstream, *target)))
        found = [one for one in looks if one is not None]
        for one in found:
            self._count(one.kind, 1)
        if found:
            self.report(found)

    def _count(self, kind: DifferenceKind, number: int) -> None:
        self.found[kind] = self.found.get(kind, 0) + number

    # -- all rows, whole -------------------------------------------------------------------------------------------

    def _by_whole_rows(self) -> None:
        """Reads the whole rows of both sides, in as many passes as memory takes."""
        self.steps.append("whole rows")
        self.digested = False
        waiting = [(0, 1)]
        while waiting:
            share, shares = waiting.pop()
            # The rows of one key stay together, however many they are.
            most = self.limits.most_bytes if shares < _MOST_SHARES else sys.maxsize
            table = unpaired_rows(len(self.pair.columns), self.pair.key, share, shares)
            try:
                self._read_whole(table, most)
            except TooManyRowsError:
                self.steps.append(f"a pass of {4 * shares}")
                waiting += [(share + more * shares, 4 * shares) for more in range(4)]
                continue
            self._report_unpaired([UnpairedBlock(*one) for one in table.take()])

    def _read_whole(self, table: UnpairedRows, most: int) -> None:
        statements = [
            RowsStatement(self._session(side), rows_query(row_layout(self.pair, side), side, self._scan(side)), number)
            for side, number in (*zip(self.pair.sources, count()), (self.pair.target, TARGET))
        ]
        self.before()
        upstream, target = UnpairedReader(statements[:-1], table), UnpairedReader(statements[-1:], table)
        try:
            read_unpaired(upstream, target, table, most)
        finally:
            self.read += upstream.bytes + target.bytes
        self.rows = upstream.rows, target.rows

    def _report_unpaired(self, blocks: Sequence[UnpairedBlock]) -> None:
        """Reports rows that have no equal, each identity once. Where equal rows of it may have met, all are looked up:
        the numbers of rows that are reported count them too."""
        upstream: dict[Item, list[FoundRow]] = defaultdict(list)
        target: dict[Item, list[FoundRow]] = defaultdict(list)
        again: set[Item] = set()
        differences = RowDifferences(self.pair)
        for source, states, times, columns in blocks:
            rows = WholeRows(self.pair, self._sides()[source], source)
            alone, others = (
                [list(compress(column, chosen)) for column in columns]
                for chosen in ([state == ALONE for state in states], [state != ALONE for state in states])
            )
            if alone[0] and (found := differences.alone(source, rows.literals(alone))):
                self._count(found[0].kind, len(found))
                self.report(found)
            own = target if source == TARGET else upstream
            for number, values, row in zip(
                compress(range(len(states)), [state != ALONE for state in states]),
                zip(*others, strict=True),
                rows.found(others),
                strict=True,
            ):
                identity = rows.identity(values)
                own[identity] += [row] * times[number]
                if states[number] == PARTLY:
                    again.add(identity)
        for identity in again:
            upstream.pop(identity, None)
            target.pop(identity, None)
        self._report(upstream, target)
        if again:
            self._resolve(again)
