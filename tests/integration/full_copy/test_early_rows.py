"""Hazard: rows that are loaded while the dump still runs are lost, doubled, or stay when the dump is not completed."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from deploy.local.mysql import SQLServer
from dm_master.task_setup.server_steps import remove_meta
from dm_worker.dumper import DumpUnit
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit, early_adoption, load_plan, load_unit
from dm_worker.loader.early_load import EarlyLoad, suits_task
from dm_worker.loader.load_task import FileSpec
from dm_worker.meta.early_progress import EarlyProgress, EarlyState, EarlyTable
from dm_worker.subtask.unit import UnitOutcome
from pkg.config.model import InstanceConfig, SubTaskConfig, TaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.connection import connect
from pkg.mysql.early_tables import early_prefix, table_comment
from pkg.mysql.names import qualified
from pkg.rules.model import RouteRule
from tests.harness.full_copy import config, contents
from tests.integration.full_copy.test_late_keys import keys_of, killed_driver

#: The row that waits for the lock, in the last table but one that is read.
_LAST = 900_002
_GATE = f'IF(id = {_LAST}, GET_LOCK("gate", 120) AND RELEASE_LOCK("gate"), 1)'
_WAITS = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND ID <> CONNECTION_ID()"
_TABLES = ("s.keyed", "s.bag", "s.last", "s.unread")
_EARLY = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME LIKE '\\_dm\\_early\\_%'"


@pytest.fixture
def copied(pair: tuple[SQLServer, SQLServer], tmp_path: Path) -> SubTaskConfig:
    """A table with keys in several chunks, one without a key and with equal rows in several files, and small ones."""
    for server in pair:
        server.wipe()
    keyed = ",".join(f"({n},{n % 7},'row {n} {'x' * 100}')" for n in range(3000))
    bag = ",".join(f"({n % 50},'{'y' * 200}')" for n in range(2000))
    pair[0].execute(
        "CREATE DATABASE s",
        "CREATE TABLE s.keyed (id INT NOT NULL, a INT, c VARCHAR(150), PRIMARY KEY (id), KEY ka (a), KEY kc (c, a))",
        "CREATE TABLE s.bag (id INT, c VARCHAR(250)) COMMENT = 'it''s 100% a\\\\bag'",
        "CREATE TABLE s.last (id INT PRIMARY KEY)", "CREATE TABLE s.unread (id INT PRIMARY KEY)",
        f"INSERT INTO s.keyed VALUES {keyed}", f"INSERT INTO s.bag VALUES {bag}",
        f"INSERT INTO s.last VALUES ({_LAST})",
        "ANALYZE TABLE s.keyed, s.bag, s.last, s.unread",
    )  # fmt: skip
    # Files of 40 kB at most, so that the table without a key has several.
    cfg = config(
        *pair, tmp_path, mode="full", threads=1, rows=500, extra_args=f"-s 10000 -F 40000 --where '{_GATE}'",
        clean_dump_file=False,
    )  # fmt: skip
    return replace(cfg, loader=replace(cfg.loader, keys_after_rows=True, rows_while_dumping=True))


def _early(cfg: SubTaskConfig, spark: SparkEngine) -> EarlyLoad:
    assert suits_task(cfg, spark)
    early = EarlyLoad(cfg, spark)
    early.least_bytes, early.transaction_bytes = 1, 5_000
    return early


def _loader(cfg: SubTaskConfig, spark: SparkEngine) -> LoadUnit:
    unit = LoadUnit(cfg, spark)
    unit.transaction_bytes, unit.late_key_bytes = 5_000, 1
    return unit


@dataclass
class Dumping:
    """A dump whose last tables are not read yet. ``outcome`` is set once it has ended."""

    unit: DumpUnit
    outcome: UnitOutcome | None = None


@contextlib.contextmanager
def _dumping(pair: tuple[SQLServer, SQLServer], cfg: SubTaskConfig, spark: SparkEngine) -> Iterator[Dumping]:
    """The block runs when all complete files of ``s.keyed`` and ``s.bag`` are loaded; then the dump goes on."""
    dumping = Dumping(DumpUnit(cfg, spark, _early(cfg, spark)))

    def work() -> None:
        dumping.outcome = dumping.unit.run()

    thread = threading.Thread(target=work)
    with contextlib.closing(pair[0].connect()) as gate:
        with gate.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('gate', 60)")
        thread.start()
        _wait(lambda: bool(pair[0].execute(_WAITS)) or not thread.is_alive())
        _wait(lambda: _loaded(pair[1], cfg) or not thread.is_alive())
        assert thread.is_alive(), dumping.outcome
        yield dumping
    thread.join(120)
    assert not thread.is_alive()


def _loaded(target: SQLServer, cfg: SubTaskConfig) -> bool:
    """Whether all rows of the two large tables are there, but under other names."""
    rows = [
        target.execute(f"SELECT COUNT(*) FROM `{schema}`.`{name}`")[0][0] for schema, name in target.execute(_EARLY)
    ]
    return sorted(rows) == [2000, 3000]


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _names(target: SQLServer) -> set[str]:
    listed = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 's'"
    return {str(row[0]) for row in target.execute(listed)}


def _assert_copied(pair: tuple[SQLServer, SQLServer], cfg: SubTaskConfig) -> None:
    upstream, target = pair
    assert _names(target) == {"keyed", "bag", "last", "unread"}
    for table in _TABLES:
        assert contents(target, table) == contents(upstream, table), table
        assert keys_of(target, table) == keys_of(upstream, table), table
    with contextlib.closing(connect(cfg.to, scope="downstream")) as conn:
        assert EarlyProgress(cfg).tables(conn) == []
        assert [table_comment(conn, "s", table) for table in ("keyed", "bag")] == ["", "it's 100% a\\bag"]


def _finish(cfg: SubTaskConfig, spark: SparkEngine) -> None:
    outcome = DumpUnit(cfg, spark, _early(cfg, spark)).run()
    assert outcome.finished, [str(error) for error in outcome.errors]
    _load(cfg, spark)


def _load(cfg: SubTaskConfig, spark: SparkEngine) -> None:
    outcome = _loader(cfg, spark).run()
    assert outcome.finished, [str(error) for error in outcome.errors]


@contextlib.contextmanager
def _files_of_loads(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The files that a load's tasks get, after the dump."""
    found: set[str] = set()
    share_out = load_plan.share_out

    def spy(files: list[FileSpec], left: dict[str, int], tasks: int) -> list[list[FileSpec]]:
        found.update(left)
        return share_out(files, left, tasks)

    with monkeypatch.context() as patch:
        patch.setattr(load_unit, "share_out", spy)
        yield found


def test_rows_are_loaded_while_the_dump_runs_and_get_their_names_when_it_is_complete(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _dumping(pair, copied, spark) as dumping:
        assert not {"keyed", "bag"} & _names(pair[1])
        assert not _loader(copied, spark).is_finished()
        _wait(lambda: "of 2 tables are loaded while the dump runs" in dumping.unit.status().step)
    assert dumping.outcome == UnitOutcome(finished=True)
    assert not dumping.unit.status().HasField("step")
    with _files_of_loads(monkeypatch) as files:
        _load(copied, spark)
    assert files <= {"s.last.000000000.sql"}  # read before the dump was complete, or not
    _assert_copied(pair, copied)


@pytest.mark.parametrize("how", ["stop", "kill", "DDL"])
def test_a_dump_that_is_not_completed_leaves_no_row(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, how: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("dm_worker.dumper.dump_unit.ATTEMPTS", 1)
    with _dumping(pair, copied, spark) as dumping:
        if how == "DDL":
            pair[0].execute("ALTER TABLE s.unread ADD c INT")
        elif how == "stop":
            dumping.unit.stop(graceful=True)
        else:
            dumping.unit.stop(graceful=False)
            _wait(lambda: not pair[1].execute(_EARLY))
    assert dumping.outcome is not None
    assert not dumping.outcome.finished
    assert _names(pair[1]) == set()
    _finish(copied, spark)
    _assert_copied(pair, copied)


def test_after_kill_9_in_the_dump_the_next_one_leaves_no_row_of_the_first(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, tmp_path: Path
) -> None:
    path = tmp_path / "cfg.pickle"
    path.write_bytes(pickle.dumps(copied))
    with contextlib.closing(pair[0].connect()) as gate:
        with gate.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('gate', 60)")
        with killed_driver("early_driver.py", path):
            _wait(lambda: _loaded(pair[1], copied))
    (first, second) = pair[1].execute(_EARLY)
    # Rows that the first snapshot had and the second has not.
    pair[0].execute("DELETE FROM s.keyed WHERE id < 1000", "DELETE FROM s.bag WHERE id < 10")
    assert DumpUnit(copied, spark, _early(copied, spark)).run().finished
    assert first not in pair[1].execute(_EARLY)
    assert second not in pair[1].execute(_EARLY)
    assert _loader(copied, spark).run().finished
    _assert_copied(pair, copied)


class _Crash(Exception):
    """The run ends here, as after kill -9."""


_MOMENTS = [
    "before the first rename", "before a rename", "after a rename", "after the progress", "after the comment",
    "before the rows",
]  # fmt: skip


@pytest.mark.parametrize("moment", _MOMENTS)
def test_a_load_that_ends_while_tables_get_their_names_is_continued(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with _dumping(pair, copied, spark):
        pass
    rename, take_over = early_adoption.EarlyAdoption._rename, EarlyProgress.take_over

    def crash(*_: object, **__: object) -> None:
        raise _Crash

    def crash_after(self: Any, *args: Any) -> Any:
        (rename if moment == "after a rename" else take_over)(self, *args)
        raise _Crash

    with monkeypatch.context() as patch:
        if moment == "before the first rename":
            patch.setattr(early_adoption.EarlyAdoption, "_rename", crash)
        elif moment == "before a rename":
            patch.setattr(early_adoption, "qualified", crash)
        elif moment == "after a rename":
            patch.setattr(early_adoption.EarlyAdoption, "_rename", crash_after)
        elif moment == "after the progress":
            patch.setattr(EarlyProgress, "take_over", crash_after)
        elif moment == "after the comment":
            patch.setattr(EarlyProgress, "forget", crash)
        else:
            patch.setattr(load_unit, "check_computed", crash)
        with pytest.raises(_Crash):
            _loader(copied, spark).run()
    with _files_of_loads(monkeypatch) as files:
        _finish(copied, spark)
    assert files <= {"s.last.000000000.sql"}  # read before the dump was complete, or not
    _assert_copied(pair, copied)


@pytest.mark.parametrize("moment", ["first", "at the rename"])
def test_a_table_that_the_target_has_meanwhile_keeps_its_rows(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    created = ("CREATE TABLE s.bag (id INT, c VARCHAR(250))", "INSERT INTO s.bag VALUES (77777, 'own')")
    with _dumping(pair, copied, spark):
        pass
    if moment == "first":
        pair[1].execute(*created)
    else:
        set_state = EarlyProgress.set_state

        def create(self: EarlyProgress, conn: Any, table: EarlyTable, state: EarlyState) -> None:
            set_state(self, conn, table, state)
            if table.target[1] == "bag" and state is EarlyState.RENAMING:
                pair[1].execute(*created)

        monkeypatch.setattr(EarlyProgress, "set_state", create)
    _load(copied, spark)
    assert _names(pair[1]) == {"keyed", "bag", "last", "unread"}
    assert contents(pair[1], "s.bag") == sorted([*contents(pair[0], "s.bag"), (77777, "own")], key=repr)
    assert contents(pair[1], "s.keyed") == contents(pair[0], "s.keyed")


def test_a_table_that_replaces_an_early_one_at_its_rename_is_not_taken_for_it(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _dumping(pair, copied, spark):
        pass

    def replaced(self: Any, table: EarlyTable) -> bool:
        with contextlib.closing(connect(copied.to, scope="downstream")) as conn:
            EarlyProgress(copied).set_state(conn, table, EarlyState.RENAMING)
        pair[1].execute(f"DROP TABLE s.{table.name}", f"CREATE TABLE s.{table.target[1]} (id INT, c VARCHAR(250))")
        raise _Crash

    with monkeypatch.context() as patch:
        patch.setattr(early_adoption.EarlyAdoption, "_rename", replaced)
        with pytest.raises(_Crash):
            _loader(copied, spark).run()
    (error,) = _loader(copied, spark).run().errors
    assert error.kind is Code.LoadTaskCheckPointNotMatch
    assert "was about to rename" in str(error)
    (replaced_table,) = _names(pair[1]) & {"keyed", "bag"}
    assert contents(pair[1], f"s.{replaced_table}") == []


def test_early_tables_of_a_killed_dump_are_removed_wherever_they_are(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine
) -> None:
    names = [early_prefix("dm_meta", copied.name, source) + "0_0" for source in (copied.source_id, "source-2")]
    others = [early_prefix("dm_meta", "copy2") + "0_0", early_prefix("dm_meta2", copied.name) + "0_0"]
    left = [("elsewhere", name) for name in (*names, *others)]
    pair[1].execute("CREATE DATABASE elsewhere", *(f"CREATE TABLE {qualified(*table)} (id INT)" for table in left))
    _finish(copied, spark)
    assert sorted(pair[1].execute(_EARLY)) == sorted(left[1:])
    pair[1].execute(f"CREATE TABLE {qualified(*left[0])} (id INT)")
    remove_meta(TaskConfig(copied.name, "full", copied.to, (InstanceConfig(copied.source_id),)))
    assert sorted(pair[1].execute(_EARLY)) == sorted(left[2:])


def test_tables_that_others_depend_on_are_loaded_after_the_dump(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair[0].execute(
        "CREATE TABLE s.computed (id INT PRIMARY KEY, d INT AS (id + 1) STORED)",
        "CREATE TABLE s.parent (id INT PRIMARY KEY)",
        "CREATE TABLE s.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES s.parent (id))",
        "CREATE TABLE s.shard2 LIKE s.keyed", "CREATE TABLE s.there (id INT PRIMARY KEY)",
        "INSERT INTO s.computed (id) VALUES (1), (2)", "INSERT INTO s.parent VALUES (1)",
        "INSERT INTO s.child VALUES (5, 1)",
        "INSERT INTO s.shard2 VALUES (10000, 1, 'of the second')", "INSERT INTO s.there VALUES (4)",
    )  # fmt: skip
    pair[1].execute("CREATE DATABASE s", "CREATE TABLE s.there (id INT PRIMARY KEY)")
    route = RouteRule(schema_pattern="s", table_pattern="shard2", target_schema="s", target_table="keyed")
    cfg = replace(copied, routes=(route,), mydumper=replace(copied.mydumper, extra_args="-s 10000"))
    seen: list[str] = []
    add = EarlyProgress.add_files

    def spy(self: EarlyProgress, conn: Any, epoch: int, table: EarlyTable, files: dict[str, int]) -> None:
        seen.append(table.target[1])
        add(self, conn, epoch, table, files)

    monkeypatch.setattr(EarlyProgress, "add_files", spy)
    _finish(cfg, spark)
    assert set(seen) <= {"bag", "last", "unread"}
    assert pair[1].execute("SELECT COUNT(*) FROM s.keyed") == [(3001,)]
    for table in ("s.bag", "s.last", "s.computed", "s.parent", "s.child", "s.there"):
        assert contents(pair[1], table) == contents(pair[0], table)
    assert not pair[1].execute(_EARLY)


def test_a_run_that_was_replaced_cannot_remove_the_rows_of_the_later_one(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig
) -> None:
    progress = EarlyProgress(copied)
    pair[1].execute("CREATE DATABASE s")
    with contextlib.closing(connect(copied.to, scope="downstream")) as conn:
        first = progress.record_dump(conn, "aaaa")
        epoch = progress.record_dump(conn, "bbbb")
        later = EarlyTable(progress.name("bbbb", 0), ("s", "t"))
        progress.add_table(conn, epoch, later)
        conn.query(f"CREATE TABLE s.{later.name} (id INT)")
        progress.remove(conn, "aaaa")
        with pytest.raises(DMError):
            progress.add_table(conn, first, EarlyTable(progress.name("aaaa", 0), ("s", "t")))
        assert progress.tables(conn, "bbbb") == [later]
        assert progress.tables(conn, "aaaa") == []
        assert pair[1].execute(_EARLY) == [("s", later.name)]
        progress.forget(conn, later)
        assert not progress.take_over(conn, later, 1)
        progress.drop_tables(conn)
        assert not pair[1].execute(_EARLY)
