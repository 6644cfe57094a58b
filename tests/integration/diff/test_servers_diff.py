"""Hazard: two servers are compared without a task, and a row on its way is reported, or a fault is not.

The users may only read: a comparison that writes to a server fails.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from deploy.local.mysql import SQLServer
from deploy.local.process import wait_until
from dm_worker.diff import methods
from dm_worker.diff import run as run_module
from dm_worker.diff.progress import ComparedChunk
from dm_worker.diff.run import DiffRun
from dm_worker.diff.servers_diff import ServersDiff, ServersDiffOrder, ServersDiffs
from dm_worker.diff.standing import StandingDifferences
from dm_worker.diff.state_table import DiffSettings
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SubTaskConfig
from pkg.config.servers_diff import load_servers_diff
from pkg.errors import Code, DMError
from pkg.mysql.names import TableId
from pkg.pb import dmworker_pb2 as pb
from tests.harness.beside import beside

USER = "'reading'@'127.0.0.1'"
ROWS = 300
FILE = """\
name: shops
target-database: {{host: 127.0.0.1, port: {target}, user: reading, password: pw}}
mysql-instances:
- {{source-id: s1, from: {{host: 127.0.0.1, port: {first}, user: reading, password: pw}}, route-rules: [m], block-allow-list: l}}
- {{source-id: s2, from: {{host: 127.0.0.1, port: {second}, user: reading, password: pw}}, route-rules: [m], block-allow-list: l}}
routes:
  m: {{schema-pattern: "s_*", target-schema: shop}}
block-allow-list:
  l: {{do-dbs: ["s_*"]}}
"""  # noqa: E501


@pytest.fixture
def sides(
    mariadb_upstream: SQLServer, mysql_upstream: SQLServer, target: SQLServer
) -> Iterator[tuple[SQLServer, SQLServer, SQLServer]]:
    """`s_1`.`t` and `s_2`.`t` are merged into `shop`.`t`; `s_1`.`k` has no key. All rows are equal."""
    servers = (mariadb_upstream, mysql_upstream, target)
    for server in servers:
        server.execute(
            f"DROP USER IF EXISTS {USER}", f"CREATE USER {USER} IDENTIFIED BY 'pw'", f"GRANT SELECT ON *.* TO {USER}"
        )
    for server, schema, first in ((mariadb_upstream, "s_1", 0), (mysql_upstream, "s_2", ROWS)):
        server.execute(f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t {COLUMNS}", rows(f"{schema}.t", first))
    mariadb_upstream.execute("CREATE TABLE s_1.k (a INT, b INT)", "INSERT INTO s_1.k VALUES (1, 1), (1, 1), (2, 2)")
    target.execute(
        "CREATE DATABASE shop", f"CREATE TABLE shop.t {COLUMNS}", rows("shop.t", 0), rows("shop.t", ROWS),
        "CREATE TABLE shop.k (a INT, b INT)", "INSERT INTO shop.k VALUES (1, 1), (1, 1), (2, 2)",
    )  # fmt: skip
    yield servers
    for server in servers:
        server.execute(f"DROP USER IF EXISTS {USER}")


COLUMNS = "(id INT PRIMARY KEY, v INT NOT NULL, hot INT NOT NULL)"


def rows(table: str, first: int) -> str:
    return f"INSERT INTO {table} VALUES {', '.join(f'({n}, {n}, 0)' for n in range(first, first + ROWS))}"


@pytest.fixture
def order(sides: tuple[SQLServer, SQLServer, SQLServer], tmp_path: Path) -> Callable[..., ServersDiffOrder]:
    first, second, target = sides

    def made(run: str = "r1", settle: float = 1.0, **settings: object) -> ServersDiffOrder:
        config = load_servers_diff(FILE.format(first=first.port, second=second.port, target=target.port))
        chosen = DiffSettings(("s1", "s2"), **settings)  # type: ignore[arg-type]
        return ServersDiffOrder(config.name, run, time.time(), config.upstreams, chosen, settle, str(tmp_path))

    return made


@pytest.fixture
def diffs(spark: SparkEngine) -> Iterator[ServersDiffs]:
    made = ServersDiffs(spark)
    yield made
    made.close()


def ended(diff: ServersDiff) -> dict[str, pb.DiffTableStatus]:
    """The tables once the comparison has ended on all sources."""
    wait_until(lambda: not diff.is_running, "the comparison has ended", 240, step=0.1)
    return {table.target: table for source in diff.status() for table in source.tables}


def keys(diff: ServersDiff) -> set[tuple[str, str]]:
    paths = [source.differences for source in diff.status() if source.differences]
    lines = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    return {(one["kind"], one["key"].get("id", "")) for one in lines}


def test_equal_servers_are_equal_and_nothing_is_written(
    diffs: ServersDiffs, order: Callable[..., ServersDiffOrder], sides: tuple[SQLServer, SQLServer, SQLServer]
) -> None:
    found = ended(diffs.start_or_continue(order(chunk_rows=50)))
    assert {name: table.state for name, table in found.items()} == {"`shop`.`t`": "equal", "`shop`.`k`": "equal"}
    assert found["`shop`.`t`"].rows == 2 * ROWS
    assert found["`shop`.`t`"].chunks > 3
    assert list(found["`shop`.`t`"].sources) == ["s1: `s_1`.`t`", "s2: `s_2`.`t`"]
    for server in sides:
        assert server.execute("SHOW DATABASES LIKE 'dm%'") in ([], ())


def test_exactly_the_faults_are_found_while_rows_are_on_their_way(
    diffs: ServersDiffs, order: Callable[..., ServersDiffOrder], sides: tuple[SQLServer, SQLServer, SQLServer]
) -> None:
    """The writer's rows arrive at the target after half a second, which is less than the settle time."""
    first, _, target = sides
    target.execute(
        "DELETE FROM shop.t WHERE id = 7", "UPDATE shop.t SET v = -1 WHERE id IN (8, 9)",
        "INSERT INTO shop.t VALUES (9999, 1, 1)", "DELETE FROM shop.k WHERE a = 1 LIMIT 1",
    )  # fmt: skip
    with writer(first, target, [9, 10, 11]):
        diff = diffs.start_or_continue(order(settle=4.0))
        found = ended(diff)
    shown = found["`shop`.`t`"]
    assert (shown.state, shown.missing, shown.extra, shown.changed) == ("different", 1, 1, 2)
    assert (found["`shop`.`k`"].state, found["`shop`.`k`"].doubled) == ("different", 1)
    assert keys(diff) == {("missing", "7"), ("changed", "8"), ("changed", "9"), ("extra", "9999"), ("doubled", "")}


def test_a_table_that_lacks_a_column_of_the_upstream_is_never_equal(
    diffs: ServersDiffs, order: Callable[..., ServersDiffOrder], sides: tuple[SQLServer, SQLServer, SQLServer]
) -> None:
    """Neither is one with a column that only some of the merged tables have; a column of the target alone is no
    difference."""
    first, _, target = sides
    target.execute("ALTER TABLE shop.k DROP COLUMN b", "ALTER TABLE shop.t ADD COLUMN more INT, ADD COLUMN some INT")
    first.execute("ALTER TABLE s_1.t ADD COLUMN some INT DEFAULT 5")
    found = ended(diffs.start_or_continue(order()))
    assert {name: (table.state, table.reason) for name, table in found.items()} == {
        "`shop`.`k`": ("not compared", "not all columns were compared: `b`: only the upstream has it"),
        "`shop`.`t`": ("not compared", "not all columns were compared: `some`: not all upstream tables have it"),
    }
    first.execute("ALTER TABLE s_1.t DROP COLUMN some")
    target.execute("DELETE FROM shop.k LIMIT 1")
    found = ended(diffs.start_or_continue(order("r2")))
    assert {name: table.state for name, table in found.items()} == {"`shop`.`k`": "different", "`shop`.`t`": "equal"}


def test_a_table_that_begins_to_feed_the_target_is_compared_too(
    diffs: ServersDiffs,
    order: Callable[..., ServersDiffOrder],
    sides: tuple[SQLServer, SQLServer, SQLServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is created, with its rows on both sides, when some chunks of the merged table are compared already."""
    first, _, target = sides
    target.execute("DELETE FROM shop.t WHERE id = 7")
    compared = DiffRun._round

    def create_before_the_second(run: DiffRun) -> tuple[int, int]:
        if not first.execute("SHOW DATABASES LIKE 's\\_3'") and any(one.done for one in run.progress.tables.values()):
            first.execute("CREATE DATABASE s_3", f"CREATE TABLE s_3.t {COLUMNS}", rows("s_3.t", 10_000))
            target.execute(rows("shop.t", 10_000))
        return compared(run)

    monkeypatch.setattr(DiffRun, "_round", create_before_the_second)
    monkeypatch.setattr(run_module, "_PLANNED_AHEAD", 1)
    monkeypatch.setattr(run_module, "_MOST_CHUNKS", 1)
    diff = diffs.start_or_continue(order(chunk_rows=50))
    shown = ended(diff)["`shop`.`t`"]
    assert (shown.state, shown.missing, shown.extra, shown.changed) == ("different", 1, 0, 0)
    assert shown.rows == 3 * ROWS
    assert keys(diff) == {("missing", "7")}


@contextmanager
def writer(upstream: SQLServer, target: SQLServer, ids: list[int], lag: float = 0.5) -> Iterator[None]:
    """Updates rows of the upstream, and the same at the target ``lag`` seconds later; then both are equal as long."""

    def write(stop: threading.Event) -> None:
        here, there = upstream.connect(autocommit=True), target.connect(autocommit=True)
        number = 0
        with here, there, here.cursor() as first, there.cursor() as second:
            while not stop.is_set():
                number += 1
                wanted = ", ".join(map(str, ids))
                first.execute(f"UPDATE s_1.t SET hot = {number} WHERE id IN ({wanted})")
                stop.wait(lag)
                second.execute(f"UPDATE shop.t SET hot = {number} WHERE id IN ({wanted})")
                # Else a look would find equal rows only by chance, in the moment between two updates.
                stop.wait(lag)

    with beside(write):
        yield


def test_a_row_that_never_rests_is_not_called_equal_and_not_called_different(
    diffs: ServersDiffs,
    order: Callable[..., ServersDiffOrder],
    sides: tuple[SQLServer, SQLServer, SQLServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target never has what the upstream has: it follows so late that each look sees two values."""
    first, _, target = sides
    monkeypatch.setattr(methods, "StandingDifferences", partial(StandingDifferences, most=6))
    target.execute("UPDATE shop.t SET hot = -1 WHERE id = 5", "DELETE FROM shop.t WHERE id = 6")

    def write(stop: threading.Event) -> None:
        conn = first.connect(autocommit=True)
        with conn, conn.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("UPDATE s_1.t SET hot = hot + 1 WHERE id = 5")

    with beside(write):
        diff = diffs.start_or_continue(order())
        found = ended(diff)["`shop`.`t`"]
    assert found.state == "not compared"
    assert "1 rows had other values at each of 6 looks" in found.reason
    assert keys(diff) == {("missing", "6")}


def test_what_a_stopped_process_did_is_not_done_again(
    spark: SparkEngine, order: Callable[..., ServersDiffOrder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after the first table; a start with the same file continues, under the old name of the run."""
    noted = threading.Event()
    plain = DiffRun._take

    def take(run: DiffRun, *args: object) -> None:
        plain(run, *args)  # type: ignore[arg-type]
        if any(table.done for table in run.progress.tables.values()):
            noted.set()
            run._stop.wait(60)

    with monkeypatch.context() as slow:
        slow.setattr(DiffRun, "_take", take)
        before = ServersDiffs(spark)
        before.start_or_continue(order("r1", chunk_rows=100))
        assert noted.wait(120)
        before.close()
    after = ServersDiffs(spark)
    begun: list[dict[TableId, dict[int, ComparedChunk]]] = []
    work = DiffRun.work

    def noting(run: DiffRun) -> None:
        begun.append({name: dict(table.done) for name, table in run.progress.tables.items()})
        work(run)

    monkeypatch.setattr(DiffRun, "work", noting)
    try:
        diff = after.start_or_continue(order("r2", chunk_rows=100))
        assert {source.run for source in diff.status()} == {"r1"}
        found = ended(diff)
        # Another file, another comparison.
        other = after.start_or_continue(order("r3", chunk_rows=50))
        assert {source.run for source in other.status()} == {"r3"}
        ended(other)
    finally:
        after.close()
    assert {table.state for table in found.values()} == {"equal"}
    assert any(begun[0].values())


def test_a_stop_ends_it_for_good(diffs: ServersDiffs, order: Callable[..., ServersDiffOrder]) -> None:
    diff = diffs.start_or_continue(order(bytes_per_second=1, chunk_rows=10))
    with pytest.raises(DMError, match="a comparison shops is running"):
        diffs.start_or_continue(order())
    diff.stop()
    assert {source.stage for source in diff.status()} == {"Stopped"}
    with pytest.raises(DMError, match="has ended already"):
        diff.stop()
    again = diffs.start_or_continue(order("r2", bytes_per_second=1, chunk_rows=10))
    assert {source.run for source in again.status()} == {"r2"}
    again.stop()


def changed(order: ServersDiffOrder, change: Callable[[SubTaskConfig], SubTaskConfig]) -> ServersDiffOrder:
    return replace(order, upstreams=tuple(map(change, order.upstreams)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: replace(one, from_=replace(one.from_, port=1)), r"\(s1\)"),
        (lambda one: replace(one, to=replace(one.to, port=1)), r"\(the target\)"),
        (lambda one: replace(one, from_=replace(one.from_, password="wrong")), r"denied.*\(s1\)"),
    ],
    ids=["no upstream", "no target", "wrong password"],
)
def test_a_server_that_cannot_be_used_is_named_at_once(
    diffs: ServersDiffs,
    order: Callable[..., ServersDiffOrder],
    change: Callable[[SubTaskConfig], SubTaskConfig],
    message: str,
) -> None:
    with pytest.raises(DMError, match=message) as raised:
        diffs.start_or_continue(changed(order(), change))
    assert raised.value.kind is not Code.DiffRefused
    with pytest.raises(DMError, match="has no comparison shops"):
        diffs.named("shops")


def test_missing_rights_and_tables_have_a_state_and_a_reason(
    diffs: ServersDiffs, order: Callable[..., ServersDiffOrder], sides: tuple[SQLServer, SQLServer, SQLServer]
) -> None:
    first, _, target = sides
    first.execute(f"REVOKE SELECT ON *.* FROM {USER}", f"GRANT SELECT ON s_1.* TO {USER}")
    target.execute("DROP TABLE shop.k")
    found = ended(diffs.start_or_continue(order()))
    assert {name: table.state for name, table in found.items()} == {
        "`shop`.`t`": "equal", "`shop`.`k`": "not compared", "`*`.`*`": "not compared",
    }  # fmt: skip
    assert "lacks SELECT on s_*" in found["`*`.`*`"].reason
    assert "`shop`.`k`" in found["`shop`.`k`"].reason
