"""Hazards: a crash, a zombie writer, a lost acknowledgement or a target that falls back loses rows or applies them
twice."""

from __future__ import annotations

import copy
import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dm_worker.syncer.checkpoint.protocol import (
    DDL,
    IDLE,
    OPEN,
    AppliedBuckets,
    BatchProgress,
    Marker,
    MarkerVerdict,
    Recovery,
    Sequencer,
    judge_marker,
    recover,
)
from pkg.binlog.position import Location, Position
from tests.sweeps import examples

BUCKETS = 3
#: The upstream's changes: change i of a table without a key belongs to the bucket i % BUCKETS under every plan, of one
#: with a key to the bucket (i + plan) % BUCKETS.
LENGTH = 60
#: Which of the tasks of lost executors writes; 0 is the one that was started last.
_LATE = st.none() | st.integers(0, 5)


def at(offset: int) -> Location:
    return Location(Position("bin.000001", offset))


class Writer:
    """One run of the syncer, alive or zombie: it knows its epoch and the batch it works on."""

    def __init__(self, target: Target) -> None:
        self.epoch = target.bump_epoch()
        recovery = recover(target.progress, target.checkpoint, at(0))
        assert recovery is not None
        self.recovery: Recovery = recovery
        self.sequencer = Sequencer(self.epoch, target.progress, recovery.location)
        self.next = recovery.location.position.pos
        self.open: BatchProgress | None = None
        #: An earlier run began what is open.
        self.redone = False
        self.left: list[int] = []
        self.plan = target.plan
        #: It was informed that a newer run took over or that the target fell back, and ends.
        self.fenced = False
        #: How often it wrote the batch row, and the batch whose buckets the next write has to find.
        self.writes = 0
        self.applied: AppliedBuckets | None = None

    def write(self, target: Target, progress: BatchProgress) -> bool:
        """False when it may not."""
        written = target.write_progress(progress, self.writes, self.applied)
        self.fenced = not written
        self.writes += 1
        self.applied = None
        return written


class Target:
    """A server with atomic transactions: checkpoint, batch row, markers, and a list of applied changes per bucket."""

    #: No epoch is used twice, whatever a target forgets.
    epochs = itertools.count(1)

    def __init__(self) -> None:
        self.epoch = 0
        self.writes = 0
        self.progress: BatchProgress | None = None
        self.checkpoint: Location | None = None
        self.markers = [Marker(0, 0)] * BUCKETS
        self.rows: list[list[int]] = [[] for _ in range(BUCKETS)]
        self.keyed: set[int] = set()
        #: Other workers change the target's tables, and with them how runs that begin later plan.
        self.plan = 0

    def bump_epoch(self) -> int:
        self.epoch, self.writes = next(self.epochs), 0
        self.markers = [replace(marker, epoch=self.epoch) for marker in self.markers]
        if self.progress is not None:
            self.progress = replace(self.progress, epoch=self.epoch)
        return self.epoch

    def write_progress(self, progress: BatchProgress, writes: int, applied: AppliedBuckets | None) -> bool:
        if progress.epoch != self.epoch or self.writes != writes:
            return False
        if applied is not None and sum(one.batch == applied.number for one in self.markers) != applied.buckets:
            return False
        self.writes += 1
        self.progress = progress
        self.checkpoint = progress.end if progress.state == IDLE else progress.start
        return True

    def write_bucket(self, bucket: int, intent: BatchProgress, plan: int) -> MarkerVerdict:
        marker = self.markers[bucket]
        verdict = judge_marker(marker, intent.number, intent.epoch)
        if verdict is MarkerVerdict.APPLY and (self.progress is None or self.progress.number != intent.number):
            return MarkerVerdict.FENCED
        if verdict is MarkerVerdict.APPLY:
            changes = range(intent.start.position.pos, intent.end.position.pos)
            self.markers[bucket] = Marker(intent.number, intent.epoch)
            if marker.batch < intent.keyless_since:
                self.rows[bucket].extend(i for i in changes if i % BUCKETS == bucket)
            keyed = {i for i in changes if (i + plan) % BUCKETS == bucket}
            assert intent.safe or not keyed & self.keyed, "a row is there already"
            self.keyed |= keyed
        return verdict


class Replication(RuleBasedStateMachine):
    """Runs, crashes and zombies in any order. The rows are counters, so nothing may be lost or doubled."""

    def __init__(self) -> None:
        super().__init__()
        self.target = Target()
        self.writers = [Writer(self.target)]
        #: Tasks that Spark started: some are lost sight of, and write late.
        self.tasks: list[tuple[int, BatchProgress, int]] = []
        self.older: Target | None = None
        #: The target fell back, so that the running writer may be refused.
        self.fell = False

    @property
    def current(self) -> Writer:
        return self.writers[-1]

    @rule(size=st.integers(1, 9), who=st.integers(0, 3))
    def begin(self, size: int, who: int) -> None:
        writer = self.writers[-1 - who % len(self.writers)]
        if writer.fenced or writer.open is not None or writer.next >= LENGTH:
            return
        writer.redone = writer.recovery.redo is not None
        if writer.recovery.redo is not None:
            intent = writer.sequencer.redo(writer.recovery.redo, f"plan {writer.plan}", "keyless")
            writer.recovery = replace(writer.recovery, redo=None)
        else:
            start, end = at(writer.next), at(min(LENGTH, writer.next + size))
            intent = writer.sequencer.open(
                start, end, buckets=BUCKETS, fingerprint=f"plan {writer.plan}", safe=False, keyless="keyless"
            )
        if not writer.write(self.target, intent):
            assert self.fell or writer is not self.current, "the running writer was fenced"
            return
        writer.open = intent
        writer.left = list(range(BUCKETS))
        self.tasks += [(bucket, intent, writer.plan) for bucket in writer.left]

    @rule(pick=st.integers(0, BUCKETS - 1), who=st.integers(0, 3), lost_ack=st.booleans())
    def apply_bucket(self, pick: int, who: int, lost_ack: bool) -> None:
        writer = self.writers[-1 - who % len(self.writers)]
        if writer.fenced or writer.open is None or not writer.left:
            return
        bucket = writer.left[pick % len(writer.left)]
        verdict = self.target.write_bucket(bucket, writer.open, writer.plan)
        if verdict is MarkerVerdict.FENCED:
            assert self.fell or writer is not self.current, "the running writer was fenced"
            writer.fenced = True
            return
        assert verdict is not MarkerVerdict.LOST
        if not lost_ack:
            writer.left.remove(bucket)

    @rule(who=st.integers(0, 3), rest=st.booleans())
    def finish(self, who: int, rest: bool) -> None:
        writer = self.writers[-1 - who % len(self.writers)]
        if writer.fenced or writer.open is None or writer.left:
            return
        writer.sequencer.done()
        writer.next = writer.open.end.position.pos
        writer.applied = AppliedBuckets(writer.open.number, BUCKETS)
        writer.open = None
        if rest:
            written = writer.write(self.target, writer.sequencer.idle(at(writer.next)))
            assert written or self.fell or writer is not self.current

    @rule(latest=_LATE)
    def late_task(self, latest: int | None) -> None:
        """A task of a lost executor writes, whatever its run does meanwhile."""
        if latest is not None and latest < len(self.tasks):
            self.target.write_bucket(*self.tasks[-1 - latest])

    @rule(who=st.integers(0, 3), late=st.tuples(_LATE, _LATE, _LATE), ends=st.booleans())
    def divide(self, who: int, late: tuple[int | None, ...], ends: bool) -> None:
        """The target refuses a batch for its size: if nothing of it is in, another end is chosen."""
        writer = self.writers[-1 - who % len(self.writers)]
        if writer.fenced or writer.open is None or writer.redone:
            return
        number, start = writer.open.number, writer.open.start
        self.late_task(late[0])
        written = writer.write(self.target, writer.sequencer.fence())
        assert written or self.fell or writer is not self.current
        self.late_task(late[1])
        if any(marker.batch >= number for marker in self.target.markers):
            ends = True  # with the error
        writer.fenced |= ends
        if writer.fenced:
            return
        self.late_task(late[2])
        writer.sequencer.go_back(start)
        assert writer.next == start.position.pos
        writer.open, writer.left = None, []

    @precondition(lambda self: len(self.writers) < 12)
    @rule(plan=st.integers(0, BUCKETS - 1))
    def crash_and_restart(self, plan: int) -> None:
        # The old writer stays as a zombie that may still try to write.
        self.target.plan = plan
        self.writers.append(Writer(self.target))
        self.fell = False

    @rule(size=st.integers(1, 9), steps=st.integers(1, 9))
    def run_on(self, size: int, steps: int) -> None:
        """The running writer, undisturbed for a while."""
        for _ in range(steps):
            if self.current.open is None:
                self.begin(size=size, who=0)
            elif self.current.left:
                self.apply_bucket(pick=0, who=0, lost_ack=False)
            else:
                self.finish(who=0, rest=steps % 2 == 0)

    @rule()
    def take_snapshot(self) -> None:
        self.older = copy.deepcopy(self.target)

    @precondition(lambda self: self.older is not None)
    @rule()
    def fall_back(self) -> None:
        # Writers go on as if nothing had happened.
        assert self.older is not None
        self.target, self.older, self.fell = self.older, None, True

    @invariant()
    def every_bucket_holds_a_prefix_of_its_changes_once_and_in_order(self) -> None:
        for bucket, rows in enumerate(self.target.rows):
            assert rows == list(itertools.islice(range(bucket, LENGTH, BUCKETS), len(rows)))

    @invariant()
    def checkpoint_is_never_ahead_of_the_rows(self) -> None:
        if self.target.checkpoint is not None:
            offset = self.target.checkpoint.position.pos
            for bucket, rows in enumerate(self.target.rows):
                assert len(rows) >= len([i for i in range(offset) if i % BUCKETS == bucket])
            assert self.target.keyed >= set(range(offset))


Replication.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=60)
TestReplication = Replication.TestCase


def progress(state: str, start: int = 10, end: int = 20) -> BatchProgress:
    return BatchProgress(5, 2, state, at(start), at(end), BUCKETS, "plan", keyless="keyless", keyless_since=5)


def test_open_intent_is_done_again_over_its_exact_range() -> None:
    assert recover(progress(OPEN), at(10), None) == Recovery(at(10), redo=progress(OPEN))


def test_idle_goes_on_at_the_end_with_the_cut_inside_a_transaction() -> None:
    cut = replace(at(20), rows_events=7)
    assert recover(replace(progress(IDLE), end=cut), at(20), None) == Recovery(cut)


@pytest.mark.parametrize("state", [IDLE, OPEN])
def test_edited_checkpoint_rules_but_in_safe_mode(state: str) -> None:
    assert recover(progress(state), at(15), at(1)) == Recovery(at(15), safe=True)


def test_checkpoint_of_dm_without_batch_row_starts_in_safe_mode() -> None:
    assert recover(None, at(15), at(1)) == Recovery(at(15), safe=True)


def test_without_checkpoint_the_fallback_rules_and_without_that_nothing() -> None:
    assert recover(None, None, at(4)) == Recovery(at(4))
    # A batch row without checkpoint: the operator removed the checkpoint to start over.
    assert recover(progress(IDLE), None, at(4)) == Recovery(at(4))
    assert recover(None, None, None) is None


def test_changed_plan_is_done_again_under_a_new_number_in_safe_mode() -> None:
    sequencer = Sequencer(3, progress(OPEN), at(10))
    same = sequencer.redo(progress(OPEN), "plan", "keyless")
    assert (same.number, same.safe, same.epoch, same.keyless_since) == (5, False, 3, 5)
    other = Sequencer(3, progress(OPEN), at(10)).redo(progress(OPEN), "another plan", "keyless")
    assert (other.number, other.safe, other.keyless_since) == (6, True, 5)
    again = Sequencer(4, other, at(10)).redo(other, "yet another plan", "keyless")
    assert (again.number, again.safe, again.keyless_since) == (7, True, 5)
    elsewhere = Sequencer(4, other, at(10)).redo(other, "another plan, keyless", "elsewhere")
    assert (elsewhere.number, elsewhere.safe, elsewhere.keyless_since) == (7, True, 7)


def test_an_order_for_safe_mode_plans_the_open_batch_again_once() -> None:
    asked = Sequencer(3, progress(OPEN), at(10), safe_request=70).redo(progress(OPEN), "plan", "keyless")
    assert (asked.number, asked.safe, asked.keyless_since, asked.safe_request) == (6, True, 5, 70)
    # The worker restarts, and the order is still there.
    after = Sequencer(4, asked, at(10), safe_request=70).redo(asked, "plan", "keyless")
    assert (after.number, after.safe, after.safe_request) == (6, True, 70)
    # A later order plans even a batch in safe mode again.
    anew = Sequencer(4, asked, at(10), safe_request=71).redo(asked, "plan", "keyless")
    assert (anew.number, anew.safe, anew.safe_request) == (7, True, 71)


def test_an_order_for_safe_mode_is_met_when_no_batch_is_open() -> None:
    sequencer = Sequencer(3, None, at(10), safe_request=70)
    assert sequencer.idle(at(10)).safe_request == 70
    intent = sequencer.open(at(10), at(20), buckets=1, fingerprint="plan", safe=False)
    assert (intent.safe, intent.safe_request) == (False, 70)
    # Without an order, the last one stays known.
    assert Sequencer(4, intent, at(10)).redo(intent, "plan").safe_request == 70


def test_batches_do_not_overlap() -> None:
    sequencer = Sequencer(1, None, at(4))
    with pytest.raises(AssertionError, match="no batch is open; last steps of this run: none"):
        sequencer.done()
    sequencer.open(at(4), at(8), buckets=1, fingerprint="", safe=False)
    with pytest.raises(AssertionError, match=r"the one before is complete; last steps of this run: open 1$"):
        sequencer.open(at(8), at(9), buckets=1, fingerprint="", safe=False)
    sequencer.fence()
    sequencer.done()
    sequencer.idle(at(9))
    sequencer.go_back(at(8))
    sequencer.redo(sequencer.open(at(8), at(9), buckets=0, fingerprint="", safe=False, state=DDL), "another")
    steps = "done 2; idle at (bin.000001, 9); back to (bin.000001, 8); ddl 3; redo 3 as 4"
    with pytest.raises(AssertionError, match=f"a batch is open; last steps of this run: {re.escape(steps)}$"):
        sequencer.idle(at(9))


def test_marker_of_a_later_batch_is_never_written_over() -> None:
    assert judge_marker(Marker(7, 2), 6, 2) is MarkerVerdict.FENCED
    assert judge_marker(Marker(6, 3), 7, 2) is MarkerVerdict.FENCED
    assert judge_marker(None, 7, 2) is MarkerVerdict.LOST


def test_prepared_transactions_are_durable_as_of_the_applied_end() -> None:
    one, two = {b"a": at(1)}, {b"b": at(6)}
    sequencer = Sequencer(3, None, at(4), one)
    opened = sequencer.open(at(4), at(8), buckets=1, fingerprint="", safe=False)
    assert opened.prepared == one
    assert recover(opened, at(4), None) == Recovery(at(4), opened, prepared=one)
    sequencer.done(two)
    barrier = sequencer.open(at(8), at(9), buckets=0, fingerprint="", safe=False, state=DDL)
    assert barrier.prepared == two
    sequencer.done()
    idle = sequencer.idle(at(9))
    assert idle.prepared == two
    assert recover(idle, at(9), None) == Recovery(at(9), prepared=two)
    assert recover(idle, at(7), None) == Recovery(at(7), safe=True)
    assert sequencer.idle(at(10), {}).prepared == {}
