"""Hazard: the stored position passes a write that nobody has compared; or the status claims what is not so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deploy.local.process import wait_until
from dm_worker.foreign_writes import watcher
from dm_worker.foreign_writes.known_tables import WriterKind
from dm_worker.foreign_writes.log_reading import OtherFileError
from dm_worker.foreign_writes.progress_table import ReadProgress
from dm_worker.foreign_writes.suspects import Suspects, TableWrites
from dm_worker.foreign_writes.target_binlog import TargetBinlog, look_at
from dm_worker.foreign_writes.watcher import ForeignWrites
from dm_worker.foreign_writes.write_sorter import WriteSorter
from pkg import errors
from pkg.binlog.position import FileIdentity, Location, Position
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)
CFG = SubTaskConfig(name="t1", source_id="s1", task_mode="all", from_=SERVER, to=SERVER, flavor="mysql")
FILE = FileIdentity("bin.000001", 1, 100)


def at(offset: int) -> Position:
    return Position(FILE.name, offset)


def write(key: bytes = b"1") -> Suspects:
    return Suspects({("d", "t"): TableWrites(("id",), {(key,)}, rows=1)})


PURGED = errors.new(Code.SyncerGetEvent, "the server does not send it", raw="ERROR 1236: purged", workaround="-")
BROKEN = errors.new(Code.SyncerGetEvent, "the stream broke", raw="gone", workaround="-", retryable=True)


class Target:
    """A target whose binlog has what a test puts into it; its table keeps what is stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.look: TargetBinlog | DMError = TargetBinlog("", "mysql", Location(at(100)))
        self.stored: ReadProgress | None = None
        self.starts: list[Position] = []
        #: Called before a position is stored.
        self.writing: Callable[[], object] = int
        self._steps: list[tuple[int, Suspects] | Exception] = []
        self._changed = threading.Condition()
        monkeypatch.setattr(watcher, "look_at", self._look)
        monkeypatch.setattr(watcher, "log_reading", self._log_reading)
        monkeypatch.setattr(watcher, "ReadProgressTable", lambda _: self)
        for name in ("_RETRY", "_REFUSED", "_STORE_SECONDS"):
            monkeypatch.setattr(watcher, name, 0.01)
        monkeypatch.setattr(watcher, "_STORE_BYTES", 1)

    def put(self, *steps: tuple[int, Suspects] | Exception) -> None:
        """The next transactions: where each ends, and what others wrote in it; or an error of the stream."""
        with self._changed:
            self._steps += steps
            self._changed.notify_all()

    def _look(self, _: DBConfig) -> TargetBinlog:
        if isinstance(self.look, DMError):
            raise self.look
        return self.look

    @contextmanager
    def _log_reading(
        self, _: SubTaskConfig, __: str, sorter: WriteSorter, files: dict[str, FileIdentity]
    ) -> Iterator[Any]:
        self.starts.append(sorter.boundary)
        files.setdefault(FILE.name, FILE)
        target = self

        class Reading:
            def read(self, _: float) -> Suspects:
                with target._changed:
                    target._changed.wait_for(lambda: target._steps, 0.01)
                    step = target._steps.pop(0) if target._steps else None
                if isinstance(step, Exception):
                    raise step
                if step is None:
                    return Suspects()
                sorter.boundary = at(step[0])
                return step[1]

        yield Reading()

    def read(self) -> ReadProgress | None:
        return self.stored

    def write(self, progress: ReadProgress) -> None:
        self.writing()
        self.stored = progress

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    return Target(monkeypatch)


@contextmanager
def watching(_: Target) -> Iterator[ForeignWrites]:
    watched = ForeignWrites(CFG)
    watched.follow(True)
    try:
        yield watched
    finally:
        watched.join()


def wait_text(watched: ForeignWrites, text: str, seconds: float | None = 0.0) -> None:
    wait_until(lambda: text in watched.text(seconds), lambda: f"{text}: {watched.text(seconds)}")


def wait_stored(target: Target, position: Position) -> None:
    wait_until(
        lambda: target.stored is not None and target.stored.position == position, lambda: f"stored: {target.stored}"
    )


def test_it_begins_at_the_end_and_stores_that_first(target: Target) -> None:
    target.put(BROKEN)
    with watching(target):
        wait_until(lambda: len(target.starts) == 2, "the stream is opened again")
    assert target.starts == [at(100), at(100)]
    assert target.stored is not None
    assert target.stored.position == at(100)


def test_the_stored_position_waits_for_the_comparison(target: Target) -> None:
    with watching(target) as watched:
        target.put((200, Suspects()), (300, write()), (400, Suspects()))
        wait_text(watched, f"read up to {at(400)}; 0 row changes of others; not all compared yet")
        wait_stored(target, at(200))
        watched.show_wait(lambda: "replication is 20 s behind")
        assert "not all compared yet: replication is 20 s behind" in watched.text(0.0)
        watched.show_wait(str)
        assert watched.are_waiting
        assert watched.take() == write()
        assert (watched.are_waiting, watched.take()) == (False, Suspects())
        # While it is compared, the next one comes.
        target.put((500, write(b"2")))
        wait_text(watched, f"read up to {at(500)}")
        watched.compared(1, "")
        wait_text(watched, "1 row changes of others; not all compared yet")
        assert target.stored is not None
        assert target.stored.position == at(200)
        assert watched.take() == write(b"2")
        watched.compared(1, "tables not compared: 1")
        wait_text(watched, "2 row changes of others; all compared; tables not compared: 1")
        watched.sweep_ended("any round")
        assert watched.text(0.0).endswith("2 row changes of others; all compared")
        wait_stored(target, at(500))
    assert target.stored == ReadProgress(at(500), FILE, 2)


def test_the_next_worker_reads_again_what_was_not_compared(target: Target) -> None:
    target.stored = ReadProgress(at(50), FILE, 7)
    with watching(target) as watched:
        target.put((200, write()))
        wait_text(watched, "7 row changes of others; not all compared yet")
        watched.take()
    assert target.stored == ReadProgress(at(50), FILE, 7)
    with watching(target) as watched:
        wait_until(lambda: len(target.starts) == 2, "it reads")
    assert target.starts == [at(50), at(50)]


@pytest.mark.parametrize("lost", [PURGED, OtherFileError("the target's binlog is another one")])
def test_after_a_gap_it_goes_on_and_says_so_until_a_later_round_has_ended(target: Target, lost: Exception) -> None:
    target.stored = ReadProgress(at(50), FILE)
    gap = f"writes of others from {at(50)} to {at(100)} are found by the sweep only"
    with watching(target) as watched:
        watched.sweep_begins("earlier")
        target.put(lost)
        wait_text(watched, gap)
        wait_until(lambda: target.starts == [at(50), at(100)], lambda: f"it goes on: {target.starts}")
        watched.sweep_ended("earlier")
        assert gap in watched.text(0.0)
    assert target.stored.gap.startswith(gap)
    with watching(target) as watched:
        wait_text(watched, gap)
        watched.sweep_begins("later")
        assert gap in watched.text(0.0)
        watched.sweep_ended("later")
        assert gap not in watched.text(0.0)
    assert target.stored.gap == ""


def test_the_sweep_is_named_where_the_binlog_is_not_read(target: Target) -> None:
    target.look = TargetBinlog("a TiDB has no binlog")
    with watching(target) as watched:
        wait_text(watched, "sweep, a whole round takes 50 s, because a TiDB has no binlog", 50.0)
        assert watched.text(0.0) == "sweep, a whole round has not ended yet, because a TiDB has no binlog"
        assert watched.text(None) == "not found, because a TiDB has no binlog"
        target.look = errors.new(Code.DBBadConn, "no route", workaround="-")
        wait_text(watched, "because no route")
        target.look = TargetBinlog("", "mysql", Location(at(100)))
        wait_until(lambda: target.starts == [at(100)], "it reads")
        target.put((200, Suspects()))
        wait_text(watched, "target's binlog, read up to")
    assert not watched.are_waiting


def test_a_defect_is_shown_and_reading_goes_on(target: Target) -> None:
    target.put(ZeroDivisionError("oops"))
    with watching(target) as watched:
        wait_until(lambda: len(target.starts) == 2, "the stream is opened again")
        target.put((200, write()))
        wait_text(watched, "read up to")
    assert target.starts == [at(100), at(100)]


def test_it_goes_on_when_it_is_wanted_again_while_it_ends(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only its end stores the position.
    monkeypatch.setattr(watcher, "_STORE_SECONDS", 1000.0)
    with watching(target) as watched:
        target.put((200, write()))
        wait_text(watched, "read up to")
        ends, may_end = threading.Event(), threading.Event()

        def wait() -> None:
            ends.set()
            may_end.wait()

        watched.take()
        watched.compared(1, "")
        target.writing = wait
        watched.follow(False)
        assert ends.wait(60)
        watched.follow(True)
        target.writing = int
        may_end.set()
        target.put((300, write(b"2")))
        wait_text(watched, f"read up to {at(300)}")


def test_what_was_found_of_tables_before_a_statement_of_the_task_does_not_count_after_it(target: Target) -> None:
    with watching(target) as watched:
        target.put((200, write()))
        wait_text(watched, f"read up to {at(200)}")
        watched.take()
        known = watched._known  # what the thread asks
        watched.add_others([("app", "t")])
        assert known.kind(("app", "t"), b"\3app\0\1t\0") is WriterKind.OTHER
        watched.restructured()
        assert known.kind(("app", "t"), b"\3app\0\1t\0") is WriterKind.TARGET
        watched.add_others([("app", "t")])
        assert known.kind(("app", "t"), b"\3app\0\1t\0") is WriterKind.TARGET
        assert known.other_names == b""


class Answers:
    """A server's session."""

    def __init__(self, version: str) -> None:
        self._version = version
        self.closed = False

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def cursor(self, *_: object) -> Answers:
        return self

    def execute(self, sql: str, _: object = None) -> None:
        self._sql = sql

    def fetchall(self) -> list[tuple[str]]:
        return [(self._version if "VERSION()" in self._sql else "0",)]

    def close(self) -> None:
        self.closed = True


def test_a_tidb_has_no_binlog(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Answers("8.0.11-TiDB-v8.5.1")
    monkeypatch.setattr("dm_worker.foreign_writes.target_binlog.connect", lambda *_, **__: session)
    assert look_at(SERVER) == TargetBinlog("a TiDB has no binlog")
    assert session.closed
