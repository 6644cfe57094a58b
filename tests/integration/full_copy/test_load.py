# ruff: noqa: E501 - statements and rows read best on one line
"""Hazard: after a crash of any part a load misses rows or repeats them, or hides what it cannot load."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.dumper.metadata import dump_dir
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from dm_worker.loader.load_plan import SESSION, file_specs, list_dump
from dm_worker.loader.load_task import LoadSpec, run_load_task
from dm_worker.meta.load_progress import begin_load, progress_table, read_state, remove_progress, stored_state
from dm_worker.subtask.unit import UnitOutcome
from dm_worker.syncer.checkpoint.start_location import start_location
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.rules.model import RouteRule
from tests.harness.full_copy import config, contents, dump, load, snapshot_location
from tests.harness.proctree import spark_workers

_ROOT = Path(__file__).parents[3]


def _keyless(server: SQLServer, rows: int = 3000) -> None:
    """Tables where a row loaded twice or lost shows: no key, equal rows."""
    server.execute("CREATE DATABASE l")
    for name in ("a", "b", "c"):
        values = ",".join(f"({n % 700},'{'x' * (n % 90)}')" for n in range(rows))
        server.execute(f"CREATE TABLE l.{name} (v INT, t VARCHAR(100))", f"INSERT INTO l.{name} VALUES {values}")


def _slow_target(server: SQLServer, seconds: float = 0.0007) -> None:
    """The same tables, where each row takes a while, so that a load can be met in its middle."""
    server.execute("CREATE DATABASE l")
    for name in ("a", "b", "c"):
        server.execute(
            f"CREATE TABLE l.{name} (v INT, t VARCHAR(100))",
            f"CREATE TRIGGER l.slow_{name} BEFORE INSERT ON l.{name} FOR EACH ROW SET @slept = SLEEP({seconds})",
        )


@contextlib.contextmanager
def _held_up(server: SQLServer, *names: str, seconds: float = 0.0) -> Iterator[None]:
    """No row gets into the tables meanwhile: a load stays in its middle however slow the observer is.

    Afterwards each row takes ``seconds``.
    """
    with contextlib.closing(server.connect()) as conn:
        with conn.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('held up', 60)")
            assert cursor.fetchall() == ((1,),)
            for name in names:
                cursor.execute(
                    f"CREATE OR REPLACE TRIGGER l.slow_{name} BEFORE INSERT ON l.{name} FOR EACH ROW BEGIN"
                    " SET @taken = GET_LOCK('held up', 600); SET @taken = RELEASE_LOCK('held up');"
                    f" SET @slept = SLEEP({seconds}); END"
                )
        yield


def _quick(server: SQLServer) -> None:
    """From now on rows take no time."""
    server.execute(*(f"DROP TRIGGER l.slow_{name}" for name in ("a", "b", "c")))


def _counted(server: SQLServer) -> int:
    return sum(int(server.execute(f"SELECT COUNT(*) FROM l.{name}")[0][0]) for name in ("a", "b", "c"))


def _wait(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def _assert_equal(upstream: SQLServer, target: SQLServer) -> None:
    for name in ("a", "b", "c"):
        assert contents(target, f"l.{name}") == contents(upstream, f"l.{name}"), name


class _Loading:
    """A load in a thread, in transactions so small that it can be met between two of them."""

    def __init__(self, cfg: SubTaskConfig, spark: SparkEngine) -> None:
        self.unit = LoadUnit(cfg, spark)
        self.unit.transaction_bytes = 20_000
        self._outcomes: list[UnitOutcome] = []
        self._thread = threading.Thread(target=lambda: self._outcomes.append(self.unit.run()), daemon=True)
        self._thread.start()

    def wait_rows(self, target: SQLServer, count: int = 500) -> None:
        """Until more than ``count`` rows are in."""
        _wait(lambda: _counted(target) > count or not self._thread.is_alive())
        assert self._thread.is_alive(), f"the load ended before it could be met: {self._outcomes}"

    def outcome(self) -> UnitOutcome:
        self._thread.join(240)
        assert self._outcomes, "the load did not end"
        return self._outcomes[0]

    def wait_finished(self) -> None:
        outcome = self.outcome()
        assert outcome.finished, [str(error) for error in outcome.errors]


@pytest.fixture
def slow_load(
    mariadb_upstream: MariaDBServer, target_with_triggers: SQLServer, spark: SparkEngine, tmp_path: Path
) -> SubTaskConfig:
    """A dump of keyless tables, and a target that takes its time."""
    _keyless(mariadb_upstream)
    _slow_target(target_with_triggers)
    cfg = config(mariadb_upstream, target_with_triggers, tmp_path, extra_args="-s 2000")
    dump(cfg, spark)
    return cfg


def _start_driver(cfg: SubTaskConfig, folder: Path) -> subprocess.Popen[bytes]:
    path = folder / "cfg.pickle"
    path.write_bytes(pickle.dumps(cfg))
    env = {**os.environ, "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, str(_ROOT / "tests/integration/full_copy/load_driver.py"), str(path)]
    return subprocess.Popen(command, cwd=_ROOT, env=env, start_new_session=True, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_kill_9_of_the_worker_loads_nothing_twice(
    slow_load: SubTaskConfig, mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine,
    tmp_path: Path, share: float,
) -> None:  # fmt: skip
    driver = _start_driver(slow_load, tmp_path)
    try:
        with _held_up(target, "c"):
            _wait(lambda: _counted(target) >= share * 6000)
            os.kill(driver.pid, signal.SIGKILL)
            assert _counted(target) <= 6000
        # The driver's JVM and Python workers may still write: they are the zombies that the epoch is there for.
        load(slow_load, spark)
        _assert_equal(mariadb_upstream, target)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    _assert_equal(mariadb_upstream, target)


def test_kill_9_of_a_python_worker_is_healed_within_the_load(
    slow_load: SubTaskConfig, mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    loading = _Loading(slow_load, spark)
    loading.wait_rows(target)
    victims = spark_workers(os.getpid())
    assert victims
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    loading.wait_finished()
    _assert_equal(mariadb_upstream, target)


def test_a_load_leaves_its_python_workers_to_the_next_job(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    """Each would have to be forked again. What an ended one has used of the CPU is lost for the benchmark."""
    _keyless(mariadb_upstream)
    cfg = config(mariadb_upstream, target, tmp_path, extra_args="-s 2000")
    dump(cfg, spark)
    spark.context().parallelize([1] * spark.slots, spark.slots).foreach(time.sleep)
    before = set(spark_workers(os.getpid()))
    load(cfg, spark)
    assert before
    assert before <= set(spark_workers(os.getpid()))


def test_a_restart_of_the_target_is_survived(
    slow_load: SubTaskConfig,
    mariadb_upstream: MariaDBServer,
    new_mariadb: Callable[..., MariaDBServer],
    spark: SparkEngine,
) -> None:
    target = new_mariadb(binlog=False)
    _slow_target(target)
    loading = _Loading(replace(slow_load, to=target.db_config), spark)
    loading.wait_rows(target)
    target.kill()
    target.start()
    loading.wait_finished()
    _assert_equal(mariadb_upstream, target)


@pytest.mark.parametrize("graceful", [True, False])
def test_a_stopped_load_goes_on_where_it_was(
    slow_load: SubTaskConfig, mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, graceful: bool
) -> None:
    with _held_up(target, "c", seconds=0.003):
        loading = _Loading(slow_load, spark)
        loading.wait_rows(target)
        loading.unit.stop(graceful=graceful)
    outcome = loading.outcome()
    assert outcome.canceled
    assert not outcome.errors
    # Had the load gone on to its end, nothing would be missing.
    assert 0 < _counted(target) < 9000
    _quick(target)
    assert loading.unit.run().finished
    _assert_equal(mariadb_upstream, target)


def test_a_transaction_of_an_older_run_cannot_commit(
    slow_load: SubTaskConfig, target: MariaDBServer, spark: SparkEngine
) -> None:
    with _held_up(target, "c", seconds=0.003):
        loading = _Loading(slow_load, spark)
        loading.wait_rows(target)
    conn = target.connect()
    dump_id = stored_state(slow_load)
    assert dump_id is not None
    files = {
        row[0].decode(): row[1]
        for row in target.execute(f"SELECT file, size FROM {progress_table(slow_load)} WHERE file <> ''")
    }
    begin_load(conn, slow_load, dump_id.dump_id, files, dump_id.location, dump_id.exit_location)
    counted = _counted(target)
    assert [error.code for error in loading.outcome().errors] == [34018]
    assert _counted(target) == counted


def test_a_load_of_an_earlier_life_cannot_write_into_a_later_one(
    slow_load: SubTaskConfig, target: MariaDBServer, spark: SparkEngine
) -> None:
    listing = list_dump(dump_dir(slow_load))
    specs = file_specs(listing, lambda schema, table: (schema, table))
    files = {spec.name: spec.size for spec in specs}
    with contextlib.closing(target.connect()) as conn:
        asleep = begin_load(conn, slow_load, listing.dump_id, files, None, None)
        remove_progress(slow_load)
        begin_load(conn, slow_load, listing.dump_id, files, None, None)
    table, folder = progress_table(slow_load), str(dump_dir(slow_load))
    spec = LoadSpec(slow_load.to, SESSION, table, slow_load.source_id, asleep, "", folder, 20_000, 5.0)
    (report,) = run_load_task(spec, iter([specs]))
    assert report.fenced
    assert _counted(target) == 0


def test_a_file_that_the_target_lost_during_the_load_is_loaded_again(
    slow_load: SubTaskConfig, mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    of_a = f"{progress_table(slow_load)} WHERE file LIKE 'l.a.%'"
    with _held_up(target, "c"):
        loading = _Loading(slow_load, spark)
        _wait(lambda: stored_state(slow_load) is not None)
        _wait(lambda: target.execute(f"SELECT MIN(finished) FROM {of_a}") == [(1,)])
        # The state from before it: rows and progress are of one moment.
        target.execute(
            "BEGIN",
            f"UPDATE {of_a.replace('WHERE', 'SET `offset` = 0, finished = 0 WHERE')}",
            "DELETE FROM l.a",
            "COMMIT",
        )
    loading.wait_finished()
    _assert_equal(mariadb_upstream, target)


def test_replication_does_not_begin_at_a_copy_that_the_target_lost(
    slow_load: SubTaskConfig, target: MariaDBServer, spark: SparkEngine
) -> None:
    unit = load(slow_load, spark)
    assert unit.is_finished()
    finished, _ = start_location(slow_load)
    assert finished == snapshot_location(slow_load)
    target.execute(f"UPDATE {progress_table(slow_load)} SET finished = 0 WHERE file = ''")
    with pytest.raises(DMError, match="went back"):
        start_location(slow_load)


def test_an_error_that_could_pass_but_does_not_is_shown_in_time(
    slow_load: SubTaskConfig, target: MariaDBServer, spark: SparkEngine
) -> None:
    # Tries of the load must not multiply those of its tasks: together they would last for hours.
    unit = LoadUnit(replace(slow_load, to=replace(slow_load.to, session=(("lock_wait_timeout", "1"),))), spark)
    unit.retry_seconds = 3.0
    conn = target.connect()
    with conn.cursor() as cursor:
        cursor.execute("LOCK TABLES l.a READ")
    begun = time.monotonic()
    outcome = unit.run()
    assert time.monotonic() - begun < 120
    assert "Error 1205" in str(outcome.errors[0])
    conn.close()
    assert unit.run().finished


def test_a_load_outlives_its_jvm(
    slow_load: SubTaskConfig, mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    loading = _Loading(slow_load, spark)
    loading.wait_rows(target)
    os.kill(spark.jvm_pid, signal.SIGKILL)
    loading.wait_finished()
    _assert_equal(mariadb_upstream, target)


def test_a_value_that_a_strict_target_refuses_names_the_way_out(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE e", "CREATE TABLE e.t (id INT PRIMARY KEY, v ENUM('a','b'), d DATE)",
        "SET sql_mode = ''", "INSERT INTO e.t VALUES (1,'a','0000-00-00'),(2,'no member','2020-02-31')",
    )  # fmt: skip
    cfg = config(mariadb_upstream, target, tmp_path)
    dump(cfg, spark)
    outcome = LoadUnit(cfg, spark).run()
    assert "Error 1265" in str(outcome.errors[0])
    assert "session: {sql_mode:" in outcome.errors[0].workaround
    assert target.execute("SELECT COUNT(*) FROM e.t")[0][0] == 0
    lenient = replace(cfg.to, session=(("sql_mode", "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"),))
    load(replace(cfg, to=lenient), spark)
    assert target.execute("SELECT id, v + 0 FROM e.t ORDER BY id") == [(1, 1), (2, 0)]
    assert contents(target, "e.t") == contents(mariadb_upstream, "e.t")


def test_what_was_loaded_before_a_pause_counts_at_once(
    slow_load: SubTaskConfig, target: MariaDBServer, spark: SparkEngine
) -> None:
    with _held_up(target, "c", seconds=0.003):
        first = _Loading(slow_load, spark)
        first.wait_rows(target, 3000)
        first.unit.stop(graceful=True)
    assert first.outcome().canceled
    paused = first.unit.status().finishedBytes
    assert 0 < paused < first.unit.status().totalBytes
    with _held_up(target, "a", "b", "c"):
        second = _Loading(slow_load, spark)
        _wait(lambda: second.unit.status().totalBytes > 0 and second.unit.status().finishedBytes > 0)
        assert second.unit.status().finishedBytes == paused
        assert second.unit.status().bps == 0
    second.wait_finished()
    assert second.unit.status().progress == "100.00 %"


def test_the_status_counts_the_tables_whose_rows_are_all_loaded_and_the_rows(
    slow_load: SubTaskConfig, target: MariaDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dm_worker.loader.load_unit._TABLES_SECONDS", 0.0)
    with _held_up(target, "c"):
        loading = _Loading(slow_load, spark)
        _wait(lambda: loading.unit.status().completedTables == 2)
        held = loading.unit.status()
        assert (held.totalTables, held.totalRows) == (3, 9000)
        assert 5900 <= held.finishedRows < 9000, "two tables of three are complete"
    loading.wait_finished()
    done = loading.unit.status()
    assert (done.completedTables, done.finishedRows) == (3, 9000)


def _shards(server: SQLServer) -> None:
    server.execute("CREATE DATABASE s1", "CREATE DATABASE s2")
    for shard, first in (("s1.t1", 1), ("s1.t2", 101), ("s2.t1", 150)):
        rows = ",".join(f"({n},'{shard}')" for n in range(first, first + 60))
        server.execute(
            f"CREATE TABLE {shard} (id INT PRIMARY KEY, origin VARCHAR(9))", f"INSERT INTO {shard} VALUES {rows}"
        )


_MERGE = (RouteRule("s*", "merged", table_pattern="t*", target_table="t"),)


def test_a_key_that_two_shards_share_is_an_error_that_names_it(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    _shards(mariadb_upstream)
    cfg = config(mariadb_upstream, target, tmp_path, routes=_MERGE)
    dump(cfg, spark)
    unit = LoadUnit(cfg, spark)
    outcome = unit.run()
    assert [error.code for error in outcome.errors] == [34019]
    text = str(outcome.errors[0])
    assert "`merged`.`t`" in text
    assert re.search(r"for key '(\w+\.)?PRIMARY'", text)
    assert ".000000000.sql" in text
    assert "on-duplicate-logical" in text
    target.execute("DELETE FROM merged.t WHERE id BETWEEN 150 AND 160")
    mariadb_upstream.execute("DO 0")
    resumed = LoadUnit(replace(cfg, loader=replace(cfg.loader, on_duplicate_logical="ignore")), spark).run()
    assert resumed.finished
    assert target.execute("SELECT COUNT(*) FROM merged.t")[0][0] >= 169 - 11


@pytest.mark.parametrize("choice", ["replace", "ignore"])
def test_a_choice_for_duplicates_is_honoured(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path, choice: str
) -> None:
    _shards(mariadb_upstream)
    target.execute(
        "CREATE DATABASE merged", "CREATE TABLE merged.t (id INT PRIMARY KEY, origin VARCHAR(9))", "INSERT INTO merged.t VALUES (1,'before')"
    )  # fmt: skip
    cfg = config(mariadb_upstream, target, tmp_path, routes=_MERGE, on_duplicate=choice)
    dump(cfg, spark)
    load(cfg, spark)
    assert target.execute("SELECT COUNT(*) FROM merged.t")[0][0] == 169
    assert target.execute("SELECT origin FROM merged.t WHERE id = 1")[0][0] == (
        "before" if choice == "ignore" else "s1.t1"
    )


def test_a_load_never_checks_foreign_keys(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE l",
        "CREATE TABLE l.z (id INT PRIMARY KEY)",
        "CREATE TABLE l.a (id INT PRIMARY KEY, z INT, FOREIGN KEY (z) REFERENCES l.z (id) ON DELETE CASCADE)",
        "INSERT INTO l.z VALUES (1), (2)",
        "INSERT INTO l.a VALUES (1, 1), (2, 2)",
    )
    cfg = config(mariadb_upstream, target, tmp_path)
    cfg = replace(cfg, to=replace(cfg.to, session=(("foreign_key_checks", "1"),)))
    cfg = replace(cfg, loader=replace(cfg.loader, pool_size=1))
    dump(cfg, spark)
    load(cfg, spark)
    for name in ("a", "z"):
        assert contents(target, f"l.{name}") == contents(mariadb_upstream, f"l.{name}")


@pytest.mark.target_with("storage engines")
def test_a_load_makes_tables_that_can_roll_back_and_takes_no_others(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE l",
        "CREATE TABLE l.m (id INT PRIMARY KEY, v CHAR(3)) ENGINE=MyISAM ROW_FORMAT=FIXED",
        "CREATE TABLE l.t (id INT PRIMARY KEY)",
        "INSERT INTO l.m VALUES (1, 'a')",
        "INSERT INTO l.t VALUES (1)",
    )
    target.execute("CREATE DATABASE l", "CREATE TABLE l.t (id INT PRIMARY KEY) ENGINE=Aria")
    cfg = config(mariadb_upstream, target, tmp_path)
    dump(cfg, spark)
    unit = LoadUnit(cfg, spark)
    (error,) = unit.run().errors
    assert error.kind is Code.LoadUnitCreateSchemaFile
    assert "`l`.`t` has the engine Aria" in error.message
    target.execute("ALTER TABLE l.t ENGINE=InnoDB")
    load(cfg, spark)
    for name in ("m", "t"):
        assert contents(target, f"l.{name}") == contents(mariadb_upstream, f"l.{name}")
    assert "ENGINE=InnoDB" in target.execute("SHOW CREATE TABLE l.m")[0][1]


def test_files_of_another_dump_tool_load(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    _keyless(mariadb_upstream, 500)
    mariadb_upstream.execute(
        "CREATE TABLE l.q (id INT, t TEXT)", r"INSERT INTO l.q VALUES (1,'a;\'b\"\\'),(2,'-- /* # `\n;')"
    )
    folder = tmp_path / "foreign"
    address = ["-h", "127.0.0.1", "-P", str(mariadb_upstream.port), "-u", "root"]
    subprocess.run(["mydumper", *address, "-B", "l", "-o", str(folder)], check=True, capture_output=True)
    cfg = config(mariadb_upstream, target, tmp_path, mode="load")
    cfg = replace(cfg, loader=replace(cfg.loader, dir=str(folder)), routes=(RouteRule("l", "other"),))
    before = sorted(path.name for path in folder.iterdir())
    unit = load(cfg, spark)
    for name in ("a", "b", "c", "q"):
        assert contents(target, f"other.{name}") == contents(mariadb_upstream, f"l.{name}")
    assert sorted(path.name for path in folder.iterdir()) == before
    assert unit.is_finished()


def test_after_a_load_the_start_of_replication_is_known_and_only_data_files_are_gone(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, tmp_path: Path
) -> None:
    _keyless(mariadb_upstream, 10)
    cfg = config(mariadb_upstream, target, tmp_path)
    dumped = dump(cfg, spark)
    unit = load(cfg, spark)
    location = snapshot_location(cfg)
    conn = target.connect()
    state = read_state(conn, cfg)
    assert state is not None
    assert (state.finished, state.location) == (True, location)
    assert unit.status().metaBinlog == str(location.position)
    left = sorted(path.name for path in dump_dir(cfg).iterdir() if not path.name.startswith("."))
    assert left == ["l-schema-create.sql", "l.a-schema.sql", "l.b-schema.sql", "l.c-schema.sql", "metadata"]
    assert dumped.is_finished()
    assert LoadUnit(cfg, spark).is_finished()
    unit.remove_meta()
    assert not LoadUnit(cfg, spark).is_finished()


def test_another_dump_is_not_mistaken_for_the_one_that_was_being_loaded(
    slow_load: SubTaskConfig, target: MariaDBServer, spark: SparkEngine
) -> None:
    folder = dump_dir(slow_load)
    conn = target.connect()
    begin_load(conn, slow_load, "another", {}, None, None)
    assert [error.code for error in LoadUnit(slow_load, spark).run().errors] == [34018]
    next(folder.glob("l.a.0*.sql")).unlink()
    assert [error.code for error in LoadUnit(slow_load, spark).run().errors] == [34018]
    assert _counted(target) == 0
