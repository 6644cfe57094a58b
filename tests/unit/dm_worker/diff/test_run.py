"""A comparison from its start to its end: what happens to tables whose servers, rows or structures make trouble."""

from __future__ import annotations

import contextlib
import copy
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from deploy.local.process import wait_until
from dm_worker.comparison.outcome import ChunkOutcome, Difference, DifferenceKind
from dm_worker.comparison.pair import ComparedColumn, TablePair, TableSide, Way
from dm_worker.comparison.value_forms import Reading
from dm_worker.diff import compare_task, confirmations
from dm_worker.diff import run as diff_run
from dm_worker.diff.compare_task import ComparedTable
from dm_worker.diff.difference_files import DifferenceFiles
from dm_worker.diff.progress import ChunkRepair, ChunkWork, DiffProgress, TableProgress
from dm_worker.diff.run import DiffRun, DiffSurroundings
from dm_worker.diff.snapshot_pair import PairServers, SnapshotPair, no_pair
from dm_worker.diff.state_table import FINISHED, RUNNING, DiffRecord, DiffSettings, DiffStateTable
from dm_worker.diff.tables import ChunkPlan, not_compared
from dm_worker.engine.engine import SparkEngine
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.names import TableId
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)
T, U = ("db", "t"), ("db", "u")
COLUMNS = tuple(ComparedColumn(name, Reading.SAME) for name in ("id", "v"))
MATCHES = (("`id` <=> ", ""), ("`v` <=> ", ""))
MISSING = Difference(DifferenceKind.MISSING, (b"1",), ("id", "v"), (b"1", b"'a'"), None, 0)


def pair_of(target: TableId, key: tuple[int, ...] = (0,)) -> TablePair:
    side = TableSide(*target, 0, ("`id`", "`v`"), (), ())
    return TablePair(side, (side,), COLUMNS, key, key, Way.PUSHED, "")


class World:
    """The servers: ``looks`` are what each look at a table gives, in turn; the last one is repeated."""

    def __init__(self, looks: dict[TableId, list[Sequence[Difference] | DMError]], chunks: int = 2) -> None:
        self.looks = looks
        self.chunks = chunks
        self.pairs: list[DMError] = []
        self.held: frozenset[TableId] = frozenset()
        self.repaired: list[Difference] = []
        self.notes: dict[TableId, dict[int, ChunkRepair]] = {}
        #: Whether the task that repairs dies before it answers.
        self.dies = False
        #: Repairs of tasks that were taken for dead, which are committed before the next one.
        self.late: list[ChunkWork] = []
        self.exact = True
        self.in_snapshots = True
        #: Bytes per second of the network, and whether each look read whole rows.
        self.speed = 1e12
        self.whole: list[bool] = []
        self.plans: dict[TableId, DMError] = {}
        #: The keys of the tables, and those that they get with the next looks.
        self.key: tuple[int, ...] = (0,)
        self.keys: list[tuple[int, ...]] = []
        #: Why tables are not called equal.
        self.unjudged: dict[TableId, str] = {}
        self.stored: dict[str, Any] = {}

    # the engine

    slots = 8

    @contextlib.contextmanager
    def job_group(self, *_: object) -> Iterator[World]:
        yield self

    def cancel(self, _: str) -> None:
        """No job runs in another thread."""

    def parallelize(self, shares: Sequence[Any], _: int) -> World:
        self._shares = shares
        return self

    def mapPartitions(self, work: Callable[[Iterator[Any]], Iterator[Any]]) -> World:
        self._work = work
        return self

    def collect(self) -> list[Any]:
        reports = [report for share in self._shares for report in self._work(iter([share]))]
        if self.repaired and self.dies:
            self.dies = False
            raise RuntimeError("the task's process died after its commit")
        return reports

    # a task's sessions

    @contextlib.contextmanager
    def open_pair(self, servers: PairServers, _: int) -> Iterator[SnapshotPair]:
        if self.pairs:
            raise self.pairs.pop(0)
        yield SnapshotPair((), cast(Any, self), "s1 (bin.000001, 4)", self.held, self.exact)

    def commit(self) -> None:
        """Nothing is open."""

    def compare(
        self, _: object, __: object, pair: TablePair, *___: object, report: Any, whole: bool, **____: object
    ) -> ChunkOutcome:
        self.whole.append(whole)
        target = (pair.target.schema, pair.target.name)
        self.key = self.keys.pop(0) if self.keys else self.key
        looks = self.looks[target]
        found = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(found, DMError):
            raise found
        report(found)
        return ChunkOutcome((5, 5), 50, "checksums")

    def repair(self, _: object, __: object, found: Sequence[Difference]) -> int:
        self.repaired += found
        return len(found)

    # the notes of repairs, which are committed with the rows

    table = "state"

    def repair_notes(self, _: str) -> World:
        return self

    def plan_repairs(self, _: str, planned: Mapping[ChunkWork, tuple[int, int]]) -> None:
        for work in self.late if self.notes else ():
            self.add(None, work, 1)
        for work, ends in planned.items():
            self.notes.setdefault(work.target, {})[work.number] = ChunkRepair(ends)

    def read_repairs(self, _: str) -> dict[TableId, dict[int, ChunkRepair]]:
        return copy.deepcopy(self.notes)

    def add(self, _: object, work: ChunkWork, rows: int) -> int:
        known = self.notes[work.target][work.number]
        self.notes[work.target][work.number] = replace(known, rows=known.rows + rows, is_done=True)
        return known.rows + rows

    # the finder and the state

    def __call__(self, *_: object) -> World:
        return self

    def refresh(self) -> None:
        """The tables stay the same."""

    def find(self) -> list[TableProgress]:
        return [TableProgress(target, (f"s1: {target}",), 10) for target in self.looks]

    def sources_of(self, _: TableId) -> tuple[str, ...]:
        return ("s1",)

    def feeding(self) -> tuple[SubTaskConfig, ...]:
        return ()

    def config(self, _: str) -> SubTaskConfig:
        return config("mariadb")

    def plan(self, target: TableId) -> ChunkPlan:
        if target in self.plans:
            raise self.plans[target]
        spans = [json.dumps([[str(number)], []]) for number in range(self.chunks)]
        pair = self._pair(target)
        return ChunkPlan(pair.outline, spans, pair.unjudged)

    def compared(self, targets: Sequence[TableId]) -> dict[TableId, ComparedTable]:
        return {target: ComparedTable(self._pair(target), (), MATCHES) for target in targets}

    def _pair(self, target: TableId) -> TablePair:
        unjudged = self.unjudged.get(target, "")
        return replace(pair_of(target, self.key), in_snapshots=self.in_snapshots, unjudged=unjudged)

    def note(self, record: DiffRecord) -> None:
        self.stored["stage"] = record.stage

    def note_table(self, _: str, table: TableProgress) -> None:
        self.stored[table.target[1]] = table.reason or table.unjudged

    def note_chunk(self, _: str, target: TableId, number: int, chunk: object) -> None:
        self.stored[f"{target[1]} {number}"] = chunk

    def forget_chunks(self, _: str, chunks: Sequence[object]) -> None:
        self.stored["forgotten"] = len(chunks)


def config(flavor: str) -> SubTaskConfig:
    return SubTaskConfig(name="t1", source_id="s1", task_mode="all", from_=SERVER, to=SERVER, flavor=flavor)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., DiffRun]:
    def made(world: World, flavor: str = "mariadb", lag: Callable[[], int] = lambda: 0, **settings: Any) -> DiffRun:
        monkeypatch.setattr(compare_task, "open_pair", world.open_pair)
        monkeypatch.setattr(compare_task, "compare_chunk", world.compare)
        monkeypatch.setattr(compare_task, "measured_speed", lambda _: world.speed)
        monkeypatch.setattr(compare_task, "_check_shapes", lambda *_: None)
        monkeypatch.setattr(compare_task, "apply_repairs", world.repair)
        monkeypatch.setattr(diff_run, "TableFinder", world)
        monkeypatch.setattr(diff_run, "_RETRY", 0.01)
        around = DiffSurroundings(cast(SparkEngine, world), cast(Any, world), lag, list, list)
        files = DifferenceFiles(tmp_path / "files", redact=False)
        record = DiffRecord("r1", 1.0, RUNNING, DiffSettings(sources=("s1",), **settings))
        repairs = world if record.settings.repair else None
        return DiffRun(
            config(flavor), around, cast(DiffStateTable, world), files, record, DiffProgress(()),
            repairs=cast(DiffStateTable, repairs),
        )  # fmt: skip

    return made


def lost(table: str = "t") -> DMError:
    return errors.new(Code.DBBadConn, f"the connection was lost on {table}", retryable=True)


def test_all_chunks_of_all_tables_are_compared_and_stored(start: Callable[..., DiffRun]) -> None:
    world = World({T: [()], U: [()]})
    run = start(world)
    run.work()
    assert run.progress.verdict() == "equal"
    assert run.record.stage == world.stored["stage"] == FINISHED
    assert {"t 0", "t 1", "u 0", "u 1"} <= set(world.stored)


@pytest.mark.parametrize(
    ("speed", "settings", "whole"),
    [
        (1e12, {}, True),
        (1.0, {}, False),
        (1e12, {"bytes_per_second": 1 << 40}, False),
        (1e12, {"rows_per_second": 1 << 40}, False),
    ],
    ids=["fast network", "slow network", "limited bytes", "sweep"],
)
def test_rows_are_read_whole_only_where_nothing_limits_it(
    start: Callable[..., DiffRun], speed: float, settings: dict[str, int], whole: bool
) -> None:
    world = World({T: [()]})
    world.speed = speed
    start(world, threads=1, **settings).work()
    assert world.whole == [False, whole]


def test_differences_are_in_the_file_before_they_are_stored(start: Callable[..., DiffRun], tmp_path: Path) -> None:
    world = World({T: [[MISSING], ()]})
    run = start(world)
    run.work()
    assert run.progress.verdict() == "different"
    lines = (tmp_path / "files" / "differences.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == [{"id": "1"}]
    assert run.progress.ends == [(len(lines[0]) + 1, (tmp_path / "files" / "repairs.sql").stat().st_size)]


def test_temporary_failures_are_retried(start: Callable[..., DiffRun]) -> None:
    world = World({T: [lost(), lost(), ()]})
    world.pairs = [no_pair("the syncer was not held"), no_pair("again"), lost()]
    run = start(world)
    run.work()
    assert run.progress.verdict() == "equal"
    assert run.waits_for == ""


def test_a_table_that_cannot_be_read_is_named_and_the_others_are_compared(start: Callable[..., DiffRun]) -> None:
    denied = errors.new(Code.DBExecuteFailed, "SELECT command denied", scope="upstream")
    world = World({T: [denied], U: [()]})
    run = start(world)
    run.work()
    assert "denied" in run.progress.tables[T].reason
    assert "denied" in world.stored["t"]
    assert run.progress.tables[U].state == "equal"
    assert run.progress.verdict() == "not compared"


def test_a_table_whose_filters_explain_differences_is_not_called_equal(start: Callable[..., DiffRun]) -> None:
    world = World({T: [()], U: [()]})
    world.unjudged[T] = "missing rows are not judged"
    run = start(world)
    run.work()
    assert {target: str(table.state) for target, table in run.progress.tables.items()} == {
        T: "not compared",
        U: "equal",
    }
    assert world.stored["t"] == run.progress.tables[T].shown_reason == "missing rows are not judged"
    assert run.progress.verdict() == "not compared"


def test_a_table_that_changes_at_each_attempt_is_abandoned(start: Callable[..., DiffRun]) -> None:
    changed = compare_task.changed(pair_of(T).target)
    run = start(World({T: [changed], U: [()]}))
    run.work()
    assert "changed while it was compared" in run.progress.tables[T].reason


def test_a_table_whose_key_changes_is_compared_from_its_start(start: Callable[..., DiffRun]) -> None:
    """Its chunks were ranges of the old key: of the new one they would be other rows."""
    world = World({T: [[MISSING], lost(), ()]})
    world.keys = [(1,)]
    run = start(world)
    run.work()
    assert run.progress.verdict() == "equal"
    assert world.stored["forgotten"] == 1
    # The first two looks, then both chunks again.
    assert len(world.whole) == 4


def test_a_table_that_cannot_be_planned_is_named(start: Callable[..., DiffRun]) -> None:
    world = World({T: [()], U: [()]})
    world.plans[T] = not_compared(T, "there is no table `db`.`t` at the target")
    run = start(world)
    run.work()
    assert run.progress.tables[T].state == "not compared"
    assert run.progress.tables[U].state == "equal"


def test_held_back_rows_are_waited_for(start: Callable[..., DiffRun]) -> None:
    world = World({T: [()]})
    world.held = frozenset({T})
    waits: list[str] = []

    def lag() -> int:
        waits.append(run.waits_for)
        if len(waits) == 8:
            world.held = frozenset()
        return 0

    run = start(world, lag=lag)
    run.work()
    assert any("held back" in text for text in waits)
    assert run.progress.verdict() == "equal"


def test_a_lag_is_waited_for(start: Callable[..., DiffRun], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_run, "_LAG_POLL", 0.01)
    lags = iter([100, 50, *[0] * 100])
    run = start(World({T: [()]}), lag=lambda: next(lags))
    run.work()
    assert run.progress.verdict() == "equal"


def test_where_positions_are_not_exact_a_difference_must_last(
    start: Callable[..., DiffRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmations, "SETTLE", 0.1)
    world = World({T: [[MISSING], [MISSING], ()]}, chunks=1)
    world.exact = False
    passing = start(world, "mysql")
    passing.work()
    assert passing.progress.verdict() == "equal"
    world = World({T: [[MISSING]]}, chunks=1)
    world.exact = False
    lasting = start(world, "mysql")
    lasting.work()
    assert lasting.progress.verdict() == "different"
    exact = start(World({T: [[MISSING], ()]}, chunks=1), "mysql")
    exact.work()
    assert exact.progress.verdict() == "different"


def test_where_an_engine_has_no_snapshots_a_difference_must_last_and_is_not_repaired(
    start: Callable[..., DiffRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a repair wrote could be of a later time than the position from which replication continues."""
    monkeypatch.setattr(confirmations, "SETTLE", 0.1)
    for looks, verdict in (([[MISSING], ()], "equal"), ([[MISSING]], "different")):
        world = World({T: list(looks)}, chunks=1)
        world.in_snapshots = False
        run = start(world, repair=True)
        run.work()
        assert run.progress.verdict() == verdict
        assert world.repaired == []


def test_a_repaired_chunk_is_compared_again(start: Callable[..., DiffRun], tmp_path: Path) -> None:
    world = World({T: [[MISSING], [MISSING], ()]}, chunks=1)
    run = start(world, repair=True)
    run.work()
    assert world.repaired == [MISSING]
    assert run.progress.tables[T].repaired == 1
    assert run.progress.verdict() == "equal"
    assert (tmp_path / "files" / "differences.jsonl").read_text().count("\n") == 1


def test_a_repair_whose_process_dies_after_its_commit_is_counted_and_in_the_files(
    start: Callable[..., DiffRun], tmp_path: Path
) -> None:
    world = World({T: [[MISSING], [MISSING], ()]}, chunks=1)
    world.dies = True
    run = start(world, repair=True)
    run.work()
    assert run.progress.verdict() == "equal"
    assert run.progress.tables[T].repaired == 1
    for name in ("differences.jsonl", "repairs.sql"):
        assert (tmp_path / "files" / name).read_text() != ""


def test_a_repair_of_an_earlier_plan_counts_and_lets_the_new_chunks_be_repaired(
    start: Callable[..., DiffRun], tmp_path: Path
) -> None:
    """The key changes after the repair: a chunk of the same number has other rows then."""
    world = World({T: [[MISSING], [MISSING], lost(), [MISSING], [MISSING], ()]}, chunks=1)
    world.keys = [(0,), (0,), (1,)]
    run = start(world, repair=True)
    run.work()
    assert world.repaired == [MISSING, MISSING]
    assert run.progress.tables[T].repaired == 2
    assert run.progress.verdict() == "equal"
    assert (tmp_path / "files" / "differences.jsonl").read_text().count("\n") == 2


def test_a_repair_that_is_committed_after_its_table_is_planned_again_counts(
    start: Callable[..., DiffRun], tmp_path: Path
) -> None:
    """Its process may have been taken for dead. The files keep what it repairs, and the new chunks are repaired too."""
    world = World({T: [[MISSING], lost(), [MISSING], [MISSING], ()]}, chunks=1)
    world.keys = [(0,), (1,)]
    # It is committed before the new chunk is repaired.
    world.late = [ChunkWork(T, 0, "")]
    run = start(world, repair=True)
    run.work()
    assert world.repaired == [MISSING]
    assert run.progress.tables[T].repaired == 2
    assert run.progress.verdict() == "equal"
    assert (tmp_path / "files" / "differences.jsonl").read_text().count("\n") == 2


def test_a_chunk_that_a_repair_does_not_make_equal_is_different(start: Callable[..., DiffRun]) -> None:
    world = World({T: [[MISSING]]}, chunks=1)
    run = start(world, repair=True)
    run.work()
    assert world.repaired == [MISSING]
    assert run.progress.verdict() == "different"


def test_a_stop_ends_a_comparison_that_waits(start: Callable[..., DiffRun]) -> None:
    world = World({T: [()]})
    run = start(world, lag=lambda: 1000)
    thread = threading.Thread(target=run.work)
    thread.start()
    wait_until(lambda: "behind" in run.waits_for, "the comparison waits", 30)
    run.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert run.record.stage == RUNNING


def test_a_limited_rate_does_not_keep_snapshots_open(
    start: Callable[..., DiffRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chunk reads 50 bytes, which takes 50 s at the rate: more than a pair of snapshots may last."""
    world = World({T: [()]}, chunks=2)
    open_pairs, waited = [0], [0.0, 0.0]

    @contextlib.contextmanager
    def counted(servers: PairServers, slot: int) -> Iterator[SnapshotPair]:
        open_pairs[0] += 1
        with world.open_pair(servers, slot) as pair:
            yield pair
        open_pairs[0] -= 1

    def sleep(seconds: float) -> None:
        waited[open_pairs[0]] += seconds

    run = start(world, bytes_per_second=1)
    monkeypatch.setattr(compare_task, "open_pair", counted)
    monkeypatch.setattr("dm_worker.diff.compare_task.time.sleep", sleep)
    run.work()
    assert run.progress.verdict() == "equal"
    assert waited[1] < diff_run.PAIR_SECONDS
    assert sum(waited) == pytest.approx(100, abs=5)
