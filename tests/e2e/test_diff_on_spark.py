"""A comparison on a Spark cluster, whose executors are other processes: they are killed with -9 in the middle of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import wait_until
from tests.harness.comparisons import ended, lines, tables
from tests.harness.proctree import kill_hard
from tests.harness.spark import SparkCluster

pytestmark = pytest.mark.timeout(600)

ROWS = 10_000
#: Spark's tasks, each with a snapshot of its own.
THREADS = 2
#: Seconds between two looks at the transactions: the server shows old ones for ever to who looks more often than every
#: 0.1 s (`CACHE_MIN_IDLE_TIME` of InnoDB).
LOOK = 0.3
FILE = """\
name: on-spark
settle-time: 1s
chunk-rows: 1000
output-dir: {folder}
target-database: {{host: 127.0.0.1, port: {target}, user: root}}
mysql-instances:
- {{source-id: s1, from: {{host: 127.0.0.1, port: {upstream}, user: root}}, block-allow-list: mine}}
block-allow-list:
  mine: {{do-dbs: [d]}}
"""


def new_snapshots(server: SQLServer, before: frozenset[int]) -> frozenset[int]:
    """The sessions with the snapshots of a whole round that is not the one of ``before``."""
    found: frozenset[int] = frozenset()

    def opened() -> bool:
        nonlocal found
        found = snapshots(server)
        return len(found) == THREADS and found != before

    wait_until(opened, "the tasks have snapshots", 240, step=LOOK)
    return found


def snapshots(server: SQLServer) -> frozenset[int]:
    return frozenset(row[0] for row in server.execute("SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX"))


def test_executors_die_and_the_answer_is_right(
    mariadb_upstream: MariaDBServer, target: SQLServer, tmp_path: Path
) -> None:
    # With other members in the SET the rows are read, so that the rate makes each round last: checksums are few bytes.
    for server, members in ((mariadb_upstream, "'a', 'b'"), (target, "'b', 'a'")):
        server.execute(
            "CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, v SET({members}))",
            "INSERT INTO d.t VALUES " + ", ".join(f"({n}, 'a')" for n in range(ROWS)),
        )  # fmt: skip
    target.execute("DELETE FROM d.t WHERE id = 7", f"UPDATE d.t SET v = 'b' WHERE id = {ROWS - 7}")
    path = tmp_path / "diff.yaml"
    path.write_text(FILE.format(folder=tmp_path / "files", target=target.port, upstream=mariadb_upstream.port))
    with (
        SparkCluster(workers=THREADS, cores=2) as spark,
        Cluster(workers=1, worker_extra=spark.toml(slots=2 * THREADS)) as cluster,
    ):
        # Some seconds for each round.
        cluster.ok("diff", "start", "--config", str(path), "--rate", "20KiB", "--threads", str(THREADS))
        held: frozenset[int] = frozenset()
        for victims in (1, THREADS):
            held = new_snapshots(mariadb_upstream, held)
            for executor in spark.wait_executors(THREADS)[:victims]:
                assert kill_hard(executor)
            lost = partial(lambda held: bool(held - snapshots(mariadb_upstream)), held)
            wait_until(lost, "a killed task's snapshot ends", step=LOOK)
            assert cluster.dmctl("diff", "status", "--config", str(path))["verdict"] == "running"
        answer = ended(cluster, "--config", str(path))
    (table,) = tables(answer).values()
    assert (answer["verdict"], table["missing"], table["changed"], table["extra"]) == ("different", "1", "1", "0")
    assert (table["rows"], table["reason"]) == (str(ROWS), "")
    assert sorted((one["kind"], one["key"]["id"]) for one in lines(answer)) == [
        ("changed", str(ROWS - 7)),
        ("missing", "7"),
    ]
