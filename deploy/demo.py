"""`make demo`: a migration to watch. Two sharded upstreams become one table while writers keep changing them.

Starts real servers and a real cluster on free loopback ports, drives them with dmctl exactly as an operator would,
and ends by comparing every shard with the target. Exits non-zero on any difference; leaves nothing running
(unless ``--keep``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.harness.cluster import Cluster, program
from tests.harness.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.harness.process import HarnessError, Process
from tests.harness.workload import COMPARED, Shard, Writer, create_shard, fetch

ROWS = 20_000
#: Ids of one shard end where the next one's begin.
RANGE = 1_000_000
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
"""
INSTANCE = """\
  - source-id: {source}
    route-rules: [merge-orders]
    block-allow-list: shops
"""


def say(text: str) -> None:
    print(text, flush=True)


def step(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
    say(f"\n{bold}▶ {text}{plain}")


def second_upstream() -> SQLServer:
    """A MySQL where its package can be had, else a second MariaDB."""
    try:
        return MySQLServer(gtid=True)
    except (HarnessError, OSError) as exc:
        say(f"  no MySQL here ({exc}); the second upstream is a MariaDB too")
        return MariaDBServer(gtid=True)


class Demo:
    """The cast of the demo: servers, cluster, shards, writers."""

    def __init__(self) -> None:
        self.upstreams: list[SQLServer] = [MariaDBServer(gtid=True), second_upstream()]
        self.target = MariaDBServer(binlog=False)
        self.cluster = Cluster(workers=2)
        self.shards = [
            Shard(server, f"shop_0{i + 1}", f"orders_{j + 1}", (2 * i + j) * RANGE)
            for i, server in enumerate(self.upstreams)
            for j in range(2)
        ]
        self.writers = [
            Writer([s for s in self.shards if s.server is server], seed=i, rows=ROWS, pause=0.02)
            for i, server in enumerate(self.upstreams)
        ]

    def servers(self) -> Sequence[SQLServer]:
        return (*self.upstreams, self.target)

    def start(self) -> None:
        step("Starting two upstreams, a target, dm-master and two dm-workers")
        for server in self.servers():
            server.start(wait=False)
        for server in self.servers():
            server.wait_ready()
        self.cluster.start()
        for server, role in zip(self.servers(), ("upstream 1", "upstream 2", "target"), strict=True):
            say(f"  {role:10} {server.execute('SELECT VERSION()')[0][0]} on port {server.port}")
        say(f"  dm-master  on port {self.cluster.master.port}")

    def create_data(self) -> None:
        step(f"Creating four sharded tables with {ROWS:,} rows each; two writers start changing them")
        for i, shard in enumerate(self.shards):
            create_shard(shard, ROWS, seed=i)
            say(f"  {shard.schema}.{shard.table} on upstream {1 + i // 2}")
        for writer in self.writers:
            writer.start()

    def dmctl(self, *args: str) -> None:
        """Runs and shows one dmctl command; its answer must be good."""
        say(f"  $ dmctl {' '.join(shlex.quote(Path(a).name if a.endswith('.yaml') else a) for a in args)}")
        answer = self.cluster.ok(*args)
        shown = {key: value for key, value in answer.items() if key in ("result", "msg", "checkResult") and value != ""}
        say("    " + json.dumps(shown, ensure_ascii=False)[:600])

    def start_task(self) -> None:
        step("Adding the sources, checking the task, starting it")
        for i, server in enumerate(self.upstreams):
            path = self.cluster.dir / f"upstream-{i + 1}.yaml"
            path.write_text(
                f"source-id: upstream-{i + 1}\nenable-gtid: true\n"
                f"from: {{host: 127.0.0.1, port: {server.port}, user: root, password: ''}}\n"
            )
            self.dmctl("operate-source", "create", str(path))
        instances = "".join(INSTANCE.format(source=f"upstream-{i + 1}") for i in range(len(self.upstreams)))
        task = self.cluster.write_task(TASK.format(port=self.target.port, instances=instances), "demo.yaml")
        self.dmctl("check-task", task)
        self.dmctl("start-task", task)

    def follow(self, until_synced: bool, seconds: float = 300) -> None:
        """Prints a line per subtask as `query-status` changes, until all are in Sync (or synced)."""
        last: dict[str, str] = {}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            states = self.cluster.subtasks("demo")
            for source, state in sorted(states.items()):
                line = describe(state)
                if line != last.get(source):
                    say(f"  {source}  {line}")
                    last[source] = line
                errors = (state["result"] or {}).get("errors") or []
                if errors:
                    raise HarnessError(f"{source}: {errors[0]['Message']}")
            done = [s["unit"] == "Sync" and (not until_synced or s["sync"]["synced"]) for s in states.values()]
            if len(states) == len(self.upstreams) and all(done):
                return
            time.sleep(0.7)
        raise HarnessError(f"not there within {seconds:.0f} s\n{self.cluster.logs()}")

    def change_schema(self) -> None:
        step("Replicating live; a DDL comes to one shard after the other, and runs once when all have it")
        for shard in self.shards:
            shard.server.execute(f"ALTER TABLE {shard.name} ADD COLUMN channel VARCHAR(20) NOT NULL DEFAULT 'web'")
            say(f"  ALTER TABLE {shard.schema}.{shard.table} ADD COLUMN channel …")
            time.sleep(2)
            self.show_waiting()
        end = time.monotonic() + 60
        while self.cluster.dmctl("shard-ddl-lock", "demo")["locks"] and time.monotonic() < end:
            time.sleep(0.3)
        for source, state in sorted(self.cluster.subtasks("demo").items()):
            say(f"  {source}  {describe(state)}")

    def show_waiting(self) -> None:
        """What waits for the DDL, as query-status and shard-ddl-lock tell it."""
        for source, state in sorted(self.cluster.subtasks("demo").items()):
            for group in state["sync"]["unresolvedGroups"]:
                if group["synced"]:
                    behind = ", ".join(group["unsynced"])
                    who = f"waits for {behind}" if behind else "all of its tables have it"
                    say(f"    {source}: {who}; {group['heldRows']} rows held back")
        say(f"    $ dmctl shard-ddl-lock demo\n      {self.cluster.dmctl('shard-ddl-lock', 'demo')['msg']}")

    def compare(self) -> bool:
        """Prints the table of counts and checksums; True when all agree."""
        step("Stopping the writers, waiting for the last change, comparing")
        for writer in self.writers:
            writer.stop()
        self.follow(until_synced=True)
        say(f"  {sum(w.transactions for w in self.writers):,} transactions were written meanwhile\n")
        say(f"  {'shard':24} {'rows':>9} {'in target':>9}  {'checksum':16}  {'in target':16}")
        equal = True
        for shard in self.shards:
            there = f"shop.orders WHERE id >= {shard.offset} AND id < {shard.offset + RANGE}"
            columns = f"{COMPARED}, channel"
            mine = fetch(shard.server, shard.name, columns)
            theirs = fetch(self.target, there, columns)
            equal = equal and mine == theirs
            mark = "✓" if mine == theirs else "✗ DIFFERENT"
            name = f"{shard.schema}.{shard.table}"
            say(f"  {name:24} {len(mine):>9,} {len(theirs):>9,}  {digest(mine)}  {digest(theirs)}  {mark}")
        return equal

    def show_keep(self) -> None:
        address = self.cluster.master.address
        state = self.cluster.dir / "demo.pids"
        processes = (*self.cluster.workers, self.cluster.master, *self.servers())
        state.write_text(" ".join(str(process.pid) for process in processes))
        step("The cluster stays up. To play with it:")
        dmctl = f"DM_MASTER_ADDR={address} {' '.join(program('dmctl.cli'))}"
        say(f"  {dmctl} query-status demo")
        say(f"  {dmctl} list-member")
        say(f"  mariadb -h127.0.0.1 -uroot -P{self.upstreams[0].port} shop_01    # an upstream")
        say(f"  mariadb -h127.0.0.1 -uroot -P{self.target.port} shop       # the target")
        say(f"  kill $(cat {state})    # ends it all")

    def close(self) -> None:
        for writer in self.writers:
            writer.abandon()
        self.cluster.close()
        for server in self.servers():
            server.cleanup()


def digest(rows: Sequence[object]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def describe(state: dict[str, object]) -> str:
    """One subtask's line: stage, unit, and how far it is."""
    unit = str(state["unit"])
    detail = state.get(unit.lower())
    text = f"{state['stage']:8} {unit:5}"
    if isinstance(detail, dict):
        if unit == "Sync":
            text += (
                f" {detail['syncerBinlog']} rows {detail['totalRows']} ({detail['recentRps']}/s)"
                f" lag {detail['secondsBehindMaster']} s {'synced' if detail['synced'] else ''}"
            )
        else:
            text += f" {detail['progress']}"
    return text.rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave servers and cluster running at the end")
    keep = parser.parse_args().keep
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    Process.outlives = keep
    started = time.monotonic()
    demo = Demo()
    kept = False
    try:
        demo.start()
        demo.create_data()
        demo.start_task()
        step("Full copy, then live replication, as query-status tells it")
        demo.follow(until_synced=False)
        demo.change_schema()
        equal = demo.compare()
        verdict = "EQUAL: the target has every row of every shard" if equal else "DIFFERENT: see the table above"
        say(f"\n  {verdict} ({time.monotonic() - started:.0f} s)")
        if keep:
            demo.show_keep()
            kept = True
    except HarnessError as exc:
        print(f"\ndemo failed: {exc}", file=sys.stderr)
        return 1
    finally:
        if not kept:
            demo.close()
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
