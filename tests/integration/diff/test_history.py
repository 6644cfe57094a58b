"""Hazard: a comparison keeps a snapshot of the upstream so long that the undo history grows while it lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.local.mysql import SQLServer
from deploy.local.process import wait_until
from dm_worker.diff import run as diff_run
from dm_worker.diff.servers_diff import ServersDiff, ServersDiffOrder
from dm_worker.diff.state_table import DiffSettings
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig
from pkg.pb import dmworker_pb2 as pb
from tests.harness.beside import beside

#: Rows that are compared, and rows of another table that are written; seconds of a pair here, and what it may last
#: longer on a busy machine; the bytes per second that make the comparison last.
ROWS, WRITTEN, PAIR, LATE, RATE = 10_000, 500, 2.0, 15.0, 2_000_000
#: The longest that a transaction of a comparison may last.
LIMIT = 60.0


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


@contextmanager
def writing(server: SQLServer) -> Iterator[list[int]]:
    """Hundreds of transactions a second; the list has their number."""
    number = [0]

    def write(stop: threading.Event) -> None:
        with server.connect(autocommit=True) as conn, conn.cursor() as cursor:
            while not stop.wait(0.002):
                cursor.execute(f"UPDATE d.busy SET v = v + 1 WHERE id = {number[0] % WRITTEN}")
                number[0] += 1

    with beside(write):
        yield number


def _numbers(first: int, last: int) -> str:
    return f"WITH RECURSIVE n (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"


class UndoWatch:
    """The age of the oldest transaction in seconds, and the length of the undo history."""

    def __init__(self, server: SQLServer) -> None:
        self._server = server
        self.ages: list[float] = []
        self.lengths: list[int] = []

    def length(self) -> int:
        sql = "SELECT COUNT FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'"
        return int(self._server.execute(sql)[0][0])

    def look(self) -> None:
        (age,) = self._server.execute(
            "SELECT COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, trx_started, NOW(6))), 0)"
            " FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> CONNECTION_ID()"
        )[0]
        self.ages.append(float(age) / 1e6)
        self.lengths.append(self.length())


def test_no_transaction_is_old_and_the_history_does_not_grow(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diff_run, "PAIR_SECONDS", PAIR)
    for server in (upstream, target):
        server.execute(
            "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(400))",
            "CREATE TABLE d.busy (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO d.t {_numbers(1, 1000)}"
            f" SELECT a.i * 1000 + b.i, REPEAT('x', 200) FROM n a JOIN n b WHERE a.i <= {ROWS // 1000}",
            f"INSERT INTO d.busy {_numbers(0, WRITTEN - 1)}"
            " SELECT i, 0 FROM n",
            "ANALYZE TABLE d.t",
        )  # fmt: skip
    # Each row differs, so that the rows are read and not only their checksums.
    target.execute("UPDATE d.t SET v = REPEAT('y', 200)")
    cfg = SubTaskConfig("history", "s1", "all", upstream.db_config, target.db_config, meta_schema="", online_ddl=False)
    settings = DiffSettings(("s1",), ("d.t",), threads=1, bytes_per_second=RATE, chunk_rows=ROWS // 20)
    watch = UndoWatch(upstream)
    wait_until(lambda: watch.length() < 200, "the history of the preparation is purged", 120)
    with writing(upstream) as written:
        diff = ServersDiff(spark, ServersDiffOrder("history", "r1", time.time(), (cfg,), settings, 1.0, str(tmp_path)))
        begun = written[0]
        while diff.is_running:
            watch.look()
            time.sleep(0.2)  # more often, and INNODB_TRX shows what it showed before
        transactions = written[0] - begun
        ((table,),) = [source.tables for source in diff.status()]
    assert isinstance(table, pb.DiffTableStatus)
    assert (table.state, table.changed) == ("different", ROWS)
    assert table.bytes / RATE > PAIR, "the comparison was too short to show anything"
    assert max(watch.ages) < PAIR + LATE < LIMIT
    assert max(watch.lengths) < transactions / 2, "the history grew while the comparison lasted"
