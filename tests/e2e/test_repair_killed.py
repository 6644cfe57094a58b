"""`dmctl diff start --repair` while processes are killed with -9 at each of its steps: it ends equal, and each row that
it has repaired is counted and in the file of differences."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import partial

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import wait_until
from tests.e2e.test_diff import hot_row
from tests.harness.certified import NotAsked, certify
from tests.harness.comparisons import ended, lines, tables
from tests.harness.proctree import kill_hard, spark_workers

pytestmark = pytest.mark.timeout(600)

TASK = """\
name: mended
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: s1, block-allow-list: mine}}]
block-allow-list: {{mine: {{do-dbs: [mended]}}}}
"""
LOST = range(100, 112)
#: Each row takes so long to insert that the transaction of the repair lasts some seconds.
SLOW = (
    "CREATE TRIGGER mended.slow BEFORE INSERT ON mended.t FOR EACH ROW SET @slept = IF(NEW.v = 'lost', SLEEP(0.25), 0)"
)


@pytest.fixture
def mended(free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer) -> Cluster:
    """A task, and a target that inserts some of its rows slowly."""
    mariadb_upstream.execute(
        "CREATE DATABASE mended",
        "CREATE TABLE mended.t (id INT PRIMARY KEY, v VARCHAR(20), customer INT)",
        "INSERT INTO mended.t VALUES (1, 'hot', 0), " + ", ".join(f"({n}, 'lost', 0)" for n in LOST),
    )
    free_cluster.add_source(mariadb_upstream, "s1", gtid=True)
    free_cluster.ok("start-task", free_cluster.write_task(TASK.format(port=target.port), "mended.yaml"))
    free_cluster.wait_stage("mended", "Running", unit="Sync")
    target.execute(SLOW)
    return free_cluster


def is_noted(cluster: Cluster, target: SQLServer) -> bool:
    """The differences are in the file of this run, and no row is repaired yet."""
    found = cluster.worker_of("s1").dir.rglob("differences.jsonl")
    newest = max(found, key=lambda path: path.stat().st_ctime_ns, default=None)
    return newest is not None and newest.stat().st_size > 0 and count(target) == 0


def is_repairing(cluster: Cluster, target: SQLServer) -> bool:
    """The transaction of the repair inserts rows."""
    return bool(target.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'"))


def count(target: SQLServer) -> int:
    ((found,),) = target.execute("SELECT COUNT(*) FROM mended.t WHERE v = 'lost'")
    return int(found)


def kill_worker(cluster: Cluster, target: SQLServer) -> None:
    worker = cluster.worker_of("s1")
    worker.kill()
    worker.start()


def kill_worker_after_commit(cluster: Cluster, target: SQLServer) -> None:
    """The task that repairs commits, and the worker does not hear of it."""
    worker = cluster.worker_of("s1")
    worker.signal(signal.SIGSTOP)
    wait_until(lambda: count(target) == len(LOST), "the repair is committed", 60, step=0.05)
    worker.kill()
    worker.start()


def kill_python_workers(cluster: Cluster, target: SQLServer) -> None:
    for pid in spark_workers(cluster.worker_of("s1").pid):
        kill_hard(pid)


def kill_master(cluster: Cluster, target: SQLServer) -> None:
    cluster.master.kill()
    cluster.master.start()


STEPS: list[tuple[Callable[[Cluster, SQLServer], bool], Callable[[Cluster, SQLServer], None]]] = [
    (is_noted, kill_worker),
    (is_repairing, kill_worker),
    (is_repairing, kill_worker_after_commit),
    (is_repairing, kill_python_workers),
    (is_repairing, kill_master),
]


@pytest.mark.target_with("triggers")
def test_a_repair_ends_equal_and_hides_no_row(
    mended: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    for reached, kill in STEPS:
        target.execute("DELETE FROM mended.t WHERE v = 'lost'")
        with hot_row(mariadb_upstream, "mended.t", 1):
            mended.ok("diff", "start", "mended", "--repair")
            wait_until(partial(reached, mended, target), f"{reached.__name__} for {kill.__name__}", 120, step=0.004)
            kill(mended, target)
            answer = ended(mended, "mended")
        shown = json.dumps([reached.__name__, kill.__name__, answer], indent=1)
        assert answer["verdict"] == "equal", shown
        (table,) = tables(answer).values()
        assert table["repaired"] == str(len(LOST)), shown
        assert {(one["kind"], int(one["key"]["id"])) for one in lines(answer)} == {("missing", key) for key in LOST}
        assert count(target) == len(LOST)
    certify(mended, "mended", not_validated=NotAsked.SEEDED_FAULTS)
