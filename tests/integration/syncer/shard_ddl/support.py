"""Merged shards in one upstream, and what becomes of them at the target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deploy.local.mysql import SQLServer
from deploy.local.process import wait_until
from dm_master.election.campaign import LeaderKey
from dm_master.shardddl.lock_coordinator import LockCoordinator, LockStore
from dm_master.shardddl.pessimistic.lock_registry import LockRegistry
from pkg.config.model import SubTaskConfig
from pkg.etcd import EtcdClient
from pkg.rules.model import RouteRule
from tests.integration.syncer.one_source import OneSource
from tests.integration.syncer.support import Running, rows, subtask

COLUMNS = "id INT PRIMARY KEY, v INT"


def shards(upstream: SQLServer, target: SQLServer, count: int = 2) -> None:
    upstream.execute("CREATE DATABASE d", *(f"CREATE TABLE d.t{i} ({COLUMNS})" for i in range(1, count + 1)))
    target.execute("CREATE DATABASE m", f"CREATE TABLE m.t ({COLUMNS})")


def merging(upstream: SQLServer, target: SQLServer, **changes: object) -> SubTaskConfig:
    routes = (RouteRule("d", "m", "t*", "t"), *(RouteRule("d", "m", f"{name}*", name) for name in "uk"))
    return subtask(upstream, target, shard_mode="pessimistic", routes=routes, **changes)


def merged(server: SQLServer, tables: str, columns: str = "*") -> list[tuple[object, ...]]:
    return rows(server, "(" + " UNION ALL ".join(f"SELECT {columns} FROM {name}" for name in tables.split()) + ") x")


def wait_settled(run: Running, lock_service: OneSource, upstream: SQLServer, count: int = 1) -> None:
    """Until ``count`` DDLs are settled and all rows that the upstream has by now are applied."""
    wait_until(lambda: lock_service.confirmed == count, "the DDL is settled")
    wait_until(lambda: not run.unit.status().unresolvedGroups, "nothing is held back")
    run.wait_synced(upstream)


def structure(target: SQLServer) -> tuple[int, list[str]]:
    """Of m.t: the number of columns, and the indexes' names."""
    return len(target.execute("SHOW COLUMNS FROM m.t")), [row[2] for row in target.execute("SHOW INDEX FROM m.t")]


@contextmanager
def coordinated(client: EtcdClient, *sources: str) -> Iterator[None]:
    """A master's locks."""
    leader = LeaderKey("/dm-master/leader/1", client.put("/dm-master/leader/1", "{}"))
    coordinator = LockCoordinator(LockStore(client), LockRegistry, lambda: {"t": frozenset(sources)})
    coordinator.start(leader)
    try:
        yield
    finally:
        coordinator.stop()
