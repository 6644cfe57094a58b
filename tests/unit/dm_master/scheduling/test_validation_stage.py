"""Hazard: a validator that an operator stopped starts again, or one keeps a mode that the operator changed."""

from __future__ import annotations

import pytest

from dm_master.scheduling import task_stage
from dm_master.scheduling.topology import Topology
from pkg.ha import keys
from pkg.ha.records import ValidatorStage
from tests.unit.dm_master.scheduling.test_source_binding import cluster, code_of


def validating(**modes: str) -> Topology:
    state = cluster(sources="s1 s2", alive="w1 w2")
    return state.after(task_stage.start_task(state, "t", "text", {"s1": "c", "s2": "c"}, modes).ops)


def shown(state: Topology) -> dict[str, str]:
    return {source: f"{one.expect} {one.mode}" for (source, _), one in sorted(state.validators.items())}


def test_a_task_file_starts_the_validators_that_it_names() -> None:
    assert shown(validating(s1="fast")) == {"s1": "Running fast"}
    assert shown(validating()) == {}


def test_start_and_stop_keep_each_ones_mode() -> None:
    state = validating(s1="fast")
    state = state.after(task_stage.stop_validation(state, "t", []).ops)
    assert shown(state) == {"s1": "Stopped fast"}
    state = state.after(task_stage.start_validation(state, "t", [], "", {}).ops)
    assert shown(state) == {"s1": "Running fast", "s2": "Running full"}
    state = state.after(task_stage.stop_validation(state, "t", ["s2"]).ops)
    assert shown(state) == {"s1": "Running fast", "s2": "Stopped full"}
    state = state.after(task_stage.start_validation(state, "t", ["s2"], "fast", {}).ops)
    assert shown(state) == {"s1": "Running fast", "s2": "Running fast"}


def test_the_position_of_a_start_by_time_is_that_of_the_last_start() -> None:
    state = validating()
    state = state.after(task_stage.start_validation(state, "t", [], "", {"s1": "here"}).ops)
    assert {source: one.since for (source, _), one in state.validators.items()} == {"s1": "here", "s2": ""}
    assert code_of(lambda: task_stage.start_validation(state, "t", [], "", {"s1": "there"})) == 46035
    state = state.after(task_stage.stop_validation(state, "t", []).ops)
    state = state.after(task_stage.start_validation(state, "t", [], "", {}).ops)
    assert {one.since for one in state.validators.values()} == {""}


def test_refusals() -> None:
    state = validating(s1="fast")
    assert code_of(lambda: task_stage.start_validation(state, "t", [], "full", {})) == 46035
    assert code_of(lambda: task_stage.start_validation(state, "other", [], "", {})) == 46018
    assert code_of(lambda: task_stage.stop_validation(state, "t", ["s3"])) == 46017
    assert code_of(lambda: task_stage.stop_validation(state, "t", ["s2"])) == 43006


def test_a_stopped_task_leaves_no_validator() -> None:
    state = validating(s1="fast", s2="full")
    state = state.after(task_stage.stop_task(state, "t", ["s1"]).ops)
    assert shown(state) == {"s2": "Running full"}
    assert shown(state.after(task_stage.stop_task(state, "t", []).ops)) == {}


@pytest.mark.parametrize("expect", ["Running", "Stopped"])
def test_the_record_has_dms_key_and_fields(expect: str) -> None:
    record = ValidatorStage(expect, "s1", "t", "full")
    assert keys.VALIDATOR_STAGE.key("s1", "t") == "/dm-master/stage/validator/7331/74"
    assert ValidatorStage.from_json(record.to_json()) == record
    number = {"Running": 2, "Stopped": 4}[expect]
    assert record.to_json() == f'{{"expect":{number},"source":"s1","task":"t","mode":"full"}}'
