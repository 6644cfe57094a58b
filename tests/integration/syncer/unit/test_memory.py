"""Hazard: memory follows the size of a transaction, a row or the backlog instead of the configured budget.

``DM_TEST_BIG_ROWS`` sets the number of rows of the big transaction, for example 10000000.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT
from pkg.config.model import SubTaskConfig
from tests.harness.memory import MemorySampler
from tests.integration.syncer.driver_process import start_driver, wait_for
from tests.integration.syncer.support import subtask

ROWS = int(os.environ.get("DM_TEST_BIG_ROWS", "300000"))
MIB = 1 << 20
BUDGET = 48 * MIB
#: The JVM's heap (Spark does not start with less), and what it takes beside it (code, threads, buffers).
HEAP, JVM_OVERHEAD = 512 * MIB, 300 * MIB
TABLE = "CREATE TABLE d.big (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"
INSERT = "INSERT INTO d.big SELECT seq, seq, REPEAT('x', 119), REPEAT('y', 59) FROM d.seq_{0}_to_{1}"

pytestmark = pytest.mark.timeout(900)


@contextmanager
def driver(cfg: SubTaskConfig, budget: int, heap: int) -> Iterator[subprocess.Popen[str]]:
    process = start_driver(cfg, str(budget), f"{heap // MIB}m")
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def wait_written(process: subprocess.Popen[str], upstream: MariaDBServer, target: MariaDBServer, number: int) -> None:
    """Until all that was written upstream is in the target, whatever its size.

    Told by a row that comes last, and by the number of rows: writers of one batch commit in any order.
    """
    upstream.execute(f"INSERT INTO d.done VALUES ({number})")
    count = "SELECT COUNT(*) FROM d.big"
    wanted = upstream.execute(count)

    def arrived() -> bool:
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        return (number,) in target.execute("SELECT id FROM d.done") and target.execute(count) == wanted

    wait_for(arrived, WAIT_TIMEOUT * max(1, ROWS / 300_000))


def test_memory_stays_within_the_budget_whatever_the_transaction_s_size(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", TABLE, "CREATE TABLE d.done (id INT PRIMARY KEY)")
    cfg = subtask(mariadb_upstream, target)
    with driver(cfg, BUDGET, HEAP) as process:
        # Some rows through both kinds of jobs, so that everything is loaded: what is idle is no part of the budget.
        mariadb_upstream.execute(INSERT.format(1, 20_000), "DELETE FROM d.big")
        wait_written(process, mariadb_upstream, target, 1)
        idle = MemorySampler(process.pid)
        idle.sample()
        with MemorySampler(process.pid) as sampler:
            mariadb_upstream.execute(INSERT.format(1, ROWS))
            wait_written(process, mariadb_upstream, target, 2)
    print(f"idle: {idle.peak}\npeak: {sampler.peak}", file=sys.stderr)
    grown = sum(sampler.peak.kinds[kind] - idle.peak.kinds[kind] for kind in ("driver", "python workers"))
    assert sampler.peak.samples > 10
    assert grown <= BUDGET, f"{sampler.peak}, idle {idle.peak}"
    assert sampler.peak.kinds["jvm"] <= HEAP + JVM_OVERHEAD, sampler.peak
    # What is checked must not fit into the budget by itself.
    assert ROWS * 190 > BUDGET
    query = "CHECKSUM TABLE d.big"
    assert mariadb_upstream.execute(query) == target.execute(query)
