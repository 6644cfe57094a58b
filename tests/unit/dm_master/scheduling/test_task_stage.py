"""Hazard: what a source reported under one configuration of its subtask counts under the next one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dm_master.scheduling import task_stage
from dm_master.scheduling.topology import Plan, Topology
from pkg.etcd.types import Delete
from pkg.ha import keys
from tests.unit.dm_master.scheduling.test_source_binding import cluster

CONFIGS = {"s1": "c", "s2": "c"}


def _started() -> Topology:
    state = cluster(sources="s1 s2", alive="w1 w2")
    return state.after(task_stage.start_task(state, "t", "text", CONFIGS).ops)


def _updated(state: Topology) -> Plan:
    state = state.after(task_stage.set_stage(state, "t", [], "Paused").ops)
    return task_stage.update_task(state, "t", "other", {"s1": "d", "s2": "d"})


@pytest.mark.parametrize(
    ("plan", "task", "sources"),
    [
        (lambda state: task_stage.start_task(state, "new", "text", CONFIGS), "new", ["s1", "s2"]),
        (lambda state: task_stage.stop_task(state, "t", ["s2"]), "t", ["s2"]),
        (lambda state: task_stage.stop_task(state, "t", []), "t", ["s1", "s2"]),
        (_updated, "t", ["s1", "s2"]),
    ],
    ids=["start", "stop of a source", "stop", "update"],
)
def test_a_source_reports_its_tables_again_under_another_configuration(
    plan: Callable[[Topology], Plan], task: str, sources: list[str]
) -> None:
    """A lock of merged tables does not wait for a source that has reported no table of it."""
    assert plan(_started()).side_ops == tuple(Delete(keys.SHARD_DDL_TABLES.key(task, source)) for source in sources)


def test_a_resumed_task_keeps_the_reports_of_its_tables() -> None:
    assert task_stage.set_stage(_started(), "t", [], "Running").side_ops == ()
