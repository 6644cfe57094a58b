"""Tables on two servers, and their comparison as a task's comparison makes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from dm_worker.comparison.compare import LIMITS, compare_chunk
from dm_worker.comparison.merged_tables import SourceName
from dm_worker.comparison.outcome import ChunkOutcome, ComparisonLimits, Difference
from dm_worker.comparison.pair import WHOLE, KeyRange, NotCompared, TablePair, Way
from dm_worker.comparison.reading import SourceSession, compared_server, read_pair
from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.table_reads.session import open_session

SCHEMA, TABLE = "d", "t"

#: The least memory for a comparison by whole rows, in bytes: with less than the rows of one read, each pass would read
#: the whole table for a few rows.
LEAST_FOR_WHOLE_ROWS = 20_000
#: Upstream and target, by kind of server.
PAIRS = ("mariadb-mariadb", "mysql-mysql", "mysql-mariadb")


@dataclass
class Comparison:
    """The result of one comparison."""

    outcome: ChunkOutcome
    differences: list[Difference] = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        return sorted(one.kind.value for one in self.differences)


@contextmanager
def snapshots(*servers: SQLServer) -> Iterator[list[Connection[Any]]]:
    """A session with a snapshot on each server."""
    with ExitStack() as stack:
        opened = []
        for server in servers:
            conn = stack.enter_context(open_session(server.db_config))
            conn.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            opened.append(conn)
        yield opened


def fresh(server: SQLServer, *statements: str, schema: str = SCHEMA) -> None:
    """The schema, with what the statements create in it."""
    conn = server.connect()
    with conn, conn.cursor() as cursor:
        for statement in (
            f"DROP DATABASE IF EXISTS {schema}",
            f"CREATE DATABASE {schema}",
            f"USE {schema}",
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'",
            *statements,
        ):
            cursor.execute(statement)


def pair_of(
    upstream: Sequence[Connection[Any]],
    target: Connection[Any],
    *,
    names: Sequence[SourceName] = (),
    schema: str = SCHEMA,
    table: str = TABLE,
    rules: Sequence[TaskRules | None] = (),
) -> TablePair | NotCompared:
    own = rules or [None] * len(upstream)
    sessions = [SourceSession(conn, compared_server(conn), one) for conn, one in zip(upstream, own, strict=True)]
    return read_pair(sessions, names or [SourceName(0, schema, table)], target, (schema, table))


def compare(
    upstream: SQLServer | Sequence[SQLServer],
    target: SQLServer,
    *,
    names: Sequence[SourceName] = (),
    schema: str = SCHEMA,
    table: str = TABLE,
    rules: Sequence[TaskRules | None] = (),
    parts: Sequence[KeyRange] = (WHOLE,),
    limits: ComparisonLimits = LIMITS,
    streamed: bool = False,
) -> Comparison:
    """Compares the target's table with the upstream's. ``streamed``: by rows, even if checksums would do."""
    servers = [upstream] if isinstance(upstream, SQLServer) else list(upstream)
    with snapshots(*servers, target) as (*sources, there):
        pair = pair_of(sources, there, names=names, schema=schema, table=table, rules=rules)
        assert isinstance(pair, TablePair), pair
        if streamed:
            pair = replace(pair, way=Way.STREAMED)
        found: list[Difference] = []
        whole: list[Difference] = []
        roomy = replace(limits, most_bytes=max(limits.most_bytes, LEAST_FOR_WHOLE_ROWS))
        for part in parts:
            outcome = compare_chunk(sources, there, pair, part, limits, report=found.extend)
            # As if many rows of the part before had differed: it must not matter.
            compare_chunk(sources, there, pair, part, roomy, report=whole.extend, whole=True)
        assert Counter(whole) == Counter(found)
        return Comparison(outcome, found)
