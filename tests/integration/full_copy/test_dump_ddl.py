# ruff: noqa: E501 - statements and rows read best on one line
"""Hazard: DDL between a dump's snapshot and the read of a table mixes tables, and replication runs it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.dumper import DumpUnit
from dm_worker.dumper.metadata import dump_dir
from dm_worker.engine.engine import SparkEngine
from dm_worker.subtask.unit import UnitOutcome
from pkg.binlog.position import Position
from pkg.config.model import SubTaskConfig
from tests.harness.full_copy import config, load, snapshot_location

#: The row of this id waits for the lock. Larger tables are read first.
_GATE = 'IF(id = {at}, GET_LOCK("gate", 120) AND RELEASE_LOCK("gate"), 1)'
_WAITS = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND ID <> CONNECTION_ID()"
_BLOCKED = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock%'"
#: Ids that one table alone has: the one that is read first, one in the middle of ``s.a``, the one that is read last.
_FIRST, _MIDDLE, _LAST = 900_001, 9_999, 900_002
_SWAP = ("RENAME TABLE s.a TO s.x, s.b TO s.a, s.x TO s.b",)
_EXCHANGE = ("ALTER TABLE s.parts EXCHANGE PARTITION p0 WITH TABLE s.plain",)
_CUT_OVER = ("CREATE TABLE s._a_gho LIKE s.a", "INSERT INTO s._a_gho SELECT id, v + 1 FROM s.a",
             "RENAME TABLE s.a TO s._a_del, s._a_gho TO s.a")  # fmt: skip
_CHANGES: dict[str, tuple[str, ...]] = {
    "swap": _SWAP,
    "swap by ALTER": ("ALTER TABLE s.a RENAME TO s.x", "ALTER TABLE s.b RENAME s.a", "ALTER TABLE s.x RENAME s.b"),
    "swap to and fro": _SWAP + _SWAP,
    "exchange": _EXCHANGE,
    "cut-over": _CUT_OVER,
    "drop and create": ("DROP TABLE s.a", "CREATE TABLE s.a (id INT PRIMARY KEY, v INT)", "INSERT INTO s.a VALUES (1, 1)"),
    "truncate": ("TRUNCATE s.a", "INSERT INTO s.a VALUES (1, 1)"),
    "drop partition": ("ALTER TABLE s.parts DROP PARTITION p1",),
    "drop database": ("DROP DATABASE other", "CREATE DATABASE other", "CREATE TABLE other.t (id INT PRIMARY KEY, v INT)"),
}  # fmt: skip


@dataclass
class Run:
    """A dump that waits inside of a table. ``outcome`` is set once it has ended."""

    unit: DumpUnit
    outcome: UnitOutcome | None = None


def _fill(upstream: SQLServer) -> None:
    """Tables of one structure, which any change may mix, between the largest table and the smallest."""
    numbers = ",".join(f"({n},{n})" for n in range(800))
    others = ",".join(f"({n},{-n})" for n in range(800))
    more = ",".join(f"({n},{n})" for n in range(_MIDDLE, _MIDDLE + 800))
    wide = ",".join(f"({n},{n},'{'x' * 200}')" for n in (*range(1500), _FIRST))
    upstream.execute(
        "CREATE DATABASE s", "CREATE DATABASE other",
        "CREATE TABLE s.z_first (id INT PRIMARY KEY, v INT, t CHAR(200))",
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("s.a", "s.b", "s.plain", "s.`z last`", "other.t")),
        "CREATE TABLE s.parts (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        f"INSERT INTO s.z_first VALUES {wide}", f"INSERT INTO s.a VALUES {numbers},{more}", f"INSERT INTO s.b VALUES {others}",
        f"INSERT INTO s.parts VALUES {numbers}", f"INSERT INTO s.plain VALUES {others}", "INSERT INTO s.parts VALUES (2000, 1)",
        f"INSERT INTO s.`z last` VALUES ({_LAST}, 1)", "INSERT INTO other.t VALUES (1,1),(2,2)",
        "ANALYZE TABLE s.z_first, s.a, s.b, s.parts, s.plain, s.`z last`, other.t",
    )  # fmt: skip


@contextmanager
def _waiting(unit: DumpUnit, upstream: SQLServer) -> Iterator[Run]:
    """Runs the dump; the block runs while it waits at the gate, which its end opens."""
    run = Run(unit)
    gate = upstream.connect()

    def work() -> None:
        run.outcome = unit.run()

    thread = threading.Thread(target=work)
    try:
        with gate.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('gate', 60)")
        thread.start()
        _wait(upstream, _WAITS, thread)
        yield run
    finally:
        gate.close()
    thread.join()


def _wait(upstream: SQLServer, until: str, thread: threading.Thread) -> None:
    while not upstream.execute(until):
        assert thread.is_alive(), "it did not wait"
        time.sleep(0.01)


def _place(upstream: SQLServer) -> Position:
    status = upstream.binlog_status()
    return Position(str(status[0]), int(status[1]))


def _replay(upstream: SQLServer, target: SQLServer, start: Position) -> None:
    """Executes the statements since ``start``, as replication does. No rows change meanwhile but by them."""
    for _, _, kind, _, _, info in upstream.execute(f"SHOW BINLOG EVENTS IN '{start.name}' FROM {start.pos}"):
        if kind == "Query" and not str(info).startswith(("BEGIN", "COMMIT")):
            target.execute(str(info).split("; ", 1)[-1])


def _assert_equal(upstream: SQLServer, target: SQLServer) -> None:
    # What online DDL tools leave behind is not copied.
    listed = (
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA IN ('s', 'other') AND TABLE_NAME NOT LIKE '\\_%' ORDER BY 1, 2"
    )
    tables = upstream.execute(listed)
    assert target.execute(listed) == tables
    for schema, table in tables:
        rows = f"SELECT id, v FROM {schema}.`{table}` ORDER BY id"
        assert target.execute(rows) == upstream.execute(rows), table


def _finished(run: Run, cfg: SubTaskConfig) -> Position:
    """Where the dump's snapshot is."""
    assert run.outcome is not None
    assert run.outcome.finished, [str(error) for error in run.outcome.errors]
    return snapshot_location(cfg).position


def _prepared(pair: tuple[SQLServer, SQLServer]) -> tuple[SQLServer, SQLServer]:
    for server in pair:
        server.wipe()
    _fill(pair[0])
    return pair


#: The servers differ in what they log of some statements and in how they find a table, not in which DDL they have.
_CASES = [("mariadb", change, "flush") for change in _CHANGES]
_CASES += [("mysql", change, "flush") for change in ("swap", "exchange", "drop database")]
_CASES += [("mariadb", "swap", "none"), ("mysql", "swap", "lock")]


@pytest.mark.parametrize(("pair", "change", "consistency"), _CASES, indirect=["pair"])
def test_a_table_that_is_not_read_yet_is_never_taken_for_another(
    pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path, change: str, consistency: str
) -> None:
    upstream, target = _prepared(pair)
    extra_args = f"--consistency {consistency} --where '{_GATE.format(at=_FIRST)}'"
    cfg = config(upstream, target, tmp_path, threads=1, extra_args=extra_args)
    with _waiting(DumpUnit(cfg, spark), upstream) as run:
        upstream.execute(*_CHANGES[change])
        changed = _place(upstream)
    assert changed <= _finished(run, cfg)
    load(cfg, spark)
    _assert_equal(upstream, target)


def test_a_table_is_never_taken_for_another_between_its_chunks(
    pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path
) -> None:
    upstream, target = _prepared(pair)
    extra_args = f"--where '{_GATE.format(at=_MIDDLE)}'"
    cfg = config(upstream, target, tmp_path, threads=1, rows=300, extra_args=extra_args)
    with _waiting(DumpUnit(cfg, spark), upstream) as run:
        # It waits for the chunk that is being read, and the next chunk waits for it.
        swap = threading.Thread(target=upstream.execute, args=_SWAP)
        swap.start()
        _wait(upstream, _BLOCKED, swap)
        before = _place(upstream)
    swap.join()
    assert before < _finished(run, cfg)
    assert len(list(dump_dir(cfg).glob("s.a.0*.sql"))) > 1
    load(cfg, spark)
    _assert_equal(upstream, target)


_HARMLESS = (
    "CREATE TABLE s.new (id INT PRIMARY KEY, v INT)", "RENAME TABLE s.new TO s.newer", "CREATE INDEX v ON s.newer (v)",
    "CREATE TABLE IF NOT EXISTS s.a (id INT)", "CREATE DATABASE IF NOT EXISTS other", "ALTER DATABASE other CHARACTER SET latin1",
    "ANALYZE TABLE s.a", "CREATE TRIGGER s.t BEFORE INSERT ON s.a FOR EACH ROW SET @x = 1", "DROP TRIGGER s.t",
    "CREATE VIEW s._v AS SELECT * FROM s.a", "DROP VIEW s._v",
)  # fmt: skip


def test_ddl_that_concerns_no_table_to_read_does_not_stop_a_dump(
    pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path
) -> None:
    upstream, target = _prepared(pair)
    extra_args = f"--where '{_GATE.format(at=_FIRST)}'"
    cfg = config(upstream, target, tmp_path, threads=1, extra_args=extra_args)
    before = _place(upstream)
    with _waiting(DumpUnit(cfg, spark), upstream) as run:
        upstream.execute(*_HARMLESS)
    start = _finished(run, cfg)
    assert start == before
    load(cfg, spark)
    _replay(upstream, target, start)
    _assert_equal(upstream, target)


def test_ddl_on_tables_that_are_read_already_does_not_stop_a_dump(
    pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path
) -> None:
    upstream, target = _prepared(pair)
    extra_args = f"--where '{_GATE.format(at=_LAST)}'"
    cfg = config(upstream, target, tmp_path, threads=1, extra_args=extra_args)
    before = _place(upstream)
    with _waiting(DumpUnit(cfg, spark), upstream) as run:
        upstream.execute(
            *_SWAP, *_EXCHANGE, "TRUNCATE other.t", "ALTER TABLE s.a ADD COLUMN w INT FIRST", "DROP TABLE s.z_first"
        )
    start = _finished(run, cfg)
    assert start == before
    load(cfg, spark)
    _replay(upstream, target, start)
    _assert_equal(upstream, target)


def test_ddl_between_the_plan_and_the_snapshot_is_in_the_copy(
    pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream, target = _prepared(pair)
    cfg = config(upstream, target, tmp_path)
    plan, changes = (
        DumpUnit._plan,
        iter([(*_SWAP, *_EXCHANGE, "TRUNCATE other.t"), ("ALTER DATABASE s CHARACTER SET latin1",)]),
    )

    def planned(unit: DumpUnit, *args: Any) -> Any:
        result = plan(unit, *args)
        upstream.execute(*next(changes, ("DO 1",)))
        return result

    monkeypatch.setattr(DumpUnit, "_plan", planned)
    for _ in range(2):
        target.wipe()
        start = _finished(Run(unit := DumpUnit(cfg, spark), unit.run()), cfg)
        assert start == _place(upstream)
        load(cfg, spark)
        _assert_equal(upstream, target)
        charset = "SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 's'"
        assert target.execute(charset) == upstream.execute(charset)
        cfg = config(upstream, target, tmp_path / "2", name="again")
