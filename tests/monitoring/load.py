"""A cluster's busy minutes, for pictures of the dashboards: a full copy, steady changes, a backlog, a DDL of merged
shards that waits, a locked target and one that is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.harness.sharded import ShardedTask

#: Rows of each shard at first, and of the table that makes the backlog.
SHARD_ROWS, BACKLOG_ROWS = 20_000, 300_000
#: Seconds of steady changes between two events.
STEADY = 40.0


@contextmanager
def loaded_task(cluster: Cluster) -> Iterator[ShardedTask]:
    """A task that merges the shards of two upstreams; the first has a relay. Its writers run."""
    upstreams = MariaDBServer(gtid=True), MySQLServer(gtid=True)
    target = MariaDBServer()
    servers: tuple[SQLServer, ...] = (*upstreams, target)
    try:
        for server in servers:
            server.start()
        task = ShardedTask(cluster, upstreams, target, "shop", tables=2, rows=SHARD_ROWS)
        task.create(seed=1)
        for number, server in enumerate(upstreams):
            cluster.add_source(server, task.source(number))
        cluster.ok("start-relay", "-s", task.source(0))
        for writer in task.writers:
            writer.pause = 0.01
        _create_stock(upstreams[0])
        task.start()
        try:
            yield task
        finally:
            task.abandon()
    finally:
        for server in servers:
            server.cleanup()


def _create_stock(server: MariaDBServer) -> None:
    server.execute(
        "USE shop_11",
        "CREATE TABLE orders_9 LIKE orders_1",
        "INSERT INTO orders_9 SELECT 900000000 + seq, seq, 'stock', seq, 0.5, NULL, NOW()"
        f" FROM seq_1_to_{BACKLOG_ROWS}",
    )


def busy_minutes(task: ShardedTask, say: Callable[[str], None]) -> None:
    """What happens to the task; it replicates without an error at the end."""
    time.sleep(STEADY)
    say("backlog")
    task.upstreams[0].execute("UPDATE shop_11.orders_9 SET customer = customer + 1")
    time.sleep(STEADY)
    say("a DDL waits for the other source")
    task.alter(task.shards("orders", 0), "ADD COLUMN c1 INT", adds="c1")
    task.upstreams[0].execute("ALTER TABLE shop_11.orders_9 ADD COLUMN c1 INT")
    task.wait_lock("orders", "waiting", "source-2")
    time.sleep(STEADY)
    task.alter(task.shards("orders", 1), "ADD COLUMN c1 INT", adds="c1")
    task.wait_no_lock()
    time.sleep(STEADY)
    say("the target is locked")
    blocker = task.target.connect()
    with blocker.cursor() as cursor:
        cursor.execute("LOCK TABLES shop.orders WRITE")
        time.sleep(STEADY / 2)
    blocker.close()
    time.sleep(STEADY)
    say("the target is away")
    task.target.stop()
    time.sleep(STEADY / 2)
    task.target.start()
    task.cluster.wait_stage("shop", "Running", unit="Sync")
    time.sleep(STEADY)
