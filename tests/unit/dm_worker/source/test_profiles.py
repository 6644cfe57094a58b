"""Hazard: a task gets the profile of another, or one that is a copy gets one at all."""

from __future__ import annotations

from dm_worker.source.profiles import add_profiles
from pkg.pb import dmworker_pb2 as pb
from tests.unit.dm_worker.source.test_dm_metric_names import busy_figures


def test_only_tasks_that_replicate_have_a_profile() -> None:
    statuses = [pb.SubTaskStatus(name="t1"), pb.SubTaskStatus(name="t2")]
    figures = busy_figures()
    figures.applying.changes += 5
    add_profiles(statuses, {"t1": figures})
    assert statuses[0].profile.sums["changes"] == 5
    assert statuses[0].profile.seconds >= 0
    assert not statuses[1].HasField("profile")
