"""Determines the tables that a source's worker compares and their counterparts, from the servers and the task's rules.

A target table that gets rows from several sources is compared by the first of them (in the order of their ids), with a
snapshot of each.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pymysql
from pymysql.connections import Connection

from dm_worker.comparison.merged_tables import SourceName, merged_tables
from dm_worker.comparison.pair import KeyRange, NotCompared, TablePair, TableSide
from dm_worker.comparison.ranges import plan_ranges
from dm_worker.comparison.reading import SourceSession, compared_server, read_pair
from dm_worker.diff.compare_task import ComparedTable
from dm_worker.diff.feeds import Feed, feeds_of_tasks, may_merge, shared_tables, shown_feed
from dm_worker.diff.hidden_tables import unseen
from dm_worker.diff.progress import TableProgress
from dm_worker.diff.repairs import matches_of
from dm_worker.diff.spans import span_of
from dm_worker.diff.state_table import DiffSettings
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.table_reads.chunks import TableStat, list_tables, shape_of
from dm_worker.table_reads.session import open_session
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql import driver
from pkg.mysql.connection import Scope, classify
from pkg.mysql.grants import fetch_grants
from pkg.mysql.introspect import fetch_table_info, list_schemas, query, show_create
from pkg.mysql.names import SYSTEM_SCHEMAS, TableId, qualified
from pkg.mysql.target_values import fetch_target_values
from pkg.rules.block_allow_list import BlockAllowListFilter

#: Rows of a chunk, and bytes: some seconds of work, so that a pair of snapshots is left in time; and all rows of it
#: may differ, which must fit into memory.
CHUNK_ROWS, CHUNK_BYTES = 200_000, 64 << 20
#: Stands for the tables that the upstream's user does not see. No table has this name.
UNSEEN: TableId = ("*", "*")


@dataclass(frozen=True, slots=True)
class FedTable:
    """An upstream table that gives rows to a target table. ``rows`` and ``data_bytes``: the server's estimates."""

    source_id: str
    schema: str
    table: str
    rows: int
    data_bytes: int

    def feed(self) -> Feed:
        return self.source_id, self.schema, self.table

    def __str__(self) -> str:
        return shown_feed(self.feed())


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """``spans``: the chunks of a table. ``outline``, ``unjudged``: those of the pair for which they were cut."""

    outline: str
    spans: Sequence[str]
    unjudged: str = ""


class TableParts(Protocol):
    """Limits a comparison to some tables, and to parts of them."""

    def has(self, target: TableId) -> bool: ...

    def of(self, pair: TablePair) -> Sequence[KeyRange] | None:
        """The parts of a table that it has; None for all of it."""
        ...


class TableFinder:
    """Opens sessions for each question and closes them. Raises DMError: retryable where a later attempt may succeed.

    ``siblings``: the task's subtasks on other sources; ``neighbours``: those of other tasks. ``parts``: what is
    compared; None for everything.
    """

    def __init__(
        self,
        cfg: SubTaskConfig,
        settings: DiffSettings,
        siblings: Callable[[], Sequence[SubTaskConfig]],
        neighbours: Callable[[], Sequence[SubTaskConfig]],
        parts: TableParts | None = None,
    ) -> None:
        self._own = cfg
        self._parts = parts
        self._settings = settings
        self._siblings = siblings
        self._neighbours = neighbours
        #: Tables with rows of other tasks, and why they are not compared.
        self._shared: Mapping[TableId, str] = {}
        self._configs: dict[str, SubTaskConfig] = {cfg.source_id: cfg}
        self._fed: Mapping[TableId, tuple[FedTable, ...]] = {}
        self._unseen = ""

    def refresh(self) -> None:
        """Reads the present upstream tables."""
        self._configs = {cfg.source_id: cfg for cfg in (self._own, *self._siblings())}
        configs = [self._configs[source] for source in sorted(self._configs)]
        listings = [_list(cfg) for cfg in configs]
        self._unseen = next(one.unseen for cfg, one in zip(configs, listings, strict=True) if cfg is self._own)
        stats = [one.tables for one in listings]
        names = [[(stat.schema, stat.table) for stat in found] for found in stats]
        merged = merged_tables([TaskRules(cfg) for cfg in configs], names)
        sizes = [{(stat.schema, stat.table): (stat.rows, stat.data_bytes) for stat in found} for found in stats]
        self._fed = {
            target: tuple(
                FedTable(configs[one.connection].source_id, one.schema, one.table,
                         *sizes[one.connection][one.schema, one.table])
                for one in sources
            )
            for target, sources in merged.items()
        }  # fmt: skip
        self._shared = shared_tables(
            {target: frozenset(map(FedTable.feed, fed)) for target, fed in self._fed.items()},
            feeds_of_tasks(self._own.to, {schema for schema, _ in self._fed}, self._neighbours()),
        )

    def find(self) -> list[TableProgress]:
        """The tables that this source compares, in their order; those that can't be compared have a reason."""
        found = led_tables(self._fed, self._own.source_id, self._settings)
        if self._parts is not None:
            return [one for one in found if not one.reason and self._parts.has(one.target)]
        return [*found, _not_seen(self._own, self._unseen)] if self._unseen else found

    def sources_of(self, target: TableId) -> tuple[str, ...]:
        """The sources whose rows are in the table, in order; empty if no upstream table exists."""
        return tuple(sorted({one.source_id for one in self._fed.get(target, ())}))

    def feeding(self) -> tuple[SubTaskConfig, ...]:
        """The task's present sources, if its tables may get further upstream tables."""
        configs = (self._own, *self._siblings())
        return configs if may_merge(configs) else ()

    def config(self, source: str) -> SubTaskConfig:
        return self._configs[source]

    def compared(self, targets: Sequence[TableId]) -> dict[TableId, ComparedTable | DMError]:
        """The pairs of tables of one set of sources, or why there is none; raises what concerns all of them."""
        sources = self.sources_of(targets[0])
        with self._sessions(sources) as (upstreams, target):
            return {name: self._compared(name, sources, upstreams, target) for name in targets}

    def _compared(
        self, name: TableId, sources: Sequence[str], upstreams: Sequence[Connection[Any]], target: Connection[Any]
    ) -> ComparedTable | DMError:
        try:
            pair = self._pair(name, sources, upstreams, target)
            sides = [(target, pair.target), *((upstreams[side.connection], side) for side in pair.sources)]
            for conn, side in sides:
                _ensure_readable(conn, side, "downstream" if side is pair.target else "upstream")
            shapes = (shape_of(show_create(conn, side.schema, side.name)) for conn, side in sides)
            info = fetch_table_info(target, *name)
            if info is None:
                raise not_compared(name, "it was dropped at the target")
            feeds = frozenset(map(FedTable.feed, self._fed[name]))
            return ComparedTable(pair, tuple(shapes), matches_of(pair, info, fetch_target_values(target)), feeds)
        except (DMError, pymysql.Error) as exc:
            error = classify(exc, scope="downstream", table=qualified(*name))
            if error.kind is Code.DBBadConn:
                raise error from exc
            return error

    def _pair(
        self, name: TableId, sources: Sequence[str], upstreams: Sequence[Connection[Any]], target: Connection[Any]
    ) -> TablePair:
        if not sources:
            raise not_compared(name, "no upstream table is left for it")
        if name in self._shared:
            raise not_compared(name, self._shared[name])
        sessions = [
            SourceSession(conn, compared_server(conn), TaskRules(self._configs[source]))
            for source, conn in zip(sources, upstreams, strict=True)
        ]
        names = [SourceName(sources.index(one.source_id), one.schema, one.table) for one in self._fed[name]]
        pair = read_pair(sessions, names, target, name)
        if isinstance(pair, NotCompared):
            raise not_compared(name, pair.reason)
        return pair

    def plan(self, name: TableId) -> ChunkPlan:
        """Cuts the table into chunks. Raises DMError; not retryable where the table can't be compared."""
        sources = self.sources_of(name)
        with self._sessions(sources) as (upstreams, target):
            try:
                pair = self._pair(name, sources, upstreams, target)
                some = None if self._parts is None else self._parts.of(pair)
                if some is not None:
                    return ChunkPlan(pair.outline, [span_of(part) for part in some], pair.unjudged)
                # The largest table decides, so that a chunk with the rows of all tables has about this size.
                fed = self._fed[name]
                largest = max(range(len(fed)), key=lambda number: fed[number].rows)
                conn = upstreams[pair.sources[largest].connection]
                rows = rows_of_chunks(fed, largest, self._settings.chunk_rows)
                spans = [span_of(part) for part in plan_ranges(conn, pair, rows, largest)]
                return ChunkPlan(pair.outline, spans, pair.unjudged)
            except pymysql.Error as exc:
                raise classify(exc, scope="downstream", table=qualified(*name)) from exc

    @contextlib.contextmanager
    def _sessions(self, sources: Sequence[str]) -> Iterator[tuple[list[Connection[Any]], Connection[Any]]]:
        with contextlib.ExitStack() as stack:
            opened = [open_session(self._configs[source].from_) for source in sources]
            target = open_session(self._own.to, scope="downstream")
            for conn in (*opened, target):
                stack.callback(driver.drop, conn)
            yield opened, target


def _ensure_readable(conn: Connection[Any], side: TableSide, scope: Scope) -> None:
    """Raises DMError. The structure is shown to users who may not read the rows."""
    try:
        query(conn, f"SELECT 1 FROM {side.qualified} LIMIT 1")
    except pymysql.Error as exc:
        raise classify(exc, scope=scope, table=side.qualified) from exc


def rows_of_chunks(fed: Sequence[FedTable], largest: int, most: int = 0) -> int:
    """How many rows of the table ``largest`` a chunk has, whose rows of all tables have the size of a chunk. Pure.

    ``most``: the most rows of a chunk; 0 for the usual number."""
    rows = max(1, sum(one.rows for one in fed))
    row_bytes = max(1, sum(one.data_bytes for one in fed) // rows)
    return max(1, min(most or CHUNK_ROWS, CHUNK_BYTES // row_bytes) * fed[largest].rows // rows)


def led_tables(fed: Mapping[TableId, Sequence[FedTable]], source: str, settings: DiffSettings) -> list[TableProgress]:
    """The tables that ``source`` compares: it is the first of those with rows of them that take part. Pure."""
    found = []
    for target, tables in fed.items():
        sources = {one.source_id for one in tables}
        leader = min(sources & set(settings.sources), default="")
        if leader != source:
            if settings.is_sweep and source in sources:
                found.append(_swept_by(leader, target, tables))
            continue
        name = ".".join(target)
        if settings.tables and not any(fnmatch.fnmatchcase(name, pattern) for pattern in settings.tables):
            continue
        missing = ", ".join(sorted(sources - set(settings.sources)))
        reason = (
            f"rows of source {missing} are in it too: start the comparison for all of its sources" if missing else ""
        )
        found.append(TableProgress(target, tuple(map(str, tables)), sum(one.rows for one in tables), reason=reason))
    return found


def _swept_by(leader: str, target: TableId, tables: Sequence[FedTable]) -> TableProgress:
    """A line of the status of a source whose rows another source's sweep compares."""
    reason = f"it is in the sweep of source {leader}, while validation runs there in mode full"
    return TableProgress(target, tuple(map(str, tables)), sum(one.rows for one in tables), reason=reason)


def _not_seen(cfg: SubTaskConfig, names: str) -> TableProgress:
    """A line of the answer for the tables that may be there and are not listed."""
    reason = (
        f"the upstream's user '{cfg.from_.user}' may not see all tables of the task: it lacks SELECT on {names}. "
        "Tables that it does not see are not compared"
    )
    return TableProgress(UNSEEN, (f"{cfg.source_id}: {names}",), reason=reason)


@dataclass(frozen=True, slots=True)
class _Listing:
    """The upstream's tables as its user sees them. ``unseen``: see :func:`hidden_tables.unseen`."""

    tables: list[TableStat]
    unseen: str


def _list(cfg: SubTaskConfig) -> _Listing:
    hidden = {*SYSTEM_SCHEMAS, cfg.meta_schema}
    conn = open_session(cfg.from_)
    try:
        tables = list_tables(conn, lambda schema, _: schema.lower() not in hidden)
        grants = fetch_grants(conn, cfg.flavor)
        schemas = list_schemas(conn)
        return _Listing(tables, unseen(grants, cfg.block_allow_list, BlockAllowListFilter.of(cfg), schemas))
    except pymysql.Error as exc:
        raise classify(exc, scope="upstream") from exc
    finally:
        driver.drop(conn)


def not_compared(name: TableId, reason: str) -> DMError:
    return errors.new(
        Code.DiffTableRefused,
        f"table {qualified(*name)} is not compared: {reason}",
        workaround="See docs/diff.md for what can be compared.",
    )
