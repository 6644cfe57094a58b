"""Hazard: a comparison keeps the upstream's snapshot for so long that its undo log grows without a bound."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.comparison.pair import WHOLE, ComparedColumn, LiteralSource, TablePair, TableSide, Way
from dm_worker.comparison.value_forms import Reading
from dm_worker.diff import compare_task
from dm_worker.diff.compare_task import ChunkReport, ComparedTable, CompareSpec, run_compare_task
from dm_worker.diff.progress import ChunkWork
from dm_worker.diff.snapshot_pair import PairServers, SnapshotPair
from dm_worker.diff.spans import span_of
from dm_worker.table_reads.chunks import shape_of
from dm_worker.table_reads.session import open_session
from pkg.errors import Code
from pkg.mysql.introspect import show_create

#: Seconds of a transaction; of a statement for each of the table's rows; the rows.
LIMIT, SLOW, ROWS = 3.0, 0.4, 5


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


def side(form: str, literal: str = "`v`") -> TableSide:
    literals = (LiteralSource("`id`"), LiteralSource(literal))
    return TableSide("d", "t", 0, ("`id`", form), literals, ("", ""))


def compared(
    upstream: SQLServer,
    target: SQLServer,
    form: str,
    monkeypatch: pytest.MonkeyPatch,
    literal: str = "`v`",
    chunks: int = 1,
) -> list[ChunkReport]:
    """The reports of a comparison in which the upstream reads ``v`` by an expression, and its literal by another one.
    Each chunk is the whole table."""
    columns = (ComparedColumn("id", Reading.SAME), ComparedColumn("v", Reading.SAME))
    pair = TablePair(side("`v`"), (side(form, literal),), columns, (0,), (), Way.PUSHED, "")
    with open_session(upstream.db_config) as here, open_session(target.db_config) as there:
        shapes = tuple(shape_of(show_create(conn, "d", "t")) for conn in (there, here))

        @contextlib.contextmanager
        def opened(_: PairServers, __: int) -> Iterator[SnapshotPair]:
            for conn in (here, there):
                conn.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            yield SnapshotPair((here,), there, "somewhere")

        monkeypatch.setattr(compare_task, "open_pair", opened)
        # A busy machine may seem to have a slow network.
        monkeypatch.setattr(compare_task, "measured_speed", lambda _: 1e15)
        servers = PairServers((), target.db_config, "", "s1")
        spec = CompareSpec(servers, {("d", "t"): ComparedTable(pair, shapes, ())}, 20.0, 0, whole_rows=True)
        works = [ChunkWork(("d", "t"), number, span_of(WHOLE)) for number in range(chunks)]
        return list(run_compare_task(spec, iter([(0, works)])))


def fill(*servers: SQLServer) -> None:
    rows = ", ".join(f"({number}, {number})" for number in range(ROWS))
    for server in servers:
        server.execute(
            "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", f"INSERT INTO d.t VALUES {rows}"
        )


@pytest.mark.parametrize("slow", [SLOW, 2 * SLOW], ids=["all statements together", "one statement"])
def test_a_chunk_that_would_keep_the_snapshot_too_long_is_given_up(
    upstream: SQLServer, target: SQLServer, monkeypatch: pytest.MonkeyPatch, slow: float
) -> None:
    fill(upstream, target)
    target.execute("UPDATE d.t SET v = 9 WHERE id = 1")
    (quick,) = compared(upstream, target, "`v`", monkeypatch)
    assert quick.error is None
    assert len(quick.differences) == 1
    monkeypatch.setattr(compare_task, "MOST_SECONDS", LIMIT)
    # The checksums take two seconds, the digests too, and the rows: more than the transaction may last.
    (late,) = compared(upstream, target, f"`v`+SLEEP({slow})", monkeypatch)
    assert late.error is not None
    assert late.error.kind is Code.DiffTableRefused
    assert "a transaction of the upstream would last longer" in late.error.message
    assert late.result is None
    assert not late.error.retryable


def test_a_chunk_whose_whole_rows_are_late_is_tried_again(
    upstream: SQLServer, target: SQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(upstream, target)
    whole = [one.result.how for one in compared(upstream, target, "`v`", monkeypatch, chunks=2) if one.result]
    assert whole == ["checksums", "whole rows"]
    monkeypatch.setattr(compare_task, "MOST_SECONDS", LIMIT)
    # Checksums do not read literals.
    first, late = compared(upstream, target, "`v`", monkeypatch, literal=f"`v`+SLEEP({2 * SLOW})", chunks=2)
    assert first.error is None
    assert late.error is not None
    assert late.error.retryable
