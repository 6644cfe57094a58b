"""A source must not get two relays, nor lose its relay, by commands that contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_master.scheduling import relay_stage, source_binding
from dm_master.scheduling.topology import Plan, Topology
from pkg.config.codec import decode_source, encode_source
from pkg.config.model import SourceConfig
from pkg.errors import DMError
from pkg.ha.records import WorkerAlive
from pkg.pb import dmworker_pb2 as pb
from pkg.settings.connections import DBConfig
from pkg.status.operations import allowed_for_source


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
    assert relay_stage.pulling_workers(state, "s1") == ["w1"]
    assert relay_stage.start_relay(state, "s1", ["w1"]) == Plan()
    assert code_of(lambda: source_binding.remove_source(state, "s1")) == 46023
    assert state.after(relay_stage.stop_relay(state, "s1", ["w1"]).ops) == before


def test_each_named_worker_pulls_a_copy_whoever_serves_the_source() -> None:
    """The copy of an idle worker is for the day on which the serving one is lost."""
    before = cluster()
    state = before.after(relay_stage.start_relay(before, "s1", ["w3", "w1"]).ops)
    assert state.relay_workers == {"w1": "s1", "w3": "s1"}
    assert [state.worker_stage(worker) for worker in ("w1", "w2", "w3")] == ["bound", "bound", "relay"]
    assert relay_stage.pulling_workers(state, "s1") == ["w1", "w3"]
    without_w1 = replace(state, alive={name: one for name, one in state.alive.items() if name != "w1"})
    after = without_w1.after(source_binding.rebalance(without_w1).ops)
    assert after.worker_of("s1") == "w3"
    assert relay_stage.pulling_workers(after, "s1") == ["w1", "w3"]
    state = state.after(relay_stage.stop_relay(state, "s1", ["w3"]).ops)
    assert (state.relay_workers, state.relay_stages) == ({"w1": "s1"}, {"s1": "Running"})
    assert state.worker_stage("w3") == "free"
    assert relay_stage.pulling_workers(state, "s2") == []


def test_a_worker_that_pulls_no_relay_log_any_more_gets_a_source_that_waits() -> None:
    state = cluster()
    state = state.after(relay_stage.start_relay(state, "s1", ["w3"]).ops)
    state = state.after(source_binding.add_source(state, "s3", "config").ops)
    assert state.unbound_sources() == ["s3"]
    state = state.after(relay_stage.stop_relay(state, "s1", ["w3"]).ops)
    assert state.worker_of("s3") == "w3"


def test_the_relay_ends_with_the_last_worker_that_was_named_for_it() -> None:
    """It must not go over to the worker that serves the source, which was not named."""
    before = cluster()
    state = before.after(relay_stage.start_relay(before, "s1", ["w1", "w3"]).ops)
    for worker, stages in (("w3", {"s1": "Running"}), ("w1", {})):
        state = replace(state, alive={name: one for name, one in state.alive.items() if name != worker})
        state = state.after(source_binding.remove_worker(state, worker).ops)
        assert state.relay_stages == stages


def test_what_does_not_fit_is_refused() -> None:
    state = cluster()
    bound = state.after(relay_stage.start_relay(state, "s1", []).ops)
    named = state.after(relay_stage.start_relay(state, "s1", ["w1"]).ops)
    assert code_of(lambda: relay_stage.start_relay(state, "s9", [])) == 46008
    assert code_of(lambda: relay_stage.stop_relay(state, "s9", [])) == 46008
    assert code_of(lambda: relay_stage.start_relay(state, "s1", ["w9"])) == 46004
    assert code_of(lambda: relay_stage.start_relay(state, "s1", ["w2"])) == 46021
    assert code_of(lambda: relay_stage.start_relay(named, "s2", ["w1"])) == 46020
    assert code_of(lambda: relay_stage.stop_relay(named, "s2", ["w1"])) == 46022
    assert code_of(lambda: relay_stage.stop_relay(named, "s1", ["w9"])) == 46004
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


def test_a_worker_that_pulls_nothing_is_stopped_already() -> None:
    named = cluster().after(relay_stage.start_relay(cluster(), "s1", ["w1"]).ops)
    assert relay_stage.stop_relay(named, "s1", ["w2"]) == Plan()
    assert relay_stage.stop_relay(cluster(), "s1", ["w1"]) == Plan()
    assert named.after(relay_stage.stop_relay(named, "s1", ["w1", "w2"]).ops) == cluster()


def test_refusals_have_the_strings_that_scripts_look_for() -> None:
    state = cluster()
    bound = state.after(relay_stage.start_relay(state, "s1", []).ops)
    named = state.after(relay_stage.start_relay(state, "s1", ["w1"]).ops)
    refused: list[tuple[Callable[[], Plan], str]] = [
        (lambda: relay_stage.start_relay(named, "s1", []), "can't `start-relay` without worker name now"),
        (lambda: relay_stage.stop_relay(named, "s1", []), "can't `stop-relay` without worker name now"),
        (lambda: relay_stage.start_relay(bound, "s1", ["w1"]), "can't `start-relay` with worker name now"),
        (lambda: relay_stage.stop_relay(bound, "s1", ["w1"]), "can't `stop-relay` with worker name now"),
        (
            lambda: relay_stage.start_relay(state, "s1", ["w2"]),
            "these workers [w2] have bound for another sources [s2] respectively",
        ),
        (
            lambda: relay_stage.start_relay(named, "s2", ["w1"]),
            "these workers [w1] have started relay for another sources [s1] respectively",
        ),
    ]
    for plan, words in refused:
        with pytest.raises(DMError) as caught:
            plan()
        assert words in caught.value.message


_DECISIONS = st.one_of(
    st.tuples(st.just("start"), st.lists(st.sampled_from(["w1", "w2", "w3"]), max_size=2)),
    st.tuples(st.just("stop"), st.lists(st.sampled_from(["w1", "w2", "w3"]), max_size=2)),
)


@given(st.lists(_DECISIONS, max_size=6))
def test_the_console_starts_stops_and_removes_exactly_what_the_cluster_accepts(
    decisions: list[tuple[str, list[str]]],
) -> None:
    state = cluster()
    for name, workers in decisions:
        decide = relay_stage.start_relay if name == "start" else relay_stage.stop_relay
        with suppress(DMError):
            state = state.after(decide(state, "s1", workers).ops)
    named = relay_stage.named_workers(state, "s1")
    status = pb.SourceStatus(relayWorkers=named, relayFollows=enabled(state, "s1"))
    able = [
        name
        for name, decide in {
            "stop-relay": lambda: relay_stage.stop_relay(state, "s1", named),
            "start-relay": lambda: relay_stage.start_relay(state, "s1", named),
            "remove-source": lambda: source_binding.remove_source(state, "s1"),
        }.items()
        if changes(decide)
    ]
    assert [one for one in allowed_for_source(status, used=False) if one != "disable-source"] == able
    assert "remove-source" not in allowed_for_source(status, used=True)


def changes(decide: Callable[[], Plan]) -> bool:
    """Whether it is accepted and changes something."""
    try:
        return bool(decide().ops)
    except DMError:
        return False
