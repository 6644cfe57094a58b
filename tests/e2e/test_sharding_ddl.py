"""DDL of merged shards, end to end: rows of every version arrive, each DDL runs once, conflicts can be resolved."""

from __future__ import annotations

import random
import re
import time
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.process import wait_until
from deploy.local.workload import Shard
from tests.harness.sharded import Servers, ShardedTask, arrives

#: No writer uses these ids.
PROBE = 900_000


def probe(shard: Shard, number: int) -> str:
    """Inserts a row into a shard; returns the query that finds it in the target."""
    row_id = shard.offset + PROBE + number
    shard.server.execute(
        f"INSERT INTO {shard.name} (id, customer, amount, created) VALUES ({row_id}, 1, 2, '2026-01-02 03:04:05')"
    )
    return f"SELECT id FROM {{}}.orders WHERE id = {row_id}"


def held_rows(task: ShardedTask) -> dict[str, int]:
    """The held rows of the group ``orders``, by source; without sources whose workers do not answer."""
    return {one["source"]: int(one["rows"]) for one in task.locks()["orders"]["heldRows"]}


def unresolved(task: ShardedTask) -> list[dict[str, Any]]:
    """The groups of source-1 with unresolved DDL."""
    found: list[dict[str, Any]] = task.cluster.subtask(task.name, "source-1")["sync"]["unresolvedGroups"]
    return found


def ordered(answer: dict[str, Any]) -> str:
    """The message about an order for a lock; "" if it is stored but not carried out within DM's 10 seconds."""
    late = " within 10 s" in answer["msg"]
    assert answer["result"] or late, answer
    return "" if late else str(answer["msg"])


def test_two_upstreams_with_one_table_each(cluster: Cluster, servers: Servers) -> None:
    """At t1 one shard runs the DDL, at t3 the other; writers never stop. Groups do not wait for each other."""
    task = ShardedTask(cluster, servers[:2], servers[2], "two")
    task.create(seed=1)
    try:
        task.start()
        time.sleep(1)
        # t1
        task.alter(task.shards("orders", 0), "ADD COLUMN c1 INT NOT NULL DEFAULT 7 AFTER customer", adds="c1")
        task.alter(task.shards("events", 1), "ADD COLUMN e1 INT, ADD INDEX (kind)", adds="e1")
        shown = task.wait_lock("orders", "waiting", "source-2")
        assert (shown["owner"], shown["synced"], shown["unsynced"]) == ("source-1", ["source-1"], ["source-2"])
        assert shown["DDLs"] == ["ALTER TABLE `two`.`orders` ADD COLUMN `c1` INT NOT NULL DEFAULT 7 AFTER `customer`"]
        assert task.wait_lock("events", "waiting", "source-1")["owner"] == "source-2"
        # t2 to t3: the shard without the DDL continues, the rows of the other one are held back.
        held = probe(task.shards("orders", 0)[0], 1).format("two")
        goes_on = probe(task.shards("orders", 1)[0], 2).format("two")
        arrives(servers[2], goes_on, "rows of the shard without the DDL arrive")
        wait_until(lambda: held_rows(task).get("source-1", 0) > 0, "rows of the shard with the DDL are read", step=0.3)
        time.sleep(1)
        assert servers[2].execute(held) == []
        assert not task.executed()
        waiting = cluster.subtask("two", "source-1")
        assert waiting["unresolvedDDLLockID"] == task.lock_id("orders")
        assert waiting["sync"]["blockDDLOwner"] == "source-1"
        assert waiting["sync"]["blockingDDLs"] == shown["DDLs"]
        assert not held_rows(task).get("source-2")
        # t3
        task.alter(task.shards("orders", 1), "add `c1` int not null default 7 after customer", adds="c1")
        arrives(servers[2], held, "rows that were held back arrive")
        assert "events" in task.locks(), "the other group still waits"
        task.alter(task.shards("events", 0), "ADD COLUMN e1 INT, ADD INDEX (kind)", adds="e1")
        # t4
        task.wait_no_lock()
        time.sleep(1)
        task.finish()
    finally:
        task.abandon()
    task.assert_executed_once(
        "`orders` ADD COLUMN c1 INT NOT NULL DEFAULT 7 AFTER customer", "`events` ADD COLUMN e1 INT, ADD INDEX (kind)"
    )
    cluster.ok("stop-task", "two")


def test_one_upstream_with_two_tables(cluster: Cluster, servers: Servers) -> None:
    """One table is two DDLs ahead of the other; there is no lock before both have run the same DDLs."""
    task = ShardedTask(cluster, servers[:1], servers[2], "one", tables=2)
    task.create(seed=2)
    ahead, behind = task.shards("orders")
    steps = [("ADD COLUMN c1 INT NOT NULL DEFAULT 1", "c1", ""), ("ADD COLUMN c2 INT", "c2", "")]
    try:
        task.start()
        time.sleep(1)
        for clause, adds, drops in steps:
            task.alter([ahead], clause, adds=adds, drops=drops)
            time.sleep(0.5)
        held, goes_on = probe(ahead, 2).format("one"), probe(behind, 1).format("one")
        arrives(servers[2], goes_on, "rows of the table without the DDL arrive")
        wait_until(lambda: any(int(one["heldRows"]) for one in unresolved(task)), "rows are held back", step=0.3)
        [group] = unresolved(task)
        assert (group["target"], group["waitingDDLs"]) == ("`one`.`orders`", 1)
        assert (group["synced"], group["unsynced"]) == (["`one_11`.`orders_1`"], ["`one_11`.`orders_2`"])
        assert servers[2].execute(held) == []
        assert task.locks() == {}
        for clause, adds, drops in steps:
            task.alter([behind], clause, adds=adds, drops=drops)
            time.sleep(0.5)
        arrives(servers[2], held, "rows that were held back arrive")
        task.finish()
    finally:
        task.abandon()
    task.assert_executed_once(*(f"`orders` {clause}" for clause, _, _ in steps))
    cluster.ok("stop-task", "one")


def test_eight_shards_at_their_own_pace(cluster: Cluster, servers: Servers) -> None:
    """Two upstreams × two schemas × two tables, each running the same DDLs at its own times."""
    task = ShardedTask(cluster, servers[:2], servers[2], "eight", schemas=2, tables=2)
    task.create(seed=3)
    rng = random.Random(3)
    plan = {
        "orders": [
            ("ADD COLUMN c1 INT NOT NULL DEFAULT 3", "c1", ""),
            ("MODIFY COLUMN c1 BIGINT NOT NULL DEFAULT 4", "", ""),
            ("ADD COLUMN c2 INT, ADD INDEX (customer)", "c2", ""),
            ("DROP COLUMN c1", "", "c1"),
        ],
        "events": [("ADD COLUMN e1 INT", "e1", "")],
    }
    turns = [(group, shard) for group in plan for shard in task.shards(group) for _ in plan[group]]
    rng.shuffle(turns)
    done: dict[str, int] = {}
    try:
        task.start()
        for group, shard in turns:
            clause, adds, drops = plan[group][done.get(shard.name, 0)]
            done[shard.name] = done.get(shard.name, 0) + 1
            task.alter([shard], clause, adds=adds, drops=drops)
            time.sleep(rng.uniform(0, 0.2))
        task.wait_no_lock()
        time.sleep(1)
        task.finish()
    finally:
        task.abandon()
    task.assert_executed_once(*(f"`{group}` {clause}" for group in plan for clause, _, _ in plan[group]))
    cluster.ok("stop-task", "eight")


def test_operators_resolve_a_conflict_and_a_shard_that_never_runs_the_ddl(cluster: Cluster, servers: Servers) -> None:
    task = ShardedTask(cluster, servers[:2], servers[2], "ways")
    task.create(seed=4)
    one, two = task.shards("orders")
    lock = task.lock_id("orders")
    try:
        task.start()
        # Different DDLs: both are shown side by side, and each is executed once after an order.
        task.alter([one], "ADD COLUMN c1 INT NOT NULL DEFAULT 1", adds="c1")
        task.wait_lock("orders", "waiting", "source-2")
        task.alter([two], "ADD COLUMN c2 INT NOT NULL DEFAULT 2", adds="c2")
        problem = task.wait_lock("orders", "conflict")["problem"]
        assert "code=38016" in problem
        sides = next(line for line in problem.splitlines() if line.startswith("! "))
        assert "ADD COLUMN `c1` INT NOT NULL DEFAULT 1" in sides.split("|")[0]
        assert "ADD COLUMN `c2` INT NOT NULL DEFAULT 2" in sides.split("|")[1]
        assert not task.executed()
        ordered(cluster.dmctl("shard-ddl-lock", "unlock", lock, "--owner", "source-1", "--action", "exec"))
        task.wait_no_lock()
        # Now the shards run their missing DDLs, which the target has: all only skip.
        task.alter([one], "ADD COLUMN c2 INT NOT NULL DEFAULT 2", adds="c2")
        task.alter([two], "ADD COLUMN c1 INT NOT NULL DEFAULT 1", adds="c1")
        task.wait_lock("orders", "conflict")
        executed = task.executed()
        assert cluster.dmctl("shard-ddl-lock", "unlock", lock, "--owner", "source-1")["msg"]
        task.wait_no_lock()
        # A shard does not run the DDL for now: the others continue, and it skips the DDL later.
        task.alter([one], "ADD COLUMN c3 INT NOT NULL DEFAULT 3", adds="c3")
        task.wait_lock("orders", "waiting", "source-2")
        held = probe(one, 1).format("ways")
        told = ordered(cluster.dmctl("unlock-ddl-lock", lock))
        assert not told or "source-2 did not wait" in told
        arrives(servers[2], held, "rows that were held back arrive")
        arrives(servers[2], probe(two, 2).format("ways"), "rows without the column arrive with its default")
        assert task.locks()["orders"]["unsynced"] == ["source-2"]
        task.alter([two], "ADD COLUMN c3 INT NOT NULL DEFAULT 3", adds="c3")
        task.wait_no_lock()
        task.finish()
    finally:
        task.abandon()
    assert set(task.executed().values()) == {1}, (executed, task.executed())
    cluster.ok("stop-task", "ways")


def test_a_ddl_that_the_target_refuses_is_shown_by_both_sources_until_it_is_replaced(
    cluster: Cluster, servers: Servers
) -> None:
    task = ShardedTask(cluster, servers[:2], servers[2], "refused", rows=1)
    task.create(seed=5)
    shards = task.shards("orders")
    for shard in shards:
        # Unique in each shard, not in the merged table.
        shard.server.execute(f"UPDATE {shard.name} SET customer = 7")

    def told(source: str) -> str:
        return str(cluster.subtask("refused", source)["result"])

    cluster.ok("start-task", cluster.write_task(task.text(), "refused.yaml"))
    cluster.wait_stage("refused", "Running", unit="Sync")
    task.alter(shards, "ADD UNIQUE INDEX one (customer)")
    for source in ("source-1", "source-2"):
        wait_until(lambda source=source: "Duplicate entry" in told(source), f"{source} shows it")  # type: ignore[misc]
    lock = task.locks()["orders"]
    assert (lock["phase"], lock["waitsFor"]) == ("executing", [lock["owner"]])
    assert "Duplicate entry" in lock["problem"]
    owner = lock["owner"]
    other = next(source for source in ("source-1", "source-2") if source != owner)
    assert cluster.subtask("refused", other)["stage"] == "Running"
    # The commands from the error, for both sources.
    command = re.search(rf"dmctl binlog replace refused -s {owner} -b (\S+) ", told(other))
    assert command is not None
    assert command[0] in told(owner)
    name = task.shards("orders", int(owner[-1]) - 1)[0].name
    instead = f"ALTER TABLE {name} ADD INDEX one (customer)"
    cluster.ok("binlog", "replace", "refused", "-s", owner, "-b", command[1], instead)
    task.wait_no_lock()
    cluster.wait_stage("refused", "Running", unit="Sync")
    assert "Duplicate entry" not in told(owner) + told(other)
    for shard in shards:
        found = probe(shard, 1).format("refused")
        arrives(servers[2], found, "both sources go on")
    cluster.ok("stop-task", "refused")
