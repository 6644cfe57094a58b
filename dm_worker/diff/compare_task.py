"""A Spark task of a comparison: opens one pair of snapshots, and compares chunks in it until its time limit."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_worker.comparison.chunk_ways import ChunkWays
from dm_worker.comparison.compare import compare_chunk
from dm_worker.comparison.outcome import ChunkOutcome, Difference, DifferenceKind
from dm_worker.comparison.pair import TablePair, TableSide
from dm_worker.comparison.readings import UnreadableValueError
from dm_worker.diff.feeds import Feed, present_feeds
from dm_worker.diff.progress import SHOWN_KEYS, ChunkWork, ComparedChunk, DiffCounts
from dm_worker.diff.repair_notes import RepairNotes
from dm_worker.diff.repairs import Repairs, in_order
from dm_worker.diff.snapshot_pair import PairServers, SnapshotPair, open_pair
from dm_worker.diff.spans import key_text, range_of
from dm_worker.diff.unheld_pair import UnheldServers, open_unheld_pair
from dm_worker.syncer.rows.row_matching import RowMatch
from dm_worker.table_reads.chunks import shape_of
from dm_worker.table_reads.row_stream import measured_speed
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import classify, error_number
from pkg.mysql.introspect import query, show_create
from pkg.mysql.names import TableId, qualified
from pkg.process.log import get_logger

log = get_logger("diff.task")

#: The longest time that a pair's transactions may last.
MOST_SECONDS = 60.0
#: The errors of a statement that exceeded its time limit: MariaDB's, MySQL's.
_TOO_LATE = frozenset({1969, 3024})
#: After this many bytes of differences, a task leaves its other chunks to the next round.
MOST_RETURNED = 64 << 20


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A table's pair, and the digests of the structures that it was made for: the target's, then the sources'.
    ``matches``: how a row of the target is found. ``feeds``: the pair's upstream tables."""

    pair: TablePair
    shapes: tuple[str, ...]
    matches: RowMatch
    feeds: frozenset[Feed] = frozenset()


@dataclass(frozen=True, slots=True)
class CompareSpec:
    """The parameters of a round's tasks. ``seconds``: how long a pair may be used. ``whole_rows``: rows may be read
    whole instead of checksums, where that is faster. ``bytes_per_second``: 0 for no limit. ``feeding``: the sources
    among which the tables may get further upstream tables. ``notes``: None for tasks that repair nothing."""

    servers: PairServers | UnheldServers
    tables: Mapping[TableId, ComparedTable]
    seconds: float
    bytes_per_second: int
    whole_rows: bool = False
    feeding: tuple[SubTaskConfig, ...] = ()
    notes: RepairNotes | None = None


@dataclass(slots=True)
class ChunkReport:
    """The outcome of a chunk: a result or an error. Without ``work``, the task could not open its pair, for this
    error."""

    work: ChunkWork | None
    result: ComparedChunk | None = None
    differences: list[Difference] = field(default_factory=list)
    error: DMError | None = None
    #: Whether the pair's positions are certain: see :class:`SnapshotPair`.
    exact: bool = True
    #: Rows of the chunk that were repaired, also by earlier attempts.
    repaired: int = 0
    #: Whether the sessions are unusable.
    ends_pair: bool = False


def run_compare_task(spec: CompareSpec, shares: Iterator[tuple[int, Sequence[ChunkWork]]]) -> Iterator[ChunkReport]:
    """The body of a task: ``shares`` are its number and its chunks."""
    for slot, works in shares:
        rate = RateLimit(spec.bytes_per_second)
        try:
            with _opened(spec.servers, slot) as pair:
                if spec.notes is not None:
                    yield from _repair_all(spec, spec.notes, pair, works, rate)
                else:
                    yield from _compare_all(spec, pair, works, rate)
        except DMError as exc:
            yield ChunkReport(None, error=exc)
        time.sleep(rate.pause())  # without a snapshot


def _opened(servers: PairServers | UnheldServers, slot: int) -> AbstractContextManager[SnapshotPair]:
    return open_pair(servers, slot) if isinstance(servers, PairServers) else open_unheld_pair(servers)


class RateLimit:
    """Limits the bytes read per second, since it was created. 0: no limit."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._begun = time.monotonic()
        self.read = 0

    def pause(self) -> float:
        """Seconds to wait now."""
        if not self._bytes_per_second:
            return 0.0
        return max(0.0, self.read / self._bytes_per_second - (time.monotonic() - self._begun))


def _compare_all(
    spec: CompareSpec, pair: SnapshotPair, works: Sequence[ChunkWork], rate: RateLimit
) -> Iterator[ChunkReport]:
    begun = time.monotonic()
    refused: set[TableId] = set()
    ways = _TableWays(spec, pair)
    # The target's snapshot has no rows of a table that comes later.
    feeds = present_feeds(spec.feeding) if spec.feeding else None
    returned = 0
    for work in works:
        if work.target in refused:
            continue
        if time.monotonic() - begun > spec.seconds or returned > MOST_RETURNED:
            return
        table = spec.tables[work.target]
        if feeds is not None and feeds.get(work.target, frozenset()) != table.feeds:
            report = ChunkReport(work, error=fed_otherwise(work.target))
        else:
            report = _compare(table, pair, work, begun + MOST_SECONDS, ways)
        yield report
        if report.ends_pair:
            return
        if report.error is not None:
            refused.add(work.target)
        rate.read += report.result.bytes if report.result is not None else 0
        returned += sum(_size(one) for one in report.differences)
        pause = rate.pause()
        if time.monotonic() - begun + pause > spec.seconds:
            return  # a longer wait must not keep the snapshots
        time.sleep(pause)


def _repair_all(
    spec: CompareSpec, notes: RepairNotes, pair: SnapshotPair, works: Sequence[ChunkWork], rate: RateLimit
) -> list[ChunkReport]:
    """Compares chunks and repairs them, in the pair's transaction, for which replication waits: a row that the upstream
    changes after the pair's position is written by replication afterwards. The transaction contains the notes, too."""
    reports = []
    for report in _compare_all(spec, pair, works, rate):
        if report.ends_pair and report.error is not None:
            return [report]  # nothing is committed
        if report.work is not None and report.error is None:
            rows = apply_repairs(pair.target, spec.tables[report.work.target], report.differences)
            try:
                report.repaired = notes.add(pair.target, report.work, rows)
            except pymysql.Error as exc:
                raise classify(exc, scope="downstream", table=notes.table) from exc
        report.differences = []
        reports.append(report)
    try:
        pair.target.commit()
    except pymysql.Error as exc:
        raise classify(exc, scope="downstream", statement="COMMIT") from exc
    return reports


def apply_repairs(target: Connection[Any], table: ComparedTable, found: Sequence[Difference]) -> int:
    """Executes the statements; returns the number of repaired rows. A row that changed after it was read is not
    repaired."""
    repaired, repairs = 0, Repairs(table.pair, table.matches)
    with target.cursor() as cursor:
        for one in in_order(found):
            changed_rows = 0
            for statement in repairs.of(one):
                try:
                    changed_rows += cursor.execute(statement.decode("utf-8", "surrogateescape"))
                except pymysql.err.IntegrityError:
                    log.warning("a row was not repaired: another one has its key", key=key_text(one, redact=True))
                except pymysql.Error as exc:
                    raise classify(exc, scope="downstream", table=table.pair.target.qualified) from exc
            repaired += changed_rows > 0
    return repaired


class _TableWays:
    """How the chunks of a pair's tables are read."""

    def __init__(self, spec: CompareSpec, pair: SnapshotPair) -> None:
        self._spec = spec
        self._pair = pair
        self._of: defaultdict[TableId, ChunkWays] = defaultdict(ChunkWays)

    def whole(self, target: TableId, seconds: float) -> bool:
        """Whether the table's next chunk is read whole, which must not take longer than ``seconds``."""
        ways = self._of[target]
        # The rows of merged tables would wait in memory for those of the target.
        chooses = self._spec.whole_rows and len(self._spec.tables[target].pair.sources) == 1 and ways.can_choose
        return ways.whole(self._arriving if chooses else 0.0, seconds)

    def took(self, target: TableId, outcome: ChunkOutcome, seconds: float, *, whole: bool) -> None:
        self._of[target].took(outcome, seconds, whole=whole)

    @cached_property
    def _arriving(self) -> float:
        """The bytes per second that arrive from the slowest server."""
        return min(measured_speed(conn) for conn in (*self._pair.upstreams, self._pair.target))


def _compare(table: ComparedTable, pair: SnapshotPair, work: ChunkWork, end: float, ways: _TableWays) -> ChunkReport:
    """``end``: the time limit of the pair's transactions, by the monotonic clock."""
    found: list[Difference] = []
    whole = False

    def limit() -> None:
        # A chunk takes several statements: each has the time that is left.
        left = end - time.monotonic()
        if left <= 0:
            raise too_long(work.target)
        pair.limit(left)

    try:
        if work.target in pair.held:
            raise held_back(work.target)
        limit()
        with pair.short_locks():
            _check_shapes(table, pair)
            begun = time.monotonic()
            whole = ways.whole(work.target, (end - begun) / 2)
            outcome = compare_chunk(
                pair.upstreams,
                pair.target,
                table.pair,
                range_of(work.span),
                report=found.extend,
                before=limit,
                whole=whole,
            )
        ways.took(work.target, outcome, time.monotonic() - begun, whole=whole)
    except UnreadableValueError as exc:
        return ChunkReport(work, error=unreadable(work.target, exc), ends_pair=True)
    except DMError as exc:
        return ChunkReport(work, error=exc)
    except (pymysql.Error, OSError) as exc:
        error = classify(exc, scope="upstream", table=qualified(*work.target))
        if error_number(exc) in _TOO_LATE:
            # Checksums may be faster: the first chunk of the next pair is compared by them.
            error = too_long(work.target, retryable=whole)
        return ChunkReport(work, error=error, ends_pair=True)
    return ChunkReport(work, _result(outcome, found, pair.place), found, exact=pair.exact)


def _check_shapes(table: ComparedTable, pair: SnapshotPair) -> None:
    """Raises 43103 for a table whose structure changed after the pair was made."""
    sides = [
        (pair.target, table.pair.target),
        *((pair.upstreams[side.connection], side) for side in table.pair.sources),
    ]
    for (conn, side), shape in zip(sides, table.shapes, strict=True):
        # Reading first fixes the structure until the locks are released.
        query(conn, f"SELECT 1 FROM {side.qualified} LIMIT 1")
        if shape_of(show_create(conn, side.schema, side.name)) != shape:
            raise changed(side)


def too_long(target: TableId, *, retryable: bool = False) -> DMError:
    return errors.new(
        Code.DiffTableRefused,
        f"table {qualified(*target)} is not compared: a part of it (all of it where its key can't divide it) takes so "
        f"long to read that a transaction of the upstream would last longer than {MOST_SECONDS:.0f} s",
        workaround="Compare it when the upstream has less load, or give the table a primary key.",
        retryable=retryable,
    )


def unreadable(target: TableId, cause: UnreadableValueError) -> DMError:
    return errors.new(
        Code.DiffTableRefused,
        f"table {qualified(*target)} is not compared: a server could not return a value as text",
        raw=cause,
        workaround="Raise max_allowed_packet of both servers above twice the longest value, then compare again.",
    )


def changed(side: TableSide) -> DMError:
    return errors.new(
        Code.DiffTableChanged,
        f"the structure of {side.qualified} changed while it was compared",
        workaround="It is compared again with its new structure.",
        retryable=True,
    )


def fed_otherwise(target: TableId) -> DMError:
    return errors.new(
        Code.DiffTableChanged,
        f"the upstream tables that give rows to {qualified(*target)} have changed while it was compared",
        workaround="It is compared again from its start, with all of its upstream tables.",
        retryable=True,
    )


def held_back(target: TableId) -> DMError:
    return errors.new(
        Code.DiffHeldBack,
        f"rows of {qualified(*target)} are held back until a DDL of its shards is settled",
        workaround="It is compared as soon as all shards have executed the DDL: see `dmctl shard-ddl-lock`.",
        retryable=True,
    )


def counts_of(found: Sequence[Difference]) -> DiffCounts:
    """Numbers of rows: equal rows of a table without a key are one difference."""
    numbers: Counter[DifferenceKind] = Counter()
    for one in found:
        here, there = one.counts
        numbers[one.kind] += 1 if one.kind is DifferenceKind.CHANGED else max(1, abs(here - there))
    return DiffCounts(
        numbers[DifferenceKind.MISSING],
        numbers[DifferenceKind.EXTRA],
        numbers[DifferenceKind.CHANGED],
        numbers[DifferenceKind.DOUBLED],
    )


def keys_of(found: Sequence[Difference], *, redact: bool = False) -> tuple[str, ...]:
    """The first keys, for the status."""
    return tuple(key_text(one, redact=redact) for one in found[:SHOWN_KEYS])


def _result(outcome: ChunkOutcome, found: Sequence[Difference], place: str) -> ComparedChunk:
    return ComparedChunk(counts_of(found), max(outcome.rows), outcome.read, place, outcome.how, keys_of(found))


def _size(one: Difference) -> int:
    return sum(len(value) for value in (*one.key, *(one.upstream or ()), *(one.target or ())))
