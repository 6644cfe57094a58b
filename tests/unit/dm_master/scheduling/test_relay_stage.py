"""A source must not get two relays, nor lose its relay, by commands that contradict each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dm_master.scheduling import relay_stage, source_binding
from dm_master.scheduling.topology import Plan, Topology
from pkg.config.codec import decode_source, encode_source
from pkg.config.model import SourceConfig
from pkg.errors import DMError
from pkg.ha.records import WorkerAlive
from pkg.settings.connections import DBConfig


def cluster() -> Topology:
    """s1 and s2, served by w1 and w2; w3 is free."""
    state = Topology()
    for number in (1, 2, 3):
        state = state.after(source_binding.register_worker(state, f"w{number}", f"a{number}").ops)
    state = Topology(workers=state.workers, alive={name: WorkerAlive(name, "now") for name in state.workers})
    for number in (1, 2):
        config = SourceConfig(f"s{number}", DBConfig(host="h", port=1, user="u"))
        plan = source_binding.add_source(state, config.source_id, encode_source(config), f"w{number}")
        state = state.after(plan.ops)
    return state


def enabled(state: Topology, source: str) -> bool:
    return decode_source(state.sources[source]).enable_relay


def code_of(action: Callable[[], Plan]) -> int:
    with pytest.raises(DMError) as caught:
        action()
    assert caught.value.workaround
    return caught.value.code


def test_a_relay_that_follows_its_source_is_started_and_stopped() -> None:
    before = cluster()
    state = before.after(relay_stage.start_relay(before, "s1", []).ops)
    assert enabled(state, "s1")
    assert state.relay_stages == {"s1": "Running"}
    state = state.after(relay_stage.set_stage(state, ["s1"], "Paused").ops)
    assert state.relay_stages == {"s1": "Paused"}
    assert relay_stage.start_relay(state, "s1", []) == Plan(), "a paused one is for resume-relay"
    assert relay_stage.set_stage(state, ["s1"], "Paused").ops, "written again, it is asked for again"
    state = state.after(relay_stage.stop_relay(state, "s1", []).ops)
    assert state == before
    assert relay_stage.stop_relay(state, "s1", []) == Plan()


def test_a_relay_of_named_workers_is_started_and_stopped() -> None:
    before = cluster()
    state = before.after(relay_stage.start_relay(before, "s1", ["w1"]).ops)
    assert (state.relay_workers, state.relay_stages, enabled(state, "s1")) == ({"w1": "s1"}, {"s1": "Running"}, False)
    assert relay_stage.start_relay(state, "s1", ["w1"]) == Plan()
    assert code_of(lambda: source_binding.remove_source(state, "s1")) == 46023
    assert state.after(relay_stage.stop_relay(state, "s1", ["w1"]).ops) == before


def test_what_does_not_fit_is_refused() -> None:
    state = cluster()
    bound = state.after(relay_stage.start_relay(state, "s1", []).ops)
    named = state.after(relay_stage.start_relay(state, "s1", ["w1"]).ops)
    assert code_of(lambda: relay_stage.start_relay(state, "s9", [])) == 46008
    assert code_of(lambda: relay_stage.stop_relay(state, "s9", [])) == 46008
    assert code_of(lambda: relay_stage.start_relay(state, "s1", ["w9"])) == 46004
    assert code_of(lambda: relay_stage.start_relay(state, "s1", ["w2"])) == 46021
    assert code_of(lambda: relay_stage.start_relay(state, "s1", ["w3"])) == 46021
    assert code_of(lambda: relay_stage.start_relay(named, "s2", ["w1"])) == 46020
    assert code_of(lambda: relay_stage.stop_relay(named, "s1", ["w2"])) == 46022
    assert code_of(lambda: relay_stage.start_relay(named, "s1", [])) == 46028
    assert code_of(lambda: relay_stage.stop_relay(named, "s1", [])) == 46029
    assert code_of(lambda: relay_stage.start_relay(bound, "s1", ["w1"])) == 46030
    assert code_of(lambda: relay_stage.stop_relay(bound, "s1", ["w1"])) == 46031
    assert code_of(lambda: relay_stage.set_stage(bound, ["s1", "s2"], "Paused")) == 46012


def test_a_source_brings_its_relay_and_takes_it_away() -> None:
    state = cluster()
    made = state.after(source_binding.add_source(state, "s3", "config", "w3", relay=True).ops)
    assert made.relay_stages == {"s3": "Running"}
    assert made.after(source_binding.remove_source(made, "s3").ops).relay_stages == {}
