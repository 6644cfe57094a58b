"""Hazard: a table that gets its keys after its rows ends with other keys, or without them, after a crash or a stop."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit, key_building
from dm_worker.meta.loader_keys import LoaderKeys
from dm_worker.subtask.unit import UnitOutcome
from pkg.config.model import SubTaskConfig
from pkg.rules.model import RouteRule
from tests.harness.full_copy import config, contents, dump

_ROOT = Path(__file__).parents[3]
_TABLE = (
    "CREATE TABLE k.t (id INT NOT NULL, g POINT NOT NULL, a INT, b VARCHAR(50), c TEXT,"
    " KEY zz (a), KEY of_text (c(5), a DESC) COMMENT 'it''s\n\\\\', FULLTEXT KEY words (c),"
    " UNIQUE KEY u (b), KEY yy (b, a), KEY aa (b(3)) USING BTREE, PRIMARY KEY (id)) ENGINE=InnoDB"
)
_LATER = {"zz", "of_text", "yy", "aa"}


@pytest.fixture
def copied(pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path) -> SubTaskConfig:
    """A dump of one table with keys of every kind."""
    upstream, target = pair
    for server in pair:
        server.wipe()
    rows = ",".join(f"({n},POINT({n},1),{n % 7},'b{n}',REPEAT('word {n} ',9))" for n in range(2000))
    upstream.execute("CREATE DATABASE k", _TABLE, f"INSERT INTO k.t (id, g, a, b, c) VALUES {rows}")
    cfg = config(upstream, target, tmp_path, mode="full", extra_args="-s 20000", clean_dump_file=False)
    dump(cfg, spark)
    return replace(cfg, loader=replace(cfg.loader, keys_after_rows=True))


def _unit(cfg: SubTaskConfig, spark: SparkEngine) -> LoadUnit:
    unit = LoadUnit(cfg, spark)
    unit.late_key_bytes = 1
    return unit


def _load(cfg: SubTaskConfig, spark: SparkEngine) -> None:
    outcome = _unit(cfg, spark).run()
    assert outcome.finished, [str(error) for error in outcome.errors]


def keys_of(server: SQLServer, table: str = "k.t") -> list[str]:
    """The keys in the order in which the server shows them."""
    shown = str(server.execute(f"SHOW CREATE TABLE {table}")[0][1])
    return [line.strip().rstrip(",") for line in shown.splitlines() if " KEY " in line or line.startswith("  KEY")]


def _recorded(cfg: SubTaskConfig, server: SQLServer) -> dict[tuple[str, str], dict[str, str]]:
    with contextlib.closing(server.connect()) as conn:
        return LoaderKeys(cfg).read(conn)


def _assert_copied(pair: tuple[SQLServer, SQLServer], cfg: SubTaskConfig, table: str = "k.t") -> None:
    upstream, target = pair
    assert keys_of(target, table) == keys_of(upstream, table)
    assert contents(target, table) == contents(upstream, table)
    assert _recorded(cfg, target) == {}


@contextlib.contextmanager
def _read_meanwhile(server: SQLServer) -> Iterator[None]:
    """A transaction reads the table: DDL on it cannot end."""
    with contextlib.closing(server.connect()) as conn, conn.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT COUNT(*) FROM k.t")
        yield
        conn.rollback()


def _altering(server: SQLServer) -> list[int]:
    """The connections that create keys, or wait to do so."""
    return _connections(server, "INFO LIKE 'ALTER TABLE `k`.% ADD%'")


def _executing(server: SQLServer) -> list[int]:
    """The connections that create keys and wait for no other."""
    return _connections(server, "INFO LIKE 'ALTER TABLE `k`.% ADD%' AND STATE NOT LIKE 'Waiting%'")


def _waits_for_an_earlier_run(server: SQLServer) -> bool:
    return bool(_connections(server, "INFO LIKE 'SELECT GET_LOCK(%'"))


def _connections(server: SQLServer, condition: str) -> list[int]:
    return [int(row[0]) for row in server.execute(f"SELECT ID FROM information_schema.PROCESSLIST WHERE {condition}")]


def _wait(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_keys_are_created_after_the_rows_and_in_their_old_order(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_end: list[tuple[set[str], int]] = []
    run = key_building.KeyBuilding.run

    def spy(self: key_building.KeyBuilding, targets: Any) -> None:
        names = {str(row[2]) for row in pair[1].execute("SHOW INDEX FROM k.t")}
        at_the_end.append((names, int(pair[1].execute("SELECT COUNT(*) FROM k.t")[0][0])))
        run(self, targets)

    monkeypatch.setattr(key_building.KeyBuilding, "run", spy)
    _load(copied, spark)
    ((names, rows),) = at_the_end
    assert rows == 2000
    assert names == {"PRIMARY", "u", "words"}
    _assert_copied(pair, copied)


@pytest.mark.parametrize("how", ["switched off", "made by hand", "small"])
def test_other_tables_have_their_keys_from_the_start(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, how: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def refuse(*_: object) -> None:
        raise AssertionError("no key of this table may be removed")

    monkeypatch.setattr(key_building, "dropping", refuse)
    if how == "switched off":
        copied = replace(copied, loader=replace(copied.loader, keys_after_rows=False))
    elif how == "made by hand":
        pair[1].execute("CREATE DATABASE k", _TABLE)
    unit = LoadUnit(copied, spark) if how == "small" else _unit(copied, spark)
    assert unit.run().finished
    _assert_copied(pair, copied)


@contextlib.contextmanager
def _load_driver(cfg: SubTaskConfig, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A load in a process of its own."""
    path = folder / "cfg.pickle"
    path.write_bytes(pickle.dumps(cfg))
    with killed_driver("load_driver.py", path) as driver:
        yield driver


@contextlib.contextmanager
def killed_driver(name: str, cfg: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program of this folder; ends it and its children by kill -9."""
    driver = subprocess.Popen(
        [sys.executable, str(_ROOT / "tests/integration/full_copy" / name), str(cfg)],
        cwd=_ROOT, env={**os.environ, "PYTHONPATH": str(_ROOT)}, start_new_session=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield driver
    finally:
        _kill_9(driver)


def _kill_9(driver: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def test_after_kill_9_the_next_run_waits_for_the_statement_that_the_target_still_executes(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, tmp_path: Path
) -> None:
    upstream, target = pair
    keys = ", ".join(f"KEY k{n} (c, a{n})" for n in range(20))
    columns = ", ".join(f"a{n} INT" for n in range(20))
    upstream.execute(
        f"CREATE TABLE k.big (id INT PRIMARY KEY, c VARCHAR(32), {columns}, {keys})",
        f"INSERT INTO k.big VALUES (1, LEFT(SHA2(1, 256), 32){', 1' * 20})",
        *(
            f"INSERT INTO k.big SELECT id + {more}, LEFT(SHA2(id + {more}, 256), 32){', id' * 20} FROM k.big"
            for more in (1 << n for n in range(16))
        ),
    )
    cfg = replace(
        copied, loader=replace(copied.loader, dir=str(tmp_path / "big")),
        mydumper=replace(copied.mydumper, extra_args="-T k.big -F 1"),
    )  # fmt: skip
    dump(cfg, spark)
    with _load_driver(cfg, tmp_path) as driver:
        _wait(lambda: bool(_executing(target)) or driver.poll() is not None)
        assert driver.poll() is None, "the load ended before it could be met"
        _kill_9(driver)
    (orphan,) = _executing(target)
    outcomes: list[UnitOutcome] = []
    unit = _unit(cfg, spark)
    later = threading.Thread(target=lambda: outcomes.append(unit.run()))
    later.start()
    _wait(lambda: _waits_for_an_earlier_run(target) or not later.is_alive())
    assert _executing(target) == [orphan], outcomes
    assert unit.status().step == "creating the keys of 1 table: waiting for a statement of an earlier run"
    later.join(120)
    assert [outcome.finished for outcome in outcomes] == [True]
    _assert_copied(pair, cfg, "k.big")


def test_after_kill_9_a_statement_that_waits_at_the_target_is_waited_for_or_repeated(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, tmp_path: Path
) -> None:
    target = pair[1]
    # MariaDB ends a statement that waits for a metadata lock when its client is gone. MySQL does not.
    ends = isinstance(target, MariaDBServer)
    outcomes: list[UnitOutcome] = []
    later = threading.Thread(target=lambda: outcomes.append(_unit(copied, spark).run()))
    with _load_driver(copied, tmp_path) as driver:
        _wait(lambda: bool(_recorded(copied, target)))
        _wait(lambda: target.execute("SELECT COUNT(*) FROM k.t") == [(2000,)])
        with _read_meanwhile(target):
            _wait(lambda: bool(_altering(target)) or driver.poll() is not None)
            assert driver.poll() is None, "the load ended before it could be met"
            (orphan,) = _altering(target)
            _kill_9(driver)
            later.start()

            def is_met() -> bool:
                return _altering(target) not in ([], [orphan]) if ends else _waits_for_an_earlier_run(target)

            _wait(lambda: is_met() or not later.is_alive())
            assert later.is_alive(), outcomes
            (altering,) = _altering(target)
            assert (altering == orphan) != ends
    later.join(120)
    assert [outcome.finished for outcome in outcomes] == [True]
    _assert_copied(pair, copied)


@pytest.mark.parametrize("graceful", [True, False])
def test_a_stop_ends_the_statement_and_a_resume_repeats_it(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, graceful: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    arrived, go_on = threading.Event(), threading.Event()
    run = key_building.KeyBuilding.run

    def held(self: key_building.KeyBuilding, targets: Any) -> None:
        arrived.set()
        assert go_on.wait(120)
        run(self, targets)

    monkeypatch.setattr(key_building.KeyBuilding, "run", held)
    unit = _unit(copied, spark)
    outcomes: list[UnitOutcome] = []
    loading = threading.Thread(target=lambda: outcomes.append(unit.run()))
    loading.start()
    assert arrived.wait(120)
    with _read_meanwhile(pair[1]):
        go_on.set()
        _wait(lambda: bool(_altering(pair[1])))
        assert unit.status().progress != "100.00 %"
        assert unit.status().step == "creating the keys of 1 table"
        unit.stop(graceful=graceful)
        loading.join(60)
        assert [(outcome.canceled, outcome.errors) for outcome in outcomes] == [(True, [])]
        _wait(lambda: not _altering(pair[1]))
    assert set(_recorded(copied, pair[1])["k", "t"]) == _LATER
    assert unit.run().finished
    _assert_copied(pair, copied)


class _Crash(Exception):
    """The run ends here, as after kill -9."""


@pytest.mark.parametrize("moment", ["before the removal", "after the removal", "before the row is deleted"])
def test_a_run_after_a_crash_finds_what_the_table_lacks(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def crash(*_: object, **__: object) -> None:
        raise _Crash

    with monkeypatch.context() as patch:
        if moment == "before the removal":
            patch.setattr(key_building, "dropping", crash)
        elif moment == "after the removal":
            patch.setattr("dm_worker.loader.load_unit.check_computed", crash)
        else:
            patch.setattr(LoaderKeys, "remove", crash)
        with pytest.raises(_Crash):
            _unit(copied, spark).run()
    assert set(_recorded(copied, pair[1])["k", "t"]) == _LATER
    _load(copied, spark)
    _assert_copied(pair, copied)


def test_a_copy_that_begins_again_creates_the_keys_that_an_unfinished_one_has_put_off(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise _Crash

    with monkeypatch.context() as patch:
        patch.setattr(key_building.KeyBuilding, "run", crash)
        with pytest.raises(_Crash):
            _unit(copied, spark).run()
    pair[1].execute("TRUNCATE TABLE k.t")
    unit = _unit(copied, spark)
    unit.remove_meta()
    assert unit.run().finished
    _assert_copied(pair, copied)


def test_a_source_that_ends_first_creates_the_keys_of_merged_shards(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upstream, target = pair
    upstream.execute(
        "CREATE TABLE k.t2 LIKE k.t", "INSERT INTO k.t2 (id, g, a, b) VALUES (9000, POINT(1,1), 5, 'nine')"
    )
    route = RouteRule(schema_pattern="k", table_pattern="t2", target_schema="k", target_table="t")
    other = replace(
        copied, source_id="source-2", routes=(route,), loader=replace(copied.loader, dir=str(tmp_path / "other")),
        mydumper=replace(copied.mydumper, extra_args="-T k.t2"),
    )  # fmt: skip
    dump(other, spark)
    run = key_building.KeyBuilding.run
    seen: list[list[str]] = []

    def spy(self: key_building.KeyBuilding, targets: Any) -> None:
        if not seen:
            # The first source has loaded its rows: now the second loads, and ends.
            seen.append([])
            _load(other, spark)
            seen[0] = keys_of(target)
        run(self, targets)

    monkeypatch.setattr(key_building.KeyBuilding, "run", spy)
    _load(copied, spark)
    assert seen[0] == keys_of(upstream)
    assert keys_of(target) == keys_of(upstream)
    assert target.execute("SELECT COUNT(*) FROM k.t") == [(2001,)]
    assert _recorded(copied, target) == {}


def test_a_refused_key_is_an_error_that_names_the_table_and_the_way_on(
    pair: tuple[SQLServer, SQLServer], copied: SubTaskConfig, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = key_building.KeyBuilding.run

    def without_column(self: key_building.KeyBuilding, targets: Any) -> None:
        if pair[1].execute("SHOW COLUMNS FROM k.t LIKE 'c'"):
            pair[1].execute("ALTER TABLE k.t CHANGE c moved TEXT")
        run(self, targets)

    monkeypatch.setattr(key_building.KeyBuilding, "run", without_column)
    (error,) = _unit(copied, spark).run().errors
    assert error.code == 34001
    assert "`k`.`t`" in error.message
    assert "ADD KEY `of_text`" in error.workaround
    monkeypatch.setattr(key_building.KeyBuilding, "run", run)
    pair[1].execute("ALTER TABLE k.t CHANGE moved c TEXT")
    _load(copied, spark)
    _assert_copied(pair, copied)
