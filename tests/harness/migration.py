"""The migration that end-to-end and fault tests run: two upstreams × two shards each, with and without keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from deploy.local.cluster import Cluster
from deploy.local.mysql import SQLServer
from deploy.local.workload import COMPARED, EVENTS_COMPARED, Shard, Writer, create_shard, differences
from tests.harness.certified import NotAsked, certify, validated

#: Ids of one shard end where the next one's begin.
RANGE = 1_000_000


@dataclass
class Migration:
    """Shards of one logical database on ``upstreams``, merged into ``<name>.orders`` and ``<name>.events``."""

    cluster: Cluster
    upstreams: list[SQLServer]
    target: SQLServer
    name: str = "task"
    rows: int = 2000
    mode: str = "all"
    extra: str = ""
    #: Seconds between two transactions of a writer.
    pause: float = 0.005
    not_validated: NotAsked | None = None
    shards: list[Shard] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)

    def create(self, *, seed: int = 0) -> None:
        """Creates the shards' tables and rows, and the writers, which it does not start."""
        for i, server in enumerate(self.upstreams):
            schema = f"{self.name}_{i + 1}"
            mine = [Shard(server, schema, f"orders_{j + 1}", (2 * i + j) * RANGE) for j in range(2)]
            mine += [Shard(server, schema, f"events_{j + 1}", 0, keyless=True) for j in range(2)]
            for j, shard in enumerate(mine):
                create_shard(shard, 200 if shard.keyless else self.rows, seed * 1000 + i * 10 + j)
            self.shards += mine
            self.writers.append(Writer(mine, seed=seed * 1000 + i, rows=self.rows, pause=self.pause))

    def source(self, i: int) -> str:
        return f"source-{i + 1}"

    def add_sources(self, *, gtid: bool) -> None:
        for i, server in enumerate(self.upstreams):
            self.cluster.add_source(server, self.source(i), gtid=gtid)

    def task_text(self) -> str:
        instances = "".join(
            f"  - {{source-id: {self.source(i)}, route-rules: [orders, events], block-allow-list: mine}}\n"
            for i in range(len(self.upstreams))
        )
        rules = "".join(
            f"  {table}: {{schema-pattern: '{self.name}_*', table-pattern: '{table}_*',"
            f" target-schema: {self.name}, target-table: {table}}}\n"
            for table in ("orders", "events")
        )
        text = (
            f"name: {self.name}\ntask-mode: {self.mode}\n"
            f"target-database: {{host: 127.0.0.1, port: {self.target.port}, user: root, password: ''}}\n"
            f"mysql-instances:\n{instances}routes:\n{rules}"
            f"block-allow-list:\n  mine:\n    do-dbs: ['{self.name}_*']\n{self.extra}"
        )
        return text if self.not_validated else validated(text)

    def start_task(self, *flags: str) -> None:
        path = self.cluster.write_task(self.task_text(), f"{self.name}.yaml")
        self.cluster.ok("start-task", path, *flags)

    def start_writers(self) -> None:
        for writer in self.writers:
            writer.start()

    def stop_writers(self) -> None:
        for writer in self.writers:
            writer.stop()

    def abandon(self) -> None:
        for writer in self.writers:
            writer.abandon()

    def alter(self, clause: str) -> None:
        """Runs the same ALTER on every orders shard."""
        for shard in self.shards:
            if not shard.keyless:
                shard.server.execute(f"ALTER TABLE {shard.name} {clause}")

    def compare(self, extra_columns: str = "", *, not_asked: NotAsked | None = None) -> None:
        """Asserts row-for-row equality of all shards with the target; the product must agree, unless ``not_asked``."""
        for table, keyless, columns in (("orders", False, COMPARED + extra_columns), ("events", True, EVENTS_COMPARED)):
            shards = [shard for shard in self.shards if shard.keyless is keyless]
            found = differences(shards, self.target, f"`{self.name}`.{table}", columns)
            assert not found, found
        if not_asked is None:
            certify(self.cluster, self.name, not_validated=self.not_validated)
