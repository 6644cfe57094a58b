"""Hazard: a pause, a resume or a stop is lost in a race."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dm_worker.subtask import stage as m
from dm_worker.subtask.stage import Activity
from pkg import errors
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb

BROKEN = (errors.new(Code.DBBadConn, "connection lost"),)


def drive(state: m.SubTaskState, *events: m.SubTaskEvent) -> tuple[m.SubTaskState, list[m.SubTaskInstruction]]:
    done: list[m.SubTaskInstruction] = []
    for event in events:
        state, instructions = m.step(state, event)
        done += instructions
    return state, done


def running(mode: str = "all", first: int = 0) -> m.SubTaskState:
    state, _ = drive(m.initial(mode), m.Expect(pb.Running), m.Probed(first), m.UnitBegins())
    return state


def test_units_run_in_the_order_of_the_task_mode() -> None:
    state, done = drive(
        m.initial("all"), m.Expect(pb.Running), m.Probed(0), m.UnitFinished(), m.UnitFinished(), m.UnitFinished()
    )
    assert done == [m.Probe(), m.StartUnit(0), m.StartUnit(1), m.StartUnit(2)]
    assert state.stage == pb.Finished
    assert state.unit == pb.Sync


def test_a_restart_begins_at_the_first_unfinished_unit() -> None:
    state, done = drive(m.initial("all"), m.Expect(pb.Running), m.Probed(2))
    assert done[-1] == m.StartUnit(2)
    assert state.unit == pb.Sync


def test_a_completed_chain_is_finished_and_not_run_again() -> None:
    state, done = drive(m.initial("full"), m.Expect(pb.Running), m.Probed(2))
    assert state.stage == pb.Finished
    assert done == [m.Probe()]


def test_an_unknown_task_mode_is_refused() -> None:
    with pytest.raises(errors.DMError, match="task-mode 'everything'") as caught:
        m.initial("everything")
    assert caught.value.kind is Code.ConfigInvalidTaskMode


def test_paused_stays_paused_after_a_restart() -> None:
    state, done = drive(m.initial("all"), m.Expect(pb.Paused), m.Probed(2))
    assert done == [m.Probe()]
    assert state.stage == pb.Paused
    assert state.unit == pb.Sync
    assert state.result == m.SubTaskResult(canceled=True)


def test_an_unreachable_target_does_not_make_a_paused_task_an_error() -> None:
    state, _ = drive(m.initial("all"), m.Expect(pb.Paused), m.ProbeFailed(BROKEN))
    assert state.stage == pb.Paused
    assert not state.failed
    _, done = drive(state, m.Expect(pb.Running))
    assert done == [m.Probe()]


def test_a_failed_probe_pauses_with_its_error_and_resume_probes_again() -> None:
    state, _ = drive(m.initial("all"), m.Expect(pb.Running), m.ProbeFailed(BROKEN))
    assert state.failed
    state, done = drive(state, m.Expect(pb.Running), m.Probed(1))
    assert done == [m.Probe(), m.StartUnit(1)]
    assert state.result is None


def test_what_has_not_begun_is_not_waited_for() -> None:
    before, _ = drive(m.initial("all"), m.Expect(pb.Running), m.Probed(0))
    state, done = drive(before, m.Expect(pb.Paused))
    assert (state.stage, done) == (pb.Paused, [m.StopUnit(0, graceful=False)])
    state, done = drive(state, m.UnitBegins(), m.UnitFailed(BROKEN))
    assert not state.begun
    assert not state.failed, "nobody wants it to run"
    state, done = drive(before, m.Expect(pb.Stopped))
    assert (state.stage, done) == (pb.Stopped, [m.StopUnit(0, graceful=False), m.Close()])
    assert not drive(state, m.UnitBegins())[0].begun
    state, done = drive(m.initial("all"), m.Expect(pb.Running), m.Expect(pb.Paused))
    assert (state.stage, done) == (pb.Paused, [m.Probe()])
    state, done = drive(state, m.Expect(pb.Running), m.Probed(1))
    assert (state.stage, done) == (pb.Running, [m.StartUnit(1)])


def test_pause_stops_gracefully_and_kills_when_overdue() -> None:
    state, done = drive(running(), m.Expect(pb.Paused), m.Expect(pb.Paused))
    assert done == [m.StopUnit(0, graceful=True)]
    assert state.stage == pb.Pausing
    state, done = drive(state, m.StopOverdue(), m.UnitCanceled())
    assert done == [m.StopUnit(0, graceful=False)]
    assert state.stage == pb.Paused
    assert state.result == m.SubTaskResult(canceled=True)


def test_a_unit_that_finishes_while_pausing_is_not_run_again_on_resume() -> None:
    state, done = drive(running(), m.Expect(pb.Paused), m.UnitFinished())
    assert state.stage == pb.Paused
    _, done = drive(state, m.Expect(pb.Running))
    assert done == [m.StartUnit(1)]


def test_a_resume_that_races_with_a_pause_is_not_lost() -> None:
    state, done = drive(running(), m.Expect(pb.Paused), m.Expect(pb.Running))
    assert state.stage == pb.Resuming
    state, done = drive(state, m.UnitCanceled())
    assert done == [m.StartUnit(0)]
    assert state.stage == pb.Running


def test_an_error_pauses_and_only_a_resume_goes_on() -> None:
    state, done = drive(running(), m.UnitFailed(BROKEN))
    assert state.failed
    assert done == []
    resumed, done = drive(state, m.AutoResume())
    assert done == [m.StartUnit(0)]
    assert resumed.result is None


def test_auto_resume_never_overrules_an_operators_pause() -> None:
    state, _ = drive(running(), m.UnitFailed(BROKEN), m.Expect(pb.Paused))
    assert drive(state, m.AutoResume())[1] == []
    state, _ = drive(running(), m.Expect(pb.Paused), m.UnitCanceled())
    assert drive(state, m.AutoResume())[1] == []


def test_a_unit_that_ends_unasked_is_an_error_and_not_a_silent_pause() -> None:
    state, _ = drive(running(), m.UnitCanceled())
    assert state.failed
    assert state.result is not None
    (error,) = state.result.errors
    assert "ended unexpectedly" in error.message
    assert error.raw_cause == "last events: Expect Running -> New; Probed -> Running; UnitBegins -> Running"


def test_a_state_keeps_the_last_events_that_changed_something() -> None:
    state, _ = drive(running(), m.Expect(pb.Running), m.StopOverdue(), m.AutoResume())
    assert state == running(), "nothing changed"
    state, _ = drive(state, m.Expect(pb.Paused), m.StopOverdue(), m.Expect(pb.Running), m.UnitCanceled())
    assert state.recent == (
        "Probed -> Running",
        "UnitBegins -> Running",
        "Expect Paused -> Pausing",
        "Expect Running -> Resuming",
        "UnitCanceled -> Running",
    )


def test_kill_overtakes_a_graceful_stop_and_is_final() -> None:
    state, done = drive(running(), m.Expect(pb.Stopped), m.Kill())
    assert done == [m.StopUnit(0, graceful=True), m.StopUnit(0, graceful=False)]
    state, done = drive(state, m.Expect(pb.Running), m.UnitFailed(BROKEN))
    assert done == [m.Close()]
    assert state.stage == pb.Stopped
    assert drive(state, m.Expect(pb.Running), m.AutoResume(), m.Kill()) == (state, [])


def test_a_companion_that_fails_the_subtask_stops_the_unit_first() -> None:
    state, done = drive(running(), m.CompanionFailed(BROKEN), m.CompanionFailed(BROKEN))
    assert (state.stage, done) == (pb.Pausing, [m.StopUnit(0, graceful=True)])
    paused, _ = drive(state, m.UnitCanceled())
    assert paused.failed
    assert paused.result == m.SubTaskResult(errors=BROKEN)
    assert drive(paused, m.AutoResume())[1] == [m.StartUnit(0)]
    both, _ = drive(state, m.UnitFailed((m._unasked(state),)))
    assert both.result is not None
    assert len(both.result.errors) == 2


def test_a_companions_failure_is_ignored_where_the_unit_does_not_run() -> None:
    before, _ = drive(m.initial("all"), m.Expect(pb.Running), m.Probed(0))
    pausing, _ = drive(running(), m.Expect(pb.Paused))
    for state in (before, pausing, drive(pausing, m.UnitCanceled())[0]):
        assert drive(state, m.CompanionFailed(BROKEN)) == (state, [])


def test_a_unit_that_finishes_while_its_companion_fails_the_subtask_is_complete() -> None:
    state, done = drive(running(), m.CompanionFailed(BROKEN), m.UnitFinished(), m.UnitBegins())
    assert done[-1] == m.StartUnit(1)
    assert (state.stage, state.failing, m.is_accompanied(state)) == (pb.Running, (), True)


class SubTaskMachine(RuleBasedStateMachine):
    """Plays operator, checker and unit against the machine, keeping its own book of what really runs."""

    @initialize(mode=st.sampled_from(sorted(m.CHAINS)))
    def create(self, mode: str) -> None:
        self.state = m.initial(mode)
        self.wanted: int = pb.New
        self.busy: m.Probe | m.StartUnit | None = None
        self.told_to_stop = False
        self.begun = False
        self.closed = 0
        self.done_units = 0

    def send(self, event: m.SubTaskEvent) -> None:
        self.state, instructions = m.step(self.state, event)
        for instruction in instructions:
            match instruction:
                case m.Probe() | m.StartUnit():
                    assert self.busy is None, "two activities at once"
                    assert not self.closed, "started after the end"
                    assert self.wanted == pb.Running or isinstance(instruction, m.Probe)
                    if isinstance(instruction, m.StartUnit):
                        assert instruction.index == self.done_units, "a unit skipped or run twice"
                    self.busy, self.told_to_stop, self.begun = instruction, False, False
                case m.StopUnit(index, _):
                    assert self.busy == m.StartUnit(index), "stopped what does not run"
                    self.told_to_stop = True
                case m.Close():
                    assert self.harmless
                    self.closed += 1

    @rule(stage=st.sampled_from([pb.Running, pb.Paused, pb.Stopped]))
    def expect(self, stage: int) -> None:
        if self.wanted != pb.Stopped:
            self.wanted = stage
        self.send(m.Expect(stage))

    @rule()
    def kill(self) -> None:
        self.wanted = pb.Stopped
        self.send(m.Kill())

    @rule()
    def tick(self) -> None:
        self.send(m.AutoResume())

    @property
    def harmless(self) -> bool:
        """Whether what it is busy with, if anything, changes nothing."""
        return self.busy is None or isinstance(self.busy, m.Probe) or (self.told_to_stop and not self.begun)

    @precondition(lambda self: isinstance(self.busy, m.StartUnit) and not self.begun)
    @rule()
    def unit_begins(self) -> None:
        self.send(m.UnitBegins())
        self.begun = self.state.begun
        assert not (self.begun and self.told_to_stop), "begun although it is not waited for"

    @rule()
    def companion_fails(self) -> None:
        runs = isinstance(self.busy, m.StartUnit) and self.begun and not self.told_to_stop
        assert m.is_accompanied(self.state) == runs
        self.send(m.CompanionFailed(BROKEN))
        assert not m.is_accompanied(self.state)

    @rule()
    def overdue(self) -> None:
        self.send(m.StopOverdue())

    @precondition(lambda self: isinstance(self.busy, m.Probe))
    @rule(fails=st.booleans(), data=st.data())
    def probe_ends(self, fails: bool, data: st.DataObject) -> None:
        self.busy = None
        if fails:
            self.send(m.ProbeFailed(BROKEN))
        else:
            self.done_units = data.draw(st.integers(0, len(self.state.units)))
            self.send(m.Probed(self.done_units))

    @precondition(lambda self: isinstance(self.busy, m.StartUnit))
    @rule(how=st.sampled_from(["finished", "failed", "canceled"]))
    def unit_ends(self, how: str) -> None:
        self.busy = None
        if how == "finished":
            self.done_units += 1
            self.send(m.UnitFinished())
        else:
            self.send(m.UnitFailed(BROKEN) if how == "failed" else m.UnitCanceled())

    @invariant()
    def stage_tells_the_truth(self) -> None:
        if not hasattr(self, "state"):
            return
        state = self.state
        if state.stage != pb.Stopped:
            assert (self.busy is None) == (state.activity is Activity.IDLE)
        assert self.closed == (1 if state.stage == pb.Stopped else 0)
        if state.stage == pb.Running:
            assert isinstance(self.busy, m.StartUnit)
            assert not self.told_to_stop
            assert self.wanted == pb.Running
        if state.stage in (pb.Paused, pb.Stopped):
            assert self.harmless
        if state.stage == pb.Finished:
            assert self.busy is None
        if state.stage == pb.Paused:
            assert state.result is not None
            assert state.result.errors or state.result.canceled
        if state.stage == pb.Finished:
            assert self.done_units >= len(state.units)

    @invariant()
    def what_is_wanted_comes_about(self) -> None:
        if not hasattr(self, "state") or not self.harmless or (self.busy is not None and self.wanted == pb.Running):
            return
        stage = self.state.stage
        if self.wanted == pb.Running:
            assert stage == pb.Finished or self.state.failed
        elif self.wanted == pb.Paused:
            assert stage in (pb.Paused, pb.Finished)
        elif self.wanted == pb.Stopped:
            assert stage == pb.Stopped

    @invariant()
    def a_running_unit_that_is_unwanted_was_told(self) -> None:
        if hasattr(self, "state") and isinstance(self.busy, m.StartUnit) and self.wanted != pb.Running:
            assert self.told_to_stop

    @invariant()
    def asking_twice_changes_nothing(self) -> None:
        """Only a repeated Running may act, and only on a subtask that failed, or that a companion fails just now."""
        if not hasattr(self, "state") or self.wanted == pb.New:
            return
        failed = self.state.failed or (self.state.stage == pb.Pausing and self.state.failing)
        if not (self.wanted == pb.Running and failed):
            again, instructions = m.step(self.state, m.Expect(self.wanted))
            assert (again, instructions) == (replace(self.state), ())


TestSubTaskMachine = SubTaskMachine.TestCase
