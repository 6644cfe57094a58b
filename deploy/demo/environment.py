"""The demo's environment: two upstreams with two shards each, a target, a cluster, and writers."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import pyspark

from deploy.demo.screen import Screen
from deploy.local.cache import CACHE
from deploy.local.cluster import Cluster
from deploy.local.mysql import MYSQL_VERSION, MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import HarnessError, binary
from deploy.local.targets import new_target
from deploy.local.tidb import is_built
from deploy.local.workload import COLUMNS, Shard, Writer, create_shard

#: Rows that Python creates for each shard, and how often SQL doubles them: 192,000 rows.
SEED_ROWS, DOUBLINGS = 3_000, 6
ROWS = SEED_ROWS << DOUBLINGS
#: The ids of one shard end where the next one's begin. Only the lag's probes use ids from PROBES on.
RANGE, PROBES = 1_000_000, 900_000
TASK = """\
name: demo
task-mode: all
shard-mode: pessimistic
target-database:
  host: 127.0.0.1
  port: {port}
  user: root
  password: ""
mysql-instances:
{instances}
routes:
  merge-orders:
    schema-pattern: "shop_*"
    table-pattern: "orders_*"
    target-schema: shop
    target-table: orders
block-allow-list:
  shops:
    do-dbs: ["shop_*"]
mydumpers:
  global:
    rows: 20000
"""
INSTANCE = """\
  - source-id: {source}
    route-rules: [merge-orders]
    block-allow-list: shops
    mydumper-config-name: global
"""


def second_upstream(screen: Screen) -> SQLServer:
    """A MySQL if its package can be fetched, else a second MariaDB."""
    home = CACHE / f"mysql-{MYSQL_VERSION}"
    if not home.exists():
        screen.say(f"  fetching MySQL {MYSQL_VERSION} for the second upstream (once: it is kept in {home})")
    try:
        return MySQLServer(gtid=True)
    except (HarnessError, OSError, subprocess.CalledProcessError) as exc:
        screen.say(f"  MySQL is not available ({exc}); the second upstream is a MariaDB too")
        return MariaDBServer(gtid=True)


def target_server(screen: Screen, kind: str) -> SQLServer:
    """A server of one of ``TARGETS``. Raises HarnessError."""
    if kind == "tidb" and not is_built():
        screen.say("  building TiDB from its Go module (once: several minutes, 4.5 GB of disk)")
    return new_target(kind)


class Environment:
    """Servers, cluster, shards and writers. ``close`` ends and removes all of them."""

    def __init__(self, screen: Screen, target: str) -> None:
        screen.step("What is installed")
        for line in installed():
            screen.say(f"  {line}")
        self.upstreams: list[SQLServer] = [MariaDBServer(gtid=True), second_upstream(screen)]
        self.target = target_server(screen, target)
        self.cluster = Cluster(workers=2)
        self.sources = [f"upstream-{i + 1}" for i in range(len(self.upstreams))]
        self.shards = [
            Shard(server, f"shop_0{i + 1}", f"orders_{j + 1}", (2 * i + j) * RANGE)
            for i, server in enumerate(self.upstreams)
            for j in range(2)
        ]
        self.writers = [
            Writer(self.shards_of(server), seed=i, rows=ROWS, pause=0.02) for i, server in enumerate(self.upstreams)
        ]

    @property
    def servers(self) -> Sequence[SQLServer]:
        return (*self.upstreams, self.target)

    def shards_of(self, server: SQLServer) -> list[Shard]:
        return [shard for shard in self.shards if shard.server is server]

    def start(self) -> list[str]:
        """Starts servers and cluster; returns a line about each."""
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_ready()
        self.cluster.start()
        roles = (*self.sources, "target")
        lines = [
            f"{role:12} {server.execute('SELECT VERSION()')[0][0]} on port {server.port}"
            for role, server in zip(roles, self.servers, strict=True)
        ]
        lines.append(f"{'dm-master':12} on port {self.cluster.master.port}, with etcd inside")
        return [*lines, f"{'dm-workers':12} on ports {', '.join(str(worker.port) for worker in self.cluster.workers)}"]

    def fill(self, shard: Shard, seed: int) -> None:
        """Creates the shard with :data:`ROWS` rows."""
        create_shard(shard, SEED_ROWS, seed=seed)
        others = COLUMNS.removeprefix("id, customer, ")
        for i in range(DOUBLINGS):
            new = f"id + {SEED_ROWS << i}, (customer * 69069 + id) % 4294967296"
            shard.server.execute(f"INSERT INTO {shard.name} SELECT {new}, {others} FROM {shard.name}")

    def source_file(self, source: str, server: SQLServer) -> str:
        """Writes the source's file; returns its path."""
        path = self.cluster.dir / f"{source}.yaml"
        path.write_text(
            f"source-id: {source}\nenable-gtid: true\n"
            f"from: {{host: 127.0.0.1, port: {server.port}, user: root, password: ''}}\n"
        )
        return str(path)

    def task_file(self) -> str:
        """Writes the task's file; returns its path."""
        instances = "".join(INSTANCE.format(source=source) for source in self.sources)
        return self.cluster.write_task(TASK.format(port=self.target.port, instances=instances), "demo.yaml")

    def close(self) -> None:
        for writer in self.writers:
            writer.abandon()
        self.cluster.close()
        for server in self.servers:
            server.cleanup()


def installed() -> list[str]:
    """The versions of the required programs; raises ``HarnessError`` for a missing one."""
    programs = {
        "MariaDB": _version([binary("mariadbd", "mysqld"), "--version"]),
        "etcd": _version([binary("etcd"), "--version"]),
        "Java": _version([binary("java"), "-version"]),
        "Python": platform.python_version(),
        "Spark": pyspark.__version__,
    }
    return [" · ".join(f"{name} {version}" for name, version in programs.items())]


def _version(command: Sequence[str]) -> str:
    """The first dotted number that the program prints."""
    text = ""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        text = done.stdout + done.stderr
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else "(version not shown)"
