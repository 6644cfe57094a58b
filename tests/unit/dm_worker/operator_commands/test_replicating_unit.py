"""Hazard: a command works on a subtask that runs, or does not say why it refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from dm_worker.operator_commands.replicating_unit import paused_unit, replication_of
from dm_worker.subtask import stage as stages
from dm_worker.subtask.subtask import SubTask
from pkg.errors import Code, DMError
from pkg.pb import dmworker_pb2 as pb


def subtask(first: int, *events: stages.SubTaskEvent) -> SubTask:
    state = stages.initial("all")
    for event in (stages.Expect(pb.Running), stages.Probed(first), stages.UnitBegins(), *events):
        state, _ = stages.step(state, event)
    unit = SimpleNamespace(unit_type=state.unit)
    return cast(SubTask, SimpleNamespace(name="t", state=state, unit=lambda: unit))


def test_a_refusal_names_the_stage_and_how_it_came_to_it() -> None:
    with pytest.raises(DMError) as caught:
        paused_unit(subtask(2, stages.Expect(pb.Paused)))
    assert caught.value.kind is Code.WorkerNotPausedStage
    assert caught.value.message == "current stage is Pausing but not paused, invalid"
    assert caught.value.raw_cause == (
        "last events: Expect Running -> New; Probed -> Running; UnitBegins -> Running; Expect Paused -> Pausing"
    )


def test_only_the_sync_unit_replicates() -> None:
    loads = subtask(1, stages.Expect(pb.Paused), stages.UnitCanceled())
    assert replication_of(loads) is None
    with pytest.raises(DMError, match="is in unit Load") as caught:
        paused_unit(loads)
    assert caught.value.kind is Code.WorkerOperSyncUnitOnly
    replicates = subtask(2, stages.Expect(pb.Paused), stages.UnitCanceled())
    assert paused_unit(replicates) is replication_of(replicates)
