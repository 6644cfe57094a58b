"""`dmctl validation` beside running tasks: through the DDL of merged shards, a failover and a transfer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import HarnessError, wait_until
from tests.harness.sharded import Servers, ShardedTask, arrives

TASK = """\
name: checked
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: s1, block-allow-list: mine, validator-config-name: compare}}]
block-allow-list: {{mine: {{do-dbs: [checked]}}}}
validators: {{compare: {{mode: {mode}, validate-interval: 1s, check-interval: 1s}}}}
"""


def status(cluster: Cluster, task: str) -> list[dict[str, Any]]:
    """The validators; none while a worker does not answer."""
    try:
        found: list[dict[str, Any]] = cluster.dmctl("validation", "status", task)["validators"] or []
    except HarnessError:  # dmctl exits with 1
        return []
    return found


def errors(cluster: Cluster, task: str) -> list[tuple[str, str]]:
    """Kind and state of all errors."""
    found = cluster.dmctl("validation", "show-error", "--error", "all", task)["error"] or []
    return [(one["errorType"], one["status"]) for one in found]


def wait_compared(cluster: Cluster, task: str, sources: int) -> None:
    """Until all that is applied is compared; no writer may run."""

    def compared() -> bool:
        cluster.wait_synced(task)
        applied = {one["sync"]["syncerBinlog"] for one in cluster.subtasks(task).values()}
        found = status(cluster, task)
        assert not [one for one in found if one["result"]], found
        return (
            len(found) == sources
            and {one["validatorBinlog"] for one in found} == applied
            and all(one["pendingRowsStatus"] == "insert/update/delete: 0/0/0" for one in found)
        )

    try:
        wait_until(compared, "all is compared", 120, step=0.5)
    except HarnessError as exc:
        raise HarnessError(f"{exc}\n{status(cluster, task)}\n{cluster.logs()}") from None


@pytest.mark.target_with("triggers")
def test_merged_shards_are_compared_through_their_ddl_and_held_back_rows(
    free_cluster: Cluster, servers: Servers
) -> None:
    for number, server in enumerate(servers[:2], start=1):
        free_cluster.add_source(server, f"source-{number}", gtid=True)
    task = ShardedTask(free_cluster, servers[:2], servers[2], "valid", rows=100)
    task.create(seed=31)
    first, second = (task.shards("orders", number) for number in (0, 1))
    try:
        task.start()
        free_cluster.ok("validation", "start", "valid")
        task.alter(first, "ADD COLUMN c1 INT NOT NULL DEFAULT 7 AFTER customer", adds="c1")
        task.wait_lock("orders", "waiting", "source-2")
        task.alter(second, "ADD COLUMN c1 INT NOT NULL DEFAULT 7 AFTER customer", adds="c1")
        task.wait_no_lock()
        task.finish()
    finally:
        task.abandon()
    wait_compared(free_cluster, "valid", 2)
    assert errors(free_cluster, "valid") == []
    # With the columns of after the DDL, a lost row is found.
    shard = second[0]
    servers[2].execute("CREATE TRIGGER valid.lose BEFORE UPDATE ON valid.orders FOR EACH ROW SET NEW.c1 = OLD.c1")
    ((lost,),) = shard.server.execute(f"SELECT MAX(id) FROM {shard.name}")
    shard.server.execute(f"UPDATE {shard.name} SET c1 = c1 + 1 WHERE id = {lost}")
    wait_compared(free_cluster, "valid", 2)
    # The sweep of the first source may have found the row as well.
    assert errors(free_cluster, "valid") in ([("Column data not matched", "NewErr")] * n for n in (1, 2))


@pytest.fixture
def checked(free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer) -> Cluster:
    """A task with one source, and a worker to spare."""
    start_checked(free_cluster, mariadb_upstream, target, "full")
    return free_cluster


def start_checked(cluster: Cluster, upstream: MariaDBServer, target: SQLServer, mode: str) -> None:
    upstream.execute(
        "CREATE DATABASE checked", "CREATE TABLE checked.t (id INT PRIMARY KEY, v INT NOT NULL, c VARCHAR(20))"
    )
    insert(upstream, 0)
    cluster.add_source(upstream, "s1")
    cluster.ok("start-task", cluster.write_task(TASK.format(port=target.port, mode=mode), "checked.yaml"))
    cluster.wait_stage("checked", "Running", unit="Sync")


def insert(server: SQLServer, first: int) -> None:
    server.execute("INSERT INTO checked.t VALUES " + ", ".join(f"({first + n}, {n}, 'c{n}')" for n in range(20)))


def workers(cluster: Cluster) -> list[dict[str, str]]:
    (listed,) = cluster.dmctl("list-member", "--worker")["members"]
    found: list[dict[str, str]] = listed["worker"]["workers"]
    return found


def bound(cluster: Cluster) -> str:
    """The worker that has the source; '' for none."""
    return next((one["name"] for one in workers(cluster) if one["source"] == "s1"), "")


@pytest.mark.target_with("triggers")
def test_errors_and_comparison_go_on_after_a_failover_and_a_transfer(
    checked: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    insert(mariadb_upstream, 100)
    wait_compared(checked, "checked", 1)
    assert errors(checked, "checked") == []
    target.execute(
        "CREATE TRIGGER checked.lose BEFORE UPDATE ON checked.t FOR EACH ROW SET NEW.v = IF(NEW.id = 3, 3, NEW.v)"
    )
    mariadb_upstream.execute("UPDATE checked.t SET v = 77 WHERE id < 10")
    wait_compared(checked, "checked", 1)
    assert errors(checked, "checked") == [("Column data not matched", "NewErr")]

    victim = next(worker for worker in checked.workers if worker.member == bound(checked))
    victim.kill()
    mariadb_upstream.execute("UPDATE checked.t SET v = 78 WHERE id BETWEEN 100 AND 110")
    wait_until(lambda: bound(checked) not in ("", victim.member), "the other worker has the source", 120, step=0.5)
    arrives(target, "SELECT id FROM checked.t WHERE v = 78", "replication goes on")
    wait_compared(checked, "checked", 1)
    assert errors(checked, "checked") == [("Column data not matched", "NewErr")]

    victim.start()
    wait_until(lambda: all(one["stage"] != "offline" for one in workers(checked)), "the worker is back", 120, step=0.5)
    checked.ok("transfer-source", "s1", victim.member)
    mariadb_upstream.execute("UPDATE checked.t SET v = 79 WHERE id BETWEEN 100 AND 110")
    arrives(target, "SELECT id FROM checked.t WHERE v = 79", "replication goes on")
    wait_compared(checked, "checked", 1)
    assert errors(checked, "checked") == [("Column data not matched", "NewErr")]

    target.execute("DROP TRIGGER checked.lose", "UPDATE checked.t SET v = 77 WHERE id = 3")
    wait_until(
        lambda: errors(checked, "checked") == [("Column data not matched", "ResolvedErr")],
        "the repaired row is resolved by itself",
        60,
        step=0.5,
    )


def wait_errors(cluster: Cluster, task: str, *wanted: tuple[str, str]) -> None:
    """Until the task has these errors, in any order."""
    found: list[tuple[str, str]] = []

    def reached() -> bool:
        try:
            found[:] = errors(cluster, task)
        except HarnessError:  # no worker answers
            return False
        return sorted(found) == sorted(wanted)

    wait_until(reached, lambda: f"errors are {wanted}: {found} {status(cluster, task)}", 180, step=0.5)


def test_the_sweep_finds_foreign_writes_also_after_a_failover(
    checked: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    target.execute("UPDATE checked.t SET c = 'foreign' WHERE id = 3")
    wait_errors(checked, "checked", ("Column data not matched", "NewErr"))

    victim = next(worker for worker in checked.workers if worker.member == bound(checked))
    victim.kill()
    target.execute("DELETE FROM checked.t WHERE id = 4", "INSERT INTO checked.t VALUES (500, 1, 'foreign')")
    insert(mariadb_upstream, 100)
    wait_errors(
        checked,
        "checked",
        ("Column data not matched", "NewErr"),
        ("Expected rows not exist", "NewErr"),
        ("Deleted rows exist", "NewErr"),
    )
    (shown,) = status(checked, "checked")
    assert shown["sweepStatus"].startswith("last whole round: "), shown

    target.execute("UPDATE checked.t SET c = 'c3' WHERE id = 3", "DELETE FROM checked.t WHERE id = 500")
    wait_errors(
        checked,
        "checked",
        ("Column data not matched", "ResolvedErr"),
        ("Expected rows not exist", "NewErr"),
        ("Deleted rows exist", "ResolvedErr"),
    )


@pytest.fixture
def logging_target() -> Iterator[SQLServer]:
    """A target with a binlog."""
    server = MariaDBServer()
    server.start()
    yield server
    server.cleanup()


def test_the_targets_binlog_shows_all_foreign_writes_also_those_while_no_worker_lived(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, logging_target: SQLServer
) -> None:
    start_checked(free_cluster, mariadb_upstream, logging_target, "fast")

    def reads() -> bool:
        found = status(free_cluster, "checked")
        return bool(found) and found[0]["foreignWrites"].startswith("target's binlog, read up to")

    wait_until(reads, lambda: f"the binlog is read: {status(free_cluster, 'checked')}", 120, step=0.5)
    changed, missing, extra = (
        (kind, "NewErr") for kind in ("Column data not matched", "Expected rows not exist", "Deleted rows exist")
    )
    logging_target.execute("UPDATE checked.t SET c = 'foreign' WHERE id = 3")
    wait_errors(free_cluster, "checked", changed)

    victim = next(worker for worker in free_cluster.workers if worker.member == bound(free_cluster))
    logging_target.execute("DELETE FROM checked.t WHERE id = 4")
    victim.kill()
    logging_target.execute(
        "INSERT INTO checked.t VALUES (500, 1, 'foreign')", "UPDATE checked.t SET v = v WHERE id < 9"
    )
    insert(mariadb_upstream, 100)
    wait_errors(free_cluster, "checked", changed, missing, extra)
    arrives(logging_target, "SELECT id FROM checked.t WHERE id = 110", "replication goes on")
    logging_target.execute("UPDATE checked.t SET c = 'foreign' WHERE id = 110", "DELETE FROM checked.t WHERE id = 111")
    wait_errors(free_cluster, "checked", changed, changed, missing, missing, extra)
    wait_until(
        lambda: "all compared" in status(free_cluster, "checked")[0]["foreignWrites"],
        lambda: f"all is compared: {status(free_cluster, 'checked')}",
    )


def test_a_start_by_time_compares_what_was_applied_before(
    checked: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    checked.ok("validation", "stop", "checked")
    insert(mariadb_upstream, 100)
    checked.wait_synced("checked")
    target.execute("DELETE FROM checked.t WHERE id = 105")
    start = ("validation", "start", "checked", "--mode", "fast", "--start-time")
    with pytest.raises(HarnessError, match="20057"):
        checked.ok(*start, "2037-01-01 00:00:00")
    checked.ok(*start, "2020-01-01 00:00:00")
    wait_errors(checked, "checked", ("Expected rows not exist", "NewErr"))
    wait_until(
        lambda: any(
            "all changes from (mysql-bin." in note for one in status(checked, "checked") for note in one["notes"]
        ),
        lambda: f"it is done: {status(checked, 'checked')}",
        60,
        step=0.5,
    )


class Load:
    """Writes until it is stopped: new rows, a hot row, deleted rows. ``changes``: how many row changes so far."""

    def __init__(self, upstream: SQLServer) -> None:
        self._upstream = upstream
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._failure: BaseException | None = None
        self.changes = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
        assert self._failure is None, self._failure

    def more(self, changes: int) -> None:
        """Waits until so many changes more are written."""
        wanted = self.changes + changes
        wait_until(lambda: self.changes >= wanted, f"{changes} changes are written", 120, step=0.05)

    def _main(self) -> None:
        first = 1000
        try:
            while not self._stop.is_set():
                insert(self._upstream, first)
                self._upstream.execute(
                    "UPDATE checked.t SET v = v + 1 WHERE id = 0", f"DELETE FROM checked.t WHERE id = {first}"
                )
                first += 20
                self.changes += 22
        except HarnessError as exc:
            self._failure = exc


def _rows(text: str) -> int:
    """The sum of "insert/update/delete: 1/2/3"."""
    return sum(map(int, text.rpartition(":")[2].split("/")))


@pytest.mark.timeout(600)
def test_what_waits_for_a_stopped_target_is_neither_lost_nor_reported(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, new_mariadb: Callable[..., MariaDBServer]
) -> None:
    """A hundred times as much waits as may stay in memory. While the target is away nothing is applied, so no more
    waits, and the files do not grow."""
    target, most = new_mariadb(), 10
    mariadb_upstream.execute(
        "CREATE DATABASE checked", "CREATE TABLE checked.t (id INT PRIMARY KEY, v INT NOT NULL, c VARCHAR(20))"
    )
    insert(mariadb_upstream, 0)
    free_cluster.add_source(mariadb_upstream, "s1")
    text = TASK.format(port=target.port, mode="full").replace(
        "validate-interval: 1s", f"validate-interval: 60s, sweep-rate: 0, max-pending-row-count: {most}"
    )
    free_cluster.ok("start-task", free_cluster.write_task(text, "checked.yaml"))
    free_cluster.wait_stage("checked", "Running", unit="Sync")
    load = Load(mariadb_upstream)
    log = free_cluster.worker_of("s1").log
    with load.running():
        shown: dict[str, Any] = {}

        def much_waits() -> bool:
            shown.update(*status(free_cluster, "checked"))
            return bool(shown) and _rows(shown["pendingRowsStatus"]) > 100 * most

        wait_until(much_waits, lambda: f"rows wait: {shown}", 120, step=0.1)
        lost = _lost_row(mariadb_upstream, target)
        (shown,) = status(free_cluster, "checked")
        assert _rows(shown["pendingRowsStatus"]) > 100 * most, "a round came between"
        target.stop()
        before = log.read_text().count("validation: a step failed")
        load.more(600)
        wait_until(lambda: log.read_text().count("validation: a step failed") > before + 2, "rounds fail", 120)
        (shown,) = status(free_cluster, "checked")
        assert (shown["stage"], shown["result"], _rows(shown["errorRowsStatus"])) == ("Running", None, 0)
        waiting, size = _rows(shown["pendingRowsStatus"]), spilled(free_cluster)
        assert waiting > 100 * most
        assert 0 < size < _MOST_BYTES * waiting
        load.more(600)
        (shown,) = status(free_cluster, "checked")
        assert (_rows(shown["pendingRowsStatus"]), spilled(free_cluster)) == (waiting, size)
        target.start()
        load.more(600)
    # All that waits is compared at once.
    name, position, *_ = mariadb_upstream.binlog_status()
    free_cluster.ok("validation", "update", "checked", "--cutover-binlog-pos", f"({name}, {position})")
    wait_compared(free_cluster, "checked", 1)
    (shown,) = status(free_cluster, "checked")
    assert _rows(shown["processedRowsStatus"]) == load.changes + 1, (load.changes, shown)
    assert spilled(free_cluster) == 0
    found = free_cluster.dmctl("validation", "show-error", "--error", "all", "checked")["error"]
    assert [(one["errorType"], one["srcData"]) for one in found] == [("Expected rows not exist", lost)]


#: Bytes of a change in the files, at most: here an event has few rows.
_MOST_BYTES = 400


def spilled(cluster: Cluster) -> int:
    """The bytes of the files in which changes wait."""
    return sum(path.stat().st_size for path in cluster.worker_of("s1").temporary.glob("dm-validator-*/*"))


def _lost_row(upstream: SQLServer, target: SQLServer) -> str:
    """A row that is replicated and then lost in the target, as errors show it."""
    upstream.execute("INSERT INTO checked.t VALUES (999, 9, 'lost')")
    arrives(target, "SELECT id FROM checked.t WHERE id = 999", "the row is replicated")
    target.execute("DELETE FROM checked.t WHERE id = 999")
    return '{"id": "999", "v": "9", "c": "lost"}'
