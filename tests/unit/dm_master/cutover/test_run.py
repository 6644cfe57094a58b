"""Hazard: a cutover that is interrupted gives no certificate, a second one, or one of other rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_master.cutover.facts import CollisionFacts, CutoverFacts, DiffFacts
from dm_master.cutover.run import CutoverOutcome, CutoverRun
from dm_master.cutover.run_record import CutoverRecord, CutoverStage, read_certificate
from dm_master.cutover.table_checksums import TableSum
from dm_master.cutover.verdict import Unreadable
from pkg.binlog.position import Location, Position
from pkg.mysql.names import TableId
from tests.sweeps import examples
from tests.unit.dm_master.cutover.made_facts import END, TARGET, compared, ready, server, tables, target

_LATER = Location(Position("mysql-bin.000003", 700), "0-1-9")


class _Crash(BaseException):
    """The master is killed here."""


class _World:
    """Servers, workers and etcd, which survive a crash. ``crashes``: numbers of calls at which the master is killed,
    before or after their effect."""

    def __init__(self, crashes: Mapping[int, bool]) -> None:
        self.crashes = dict(crashes)
        self._calls = 0
        self.stored: CutoverRecord | None = None
        self.watches: dict[str, Location] = {}
        self.saved: list[CutoverRecord] = []
        self.compared_run = ""
        self.counter = 5
        self.rows = 10
        self.paused = False
        self.end = END
        self.compared_at = END
        self.diff = "equal"

    def _call(self, effect: object = None) -> None:
        self._calls += 1
        before = self.crashes.pop(self._calls, None)
        if before:
            raise _Crash
        if callable(effect):
            effect()
        if before is False:
            raise _Crash

    # -- servers

    def facts(self) -> CutoverFacts:
        self._call()
        assert not self.paused, "the checks need a task that replicates"
        diff: DiffFacts | Unreadable = Unreadable("no comparison was made")
        if self.compared_run:
            diff = compared(self.diff, at=self.compared_at)
        facts = ready(
            diff=diff,
            target=target(server=server("target", TARGET, tables=tables(TARGET, counters={TARGET: self.counter}))),
        )
        (one,) = facts.upstreams
        (subtask,) = facts.subtasks
        writers = replace(one.writers, before=self.end, after=self.end)
        validator = subtask.validator
        assert validator is not None
        return replace(
            facts,
            upstreams=(replace(one, writers=writers),),
            subtasks=(replace(subtask, applied=self.end, validator=replace(validator, location=self.end)),),
        )

    def now(self) -> str:
        return "2026-01-02 03:04:05"

    def set_counters(self, numbers: Mapping[TableId, int]) -> None:
        self._call(lambda: setattr(self, "counter", max([self.counter, *numbers.values()])))

    def checksums(self, tables: Iterable[TableId]) -> list[TableSum]:
        self._call()
        return [TableSum(table, self.rows, 0, f"{self.rows:x}", "`id` int") for table in tables]

    def compare(self, run: str) -> None:
        def done() -> None:
            self.compared_run, self.compared_at = run, self.end

        self._call(done if self.compared_run != run else None)

    def pause(self) -> None:
        self._call(lambda: setattr(self, "paused", True))

    def resume(self) -> None:
        self._call(lambda: setattr(self, "paused", False))

    def upstream_ends(self) -> Mapping[str, Location | None]:
        self._call()
        return {"one": self.end}

    def target_end(self) -> Location | None:
        self._call()
        return Location(Position("target-bin.000001", 900), "0-2-5")

    # -- the store

    def load(self) -> CutoverRecord | None:
        self._call()
        return None if self.stored is None else CutoverRecord.from_text(self.stored.to_text())

    def save(self, record: CutoverRecord) -> None:
        def put() -> None:
            self.stored = record
            self.saved.append(record)

        self._call(put)

    def watch(self, ends: Mapping[str, Location]) -> None:
        self._call(lambda: self.watches.update(ends))

    def forget(self) -> None:
        def remove() -> None:
            self.stored, self.watches = None, {}

        self._call(remove)


def _run_until_it_ends(world: _World, accepted: tuple[str, ...] = ()) -> CutoverOutcome:
    """Runs again after each crash, as another master would."""
    for attempt in range(100):
        try:
            return CutoverRun("task", f"run{attempt}", accepted, world, world).work()
        except _Crash:
            continue
    raise AssertionError("the cutover never ended")


@settings(max_examples=examples(300))
@given(st.dictionaries(st.integers(1, 25), st.booleans(), max_size=6))
def test_crashes_at_any_calls_leave_one_certificate(crashes: dict[int, bool]) -> None:
    world = _World(crashes)
    outcome = _run_until_it_ends(world)
    world.crashes.clear()
    again = CutoverRun("task", "another", (), world, world).work()
    ended = [one for one in world.saved if one.stage is CutoverStage.ENDED]
    assert outcome.certificate == again.certificate == ended[-1].certificate
    assert len({one.certificate for one in ended}) == 1
    data = read_certificate(outcome.certificate)
    assert (data.ends, data.sums[0].rows, data.run) == ({"one": END}, 10, world.compared_run)
    assert world.paused
    assert world.counter == 11
    assert world.watches == {"one": END}
    assert all(one["verdict"] == "yes" or one["accepted"] for one in json.loads(outcome.certificate)["checks"])


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("call", range(1, 16))
def test_writes_after_a_crash_are_never_certified_with_older_rows(call: int, before: bool) -> None:
    world = _World({call: before})
    try:
        outcome = CutoverRun("task", "first", (), world, world).work()
    except _Crash:
        ended = world.stored is not None and world.stored.stage is CutoverStage.ENDED
        if not ended:
            # The writers are not stopped after all; the task applies what they write.
            world.end, world.rows = _LATER, 12
        outcome = _run_until_it_ends(world)
        if not outcome.certificate:
            assert "written to meanwhile" in outcome.reason
            assert (world.stored, world.watches, world.paused) == (None, {}, False)
            outcome = _run_until_it_ends(world)
        if ended:
            return
        certified = read_certificate(outcome.certificate)
        assert (certified.ends, certified.sums[0].rows) == ({"one": _LATER}, 12)
    assert outcome.certificate


def test_a_cutover_that_was_left_begins_again_with_the_present_rows() -> None:
    world = _World({})
    old = CutoverRecord(
        "old", "then", CutoverStage.COMPARING, (TableSum(TARGET, 9, 0, "9", "`id` int"),), ends={"one": END}
    )
    world.stored, world.end, world.rows = old, _LATER, 12
    certified = read_certificate(CutoverRun("task", "run", (), world, world).work().certificate)
    assert (certified.run, certified.ends, certified.sums[0].rows) == ("run", {"one": _LATER}, 12)


def test_rows_that_change_during_the_comparison_are_not_certified() -> None:
    world = _World({})
    compare = world.compare

    def compare_while_written(run: str) -> None:
        world.end, world.rows = _LATER, 12
        compare(run)

    def not_paused() -> None:
        raise AssertionError("the task continues")

    world.compare = compare_while_written  # type: ignore[method-assign]
    world.pause = not_paused  # type: ignore[method-assign]
    outcome = CutoverRun("task", "run", (), world, world).work()
    assert not outcome.certificate
    assert "written to meanwhile" in outcome.reason
    assert (world.stored, world.paused) == (None, False)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("call", range(1, 25))
def test_a_write_before_the_end_leaves_the_task_running_after_any_crash(call: int, before: bool) -> None:
    world = _World({call: before})
    pause = world.pause

    def pause_after_a_write() -> None:
        world.end, world.rows = _LATER, 12
        pause()

    world.pause = pause_after_a_write  # type: ignore[method-assign]
    outcome = _run_until_it_ends(world)
    if outcome.certificate:
        # A crash made the run begin again, with the write.
        assert read_certificate(outcome.certificate).sums[0].rows == 12
    else:
        assert (world.stored, world.paused) == (None, False)


def test_a_check_that_is_open_starts_nothing() -> None:
    world = _World({})
    outcome = CutoverRun("task", "run", (), _not_applied(world), world).work()
    assert not outcome.certificate
    assert outcome.reason == "not ready: applied"
    assert (world.saved, world.counter) == ([], 5)


def _not_applied(world: _World) -> _World:
    facts = ready()
    (subtask,) = facts.subtasks
    behind = replace(facts, subtasks=(replace(subtask, applied=None),))
    world.facts = lambda: behind  # type: ignore[method-assign]
    return world


def test_what_the_comparison_decides_does_not_hold_the_cutover_up() -> None:
    world = _World({})
    facts = world.facts

    def undecided() -> CutoverFacts:
        return replace(facts(), collisions=CollisionFacts(True, 0, (), ("a key is mapped",)))

    world.facts = undecided  # type: ignore[method-assign]
    assert CutoverRun("task", "run", (), world, world).work().certificate
    assert world.compared_run == "run"


def test_a_difference_ends_the_cutover_and_leaves_the_task_running() -> None:
    world = _World({})
    world.diff = "different"
    outcome = CutoverRun("task", "run", (), world, world).work()
    assert not outcome.certificate
    assert [one.name for one in outcome.verdicts if not one.passed] == ["diff"]
    assert (world.stored, world.paused) == (None, False)


def test_without_a_comparison_the_certificate_says_so() -> None:
    world = _World({})
    outcome = CutoverRun("task", "run", ("diff",), world, world).work()
    assert json.loads(outcome.certificate)["comparison"] == "accepted without one"
    assert world.compared_run == ""
