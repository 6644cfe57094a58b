"""Hazard: subtasks end in another stage than etcd expects, or an action is taken twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.source.reconcile import (
    ChangeStage,
    CreateSubTask,
    ExpectedSubTask,
    ForgetSubTask,
    LocalSubTask,
    RemoveSubTask,
    reconcile,
)
from pkg.pb import dmworker_pb2 as pb

WANT = ExpectedSubTask("config", pb.Running, 5)
HAVE = LocalSubTask("config", 5, pb.Running)


def test_agreement_needs_nothing() -> None:
    assert reconcile({"t": WANT}, {"t": HAVE}) == []


def test_a_new_revision_of_the_same_stage_is_asked_for_again() -> None:
    again = replace(WANT, revision=6)
    assert reconcile({"t": again}, {"t": replace(HAVE, stage=pb.Paused)}) == [ChangeStage("t", again)]


def test_a_relist_does_not_resume_a_failed_subtask() -> None:
    assert reconcile({"t": WANT}, {"t": replace(HAVE, stage=pb.Paused)}) == []


def test_a_deleted_task_is_removed_once_and_forgotten_when_stopped() -> None:
    assert reconcile({}, {"t": HAVE}) == [RemoveSubTask("t")]
    assert reconcile({}, {"t": replace(HAVE, doomed=True, stage=pb.Stopping)}) == []
    assert reconcile({}, {"t": replace(HAVE, doomed=True, stage=pb.Stopped)}) == [ForgetSubTask("t")]


def test_a_task_started_again_waits_for_the_end_of_the_old_one() -> None:
    assert reconcile({"t": WANT}, {"t": replace(HAVE, doomed=True, stage=pb.Stopping)}) == []
    ended = {"t": replace(HAVE, doomed=True, stage=pb.Stopped)}
    assert reconcile({"t": WANT}, ended) == [ForgetSubTask("t"), CreateSubTask("t", WANT)]


def test_a_stopped_subtask_that_shall_run_is_recreated() -> None:
    stopped = {"t": replace(HAVE, stage=pb.Stopped)}
    assert reconcile({"t": WANT}, stopped) == []
    again = replace(WANT, revision=9)
    assert reconcile({"t": again}, stopped) == [ForgetSubTask("t"), CreateSubTask("t", again)]


TASKS = st.sampled_from(["a", "b", "c"])
WANTED = st.dictionaries(
    TASKS,
    st.builds(
        ExpectedSubTask,
        st.sampled_from(["x", "y"]),
        st.sampled_from([pb.Running, pb.Paused, pb.Stopped]),
        st.integers(1, 4),
    ),
)
ACTUAL = st.dictionaries(
    TASKS,
    st.builds(
        LocalSubTask,
        st.sampled_from(["x", "y"]),
        st.integers(1, 4),
        st.sampled_from([pb.New, pb.Running, pb.Paused, pb.Stopping, pb.Stopped, pb.Finished]),
        st.booleans(),
    ),
)


@given(wanted=WANTED, actual=ACTUAL)
def test_it_converges_and_then_rests(wanted: dict[str, ExpectedSubTask], actual: dict[str, LocalSubTask]) -> None:
    for _ in range(4):
        for action in reconcile(wanted, actual):
            match action:
                case CreateSubTask(task, want):
                    assert task not in actual, "created over a living one"
                    actual[task] = LocalSubTask(want.config, want.revision, want.stage)
                case ChangeStage(task, want):
                    actual[task] = replace(actual[task], revision=want.revision, stage=want.stage)
                case RemoveSubTask(task):
                    assert not actual[task].doomed, "removed twice"
                    actual[task] = replace(actual[task], doomed=True)
                case ForgetSubTask(task):
                    assert actual.pop(task).stage == pb.Stopped, "forgot what still runs"
        # Meanwhile those that were asked to stop do so.
        actual = {task: replace(a, stage=pb.Stopped) if a.doomed else a for task, a in actual.items()}
    assert reconcile(wanted, actual) == []
    assert {task: (a.config, a.revision) for task, a in actual.items()} == {
        task: (w.config, w.revision) for task, w in wanted.items()
    }
