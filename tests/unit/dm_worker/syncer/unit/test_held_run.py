"""Hazards: a run that is held has applied something else than the transactions up to the location; a hold makes a run
apply a transaction twice or never."""

from __future__ import annotations

import itertools
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deploy.local.process import WAIT_TIMEOUT, wait_until
from dm_worker.syncer.ddl.statement_effect import StatementEffect
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.batch_policy import BatchLimits, Budget
from dm_worker.syncer.planning.instructions import Advance, BinlogStatement
from dm_worker.syncer.unit import run
from dm_worker.syncer.unit.assembly import RunAssembly, RunParts
from dm_worker.syncer.unit.hold import NOT_REPLICATING, Hold
from dm_worker.syncer.unit.monitor import Monitor
from dm_worker.syncer.unit.run import SyncRun
from dm_worker.syncer.unit.stream_opener import StreamOpener
from pkg.binlog.events import Event
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.framing import FileFramer
from pkg.binlog.streams.stream import RawScan, aborted
from pkg.config.model import SubTaskConfig, Until
from pkg.settings.connections import DBConfig
from tests.unit.dm_worker.syncer.planning.support import resolve, start, tags
from tests.unit.dm_worker.syncer.planning.test_cut_points import FILE, History

#: Of a hold (seconds).
LIMIT = 30.0
SERVER = DBConfig("127.0.0.1", 1, "root")


class Upstream:
    """A binlog that grows while it is read."""

    def __init__(self, flavor: str) -> None:
        self.log = History(flavor=flavor)
        self.log.now = 100
        self.lock = threading.Lock()
        self._tag = itertools.count()
        self._rng = random.Random(7)
        self.opened = 0
        #: The file behind its magic bytes.
        self._data = bytearray()

    def write(self) -> None:
        with self.lock:
            words = ["rows", "rows", "filtered"]
            kind = self._rng.random()
            some = [self._rng.choice(words) for _ in range(self._rng.randint(0, 6))]
            known = len(self.log.events)
            self.log.write(None if kind < 0.02 else ["filtered"] if kind < 0.2 else some, self._tag)
            for event in self.log.events[known:]:
                self._data += event.data + zlib.crc32(event.data).to_bytes(4, "little")
            assert len(self._data) == self.log.offset - 4

    def end(self) -> Location:
        with self.lock:
            return Location(Position(FILE, self.log.offset), self.log.gtid_set(len(self.log.known)))

    def after(self, offset: int) -> tuple[bytes, int]:
        """What is behind ``offset``, and where that ends."""
        with self.lock:
            return bytes(self._data[offset - 4 :]), self.log.offset

    def rows_up_to(self, place: Location) -> list[int]:
        with self.lock:
            return self.log.rows_of(self.log.after(place.position.pos))

    @contextmanager
    def growing(self) -> Iterator[None]:
        ends = threading.Event()

        def grow() -> None:
            while not ends.wait(0.0005):
                self.write()

        thread = threading.Thread(target=grow, daemon=True)
        thread.start()
        yield
        ends.set()
        thread.join(WAIT_TIMEOUT)


class Stream:
    """A stream of an upstream from a location on."""

    file = FILE

    def __init__(self, upstream: Upstream, location: Location) -> None:
        self._upstream = upstream
        self._at = location.position.pos
        self._framer = FileFramer(file=FILE)
        self._framer.checksummed = True
        self._aborted = False
        upstream.opened += 1

    def read(self, max_bytes: int, timeout: float, scan: RawScan | None = None) -> list[Event]:
        if self._aborted:
            raise aborted()
        data, self._at = self._upstream.after(self._at)
        if not data and not self._framer.pending:
            time.sleep(timeout)
            return []
        self._framer.feed(data)
        if scan is not None and self._framer.scan(scan):
            return []
        return self._framer.split(2000)

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self._aborted = True


class Runner:
    """Applies batches to a list."""

    def __init__(self) -> None:
        self.applied = self.flushed = start()
        self.has_unflushed = False
        self.prepared: dict[bytes, Location] = {}
        self.rows: list[int] = []
        self.total_rows = self.batch_bytes = 0
        self.pause = 0.0
        #: What wakes the main loop when there is a decision about merged shards.
        self.wakes: list[Callable[[], None]] = []
        self.looks = 0

    def apply(self, batch: Batch, redo: object) -> None:
        assert (batch.start.position, batch.start.rows_events) == (self.applied.position, self.applied.rows_events)
        time.sleep(self.pause)
        self.rows += tags([batch])
        self.applied, self.has_unflushed = batch.end, True

    def advance(self, item: Advance) -> None:
        self.applied = self.flushed = item.location
        self.has_unflushed = False

    def statement(self, statement: BinlogStatement, barrier: object) -> StatementEffect:
        self.applied = self.flushed = statement.end
        return StatementEffect()

    def follow_decisions(self) -> bool:
        self.looks += 1
        return False

    def watched_by_observer(self) -> None:
        """Nobody observes these batches."""

    def note(self) -> None:
        self.flushed, self.has_unflushed = self.applied, False

    flush = note


def nothing(*_: object, **__: object) -> None:
    return None


def parts(runner: Runner) -> RunParts:
    sharding = SimpleNamespace(
        reread=None,
        needs_new_pass=False,
        follow_decisions=runner.follow_decisions,
        due=nothing,
        start=runner.wakes.append,
        stop=nothing,
        oldest_needed=None,
    )
    keys = SimpleNamespace(look=nothing, passed=nothing, changed=nothing)
    registry = SimpleNamespace(resolve=resolve, forget=nothing)
    made = SimpleNamespace(
        runner=runner, barrier=None, registry=registry, keys=keys, sharding=sharding, redo=None, takeover=None
    )
    return cast(RunParts, made)


class HeldRun:
    """A run in a thread, with its hold."""

    def __init__(self, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.hold, self.runner, self.stopping = Hold(), Runner(), threading.Event()
        monkeypatch.setattr(RunAssembly, "take_over", lambda _: parts(self.runner))
        monkeypatch.setattr(StreamOpener, "open", lambda _, location: Stream(upstream, location))
        monkeypatch.setattr(Monitor, "start", nothing)
        cfg = SubTaskConfig("t", "s", "incremental", SERVER, SERVER, **{"flavor": upstream.log.flavor, **changes})
        engine = SimpleNamespace(memory=1 << 30, parallel=2, await_slots=nothing)
        self.run = SyncRun(cfg, cast(Any, engine), "group", self.stopping.is_set, hold=self.hold)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        try:
            self.run.work()
        except BaseException as exc:  # noqa: BLE001 - shown by the test
            self.failure = exc
        finally:
            # As SyncRun.close does it.
            self.hold.run_ended()

    def wait(self, done: Callable[[], bool], what: str) -> None:
        wait_until(lambda: self.failure is not None or done(), what)
        assert self.failure is None, self.failure

    def join(self) -> None:
        self._thread.join(WAIT_TIMEOUT)
        assert not self._thread.is_alive()
        assert self.failure is None, self.failure

    def stop(self) -> None:
        self.stopping.set()
        self.join()
        # The connections of the run were never opened; the planning thread is.
        planning = self.run._planning
        if planning is not None:
            planning.stop()


@pytest.fixture(params=["mysql-position", "mariadb-position", "mysql-gtid", "mariadb-gtid"])
def way(request: pytest.FixtureRequest) -> tuple[str, bool]:
    flavor, by = request.param.split("-")
    return flavor, by == "gtid"


@pytest.mark.parametrize(("freeze", "small"), [(True, False), (False, False), (True, True)])
def test_each_hold_is_exactly_where_the_upstream_was(
    way: tuple[str, bool], freeze: bool, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``freeze``: first held where it is, so that nothing later can be applied. ``small``: batches end inside
    transactions."""
    if small:
        monkeypatch.setattr(Budget, "limits", lambda *_: BatchLimits(150, 3, 80))
    upstream = Upstream(way[0])
    held = HeldRun(upstream, monkeypatch, enable_gtid=way[1])
    held.runner.pause = 0.0 if small else 0.005
    done = late = 0
    with upstream.growing():
        held.wait(lambda: bool(held.runner.rows), "rows are applied")
        for _ in range(50):
            if freeze:
                assert held.hold.at(None, LIMIT).is_held, held.failure
            place = upstream.end()
            state = held.hold.at(place, LIMIT)
            assert held.failure is None, held.failure
            if not state.is_held:
                assert not freeze, state
                assert state.reason == "the location is passed"
                late += 1
                continue
            assert state.location is not None
            assert state.location.gtid_set == (place.gtid_set if way[1] else state.location.gtid_set)
            assert held.runner.rows == upstream.rows_up_to(place)
            before = len(held.runner.rows)
            time.sleep(0.002)
            assert len(held.runner.rows) == before
            held.hold.release()
            done += 1
    assert done + late == 50
    assert done == 50 or not freeze
    end = upstream.end()
    held.wait(lambda: held.runner.applied.position == end.position, "all is applied")
    held.stop()
    assert held.runner.rows == upstream.rows_up_to(end)


def test_a_run_without_events_holds_at_once_and_a_location_that_it_has_applied_is_refused(
    way: tuple[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(way[0])
    held = HeldRun(upstream, monkeypatch, enable_gtid=way[1])
    for _ in range(20):
        upstream.write()
    before = upstream.end()
    upstream.write()
    end = upstream.end()
    held.wait(lambda: held.runner.flushed.position == end.position, "all is applied")
    opened = upstream.opened
    assert held.hold.at(end, LIMIT).is_held, held.failure
    held.hold.release()
    assert upstream.opened == opened, "the planner was at the location"
    state = held.hold.at(before, WAIT_TIMEOUT)
    assert (state.reason, state.location) == ("the location is passed", held.runner.flushed)
    held.stop()


def test_the_end_of_the_time_limit_and_of_the_run_end_a_hold(
    way: tuple[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(way[0])
    held = HeldRun(upstream, monkeypatch, enable_gtid=way[1])
    upstream.write()
    held.wait(lambda: held.runner.applied.position == upstream.end().position, "all is applied")
    assert held.hold.at(None, 0.3).is_held
    upstream.write()
    held.wait(lambda: held.runner.applied.position == upstream.end().position, "the limit has passed")
    assert held.hold.at(None, LIMIT).is_held, held.failure
    upstream.write()
    rows = list(held.runner.rows)
    held.stop()
    held.hold.run_ended()
    assert held.runner.rows == rows
    assert held.hold.at(None, 1.0).reason == NOT_REPLICATING


def test_an_idle_run_is_woken_by_a_hold_a_decision_about_shards_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_IDLE_WAIT", 10 * WAIT_TIMEOUT)
    upstream = Upstream("mysql")
    held = HeldRun(upstream, monkeypatch)
    upstream.write()
    held.wait(lambda: held.runner.flushed.position == upstream.end().position, "all is applied")
    held.wait(lambda: held.run._queue.idle, "the main loop waits")
    assert held.hold.at(None, LIMIT).is_held, held.failure
    held.hold.release()
    held.wait(lambda: held.run._queue.idle, "the main loop waits again")
    looks = held.runner.looks
    (wake,) = held.runner.wakes
    wake()
    held.wait(lambda: held.runner.looks > looks, "it looks for decisions")
    held.stopping.set()
    held.hold.run_ended()
    held.stop()


@pytest.mark.parametrize("seed", range(6))
def test_a_task_ends_exactly_at_its_end(way: tuple[str, bool], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream(way[0])
    for _ in range(random.Random(seed).randint(0, 300)):
        upstream.write()
    place = upstream.end()
    until = Until(binlog_gtid=place.gtid_set) if way[1] else Until(FILE, place.position.pos)
    if not (place.gtid_set or not way[1]):
        until = Until(FILE, place.position.pos)
    for _ in range(random.Random(-seed).randint(0, 300)):
        upstream.write()
    held = HeldRun(upstream, monkeypatch, enable_gtid=way[1], until=until)
    held.join()
    held.stop()
    assert held.run.finished is not None
    assert held.runner.rows == upstream.rows_up_to(place)


def test_a_task_ends_by_time(way: tuple[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream(way[0])
    for _ in range(50):
        upstream.write()
    place = upstream.end()
    upstream.log.now = 200
    held = HeldRun(upstream, monkeypatch, enable_gtid=way[1], until=Until(time=150))
    with upstream.growing():
        held.join()
    held.stop()
    assert held.runner.rows == upstream.rows_up_to(place)
