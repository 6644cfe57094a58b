"""Who serves what: no source twice, no worker twice, nobody idle while a source waits, nothing lost by a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dm_master.scheduling import source_binding, task_stage
from dm_master.scheduling.topology import Plan, Topology
from pkg.errors import Code, DMError
from pkg.etcd.types import Delete, EtcdOperation, Put
from pkg.ha import keys
from pkg.ha.records import SubTaskStage, WorkerAlive
from pkg.pb import dmmaster_pb2 as pb
from pkg.status.operations import may_remove_worker
from tests.sweeps import examples

ALIVE = WorkerAlive("w", "2026-01-02T03:04:05Z")
SOURCES = ("s1", "s2", "s3", "s4")
WORKERS = ("w1", "w2", "w3")
TASKS = ("t1", "t2")
names = st.sampled_from


def code_of(action: Callable[[], object]) -> int:
    with pytest.raises(DMError) as caught:
        action()
    return caught.value.code


def cluster(*, sources: str = "", alive: str = "", offline: str = "") -> Topology:
    """A settled cluster of blank-separated names, made by the decisions themselves."""
    state = Topology()
    for worker in (alive + " " + offline).split():
        state = state.after(source_binding.register_worker(state, worker, f"{worker}:8262").ops)
    state = replace(state, alive=dict.fromkeys(alive.split(), ALIVE))
    for source in sources.split():
        state = state.after(source_binding.add_source(state, source, f"config of {source}").ops)
    return state


def with_task(state: Topology, task: str, *sources: str) -> Topology:
    return state.after(task_stage.start_task(state, task, "text", dict.fromkeys(sources, "config")).ops)


def moved(state: Topology, alive: str) -> Topology:
    """The state after these, and only these, workers are alive."""
    state = replace(state, alive=dict.fromkeys(alive.split(), ALIVE))
    return state.after(source_binding.rebalance(state).ops)


class ClusterMachine(RuleBasedStateMachine):
    """Any order of commands and events; refused ones must change nothing, and the invariants always hold."""

    def __init__(self) -> None:
        super().__init__()
        self.state = Topology()

    def _do(self, decide: Callable[[], Plan]) -> bool:
        """Whether it was done, not refused."""
        before = self.state
        refusal: DMError | None = None
        try:
            plan = decide()
        except DMError as exc:
            refusal = exc
        if refusal is not None:
            assert 46000 <= refusal.code < 47000
            assert refusal.workaround or refusal.kind is Code.SchedulerSubTaskStageInvalidUpdate
            return False
        written = [op.key for op in plan.ops]
        assert len(written) == len(set(written)), "etcd refuses a key written twice in one transaction"
        self.state = before.after(plan.ops)
        self._working_bounds_stay(before)
        return True

    def _working_bounds_stay(self, before: Topology) -> None:
        """Only a transfer or the end of a source may take a source from a worker that serves it."""
        if self._may_move:
            return
        for worker, source in before.bounds.items():
            if worker in self.state.alive and worker in self.state.workers and source in self.state.sources:
                has_load = {holder for (_, of), holder in before.load_tasks.items() if of == source}
                assert self.state.bounds.get(worker) == source or self.state.worker_of(source) in has_load - {worker}

    _may_move = False

    @rule(source=names(SOURCES), worker=names(("", *WORKERS)))
    def add_source(self, source: str, worker: str) -> None:
        self._do(lambda: source_binding.add_source(self.state, source, "config", worker))

    @rule(source=names(SOURCES))
    def remove_source(self, source: str) -> None:
        self._do(lambda: source_binding.remove_source(self.state, source))

    @rule(source=names(SOURCES), worker=names(WORKERS))
    def transfer(self, source: str, worker: str) -> None:
        self._may_move = True
        if self._do(lambda: source_binding.transfer_source(self.state, source, worker)):
            assert self.state.worker_of(source) == worker
        self._may_move = False

    @rule(worker=names(WORKERS), address=names(("a", "b")))
    def register(self, worker: str, address: str) -> None:
        self._do(lambda: source_binding.register_worker(self.state, worker, address))

    @rule(worker=names(WORKERS))
    def remove_worker(self, worker: str) -> None:
        self._do(lambda: source_binding.remove_worker(self.state, worker))

    @rule(alive=st.sets(names(WORKERS)))
    def workers_come_and_go(self, alive: set[str]) -> None:
        self.state = replace(self.state, alive=dict.fromkeys(alive, ALIVE))
        self._do(lambda: source_binding.rebalance(self.state))

    @rule(worker=names(WORKERS), source=names(SOURCES))
    def a_relay_is_assigned(self, worker: str, source: str) -> None:
        """As the relay's commands will do it: to a source that exists, on a worker that serves no other."""
        if source in self.state.sources and self.state.bounds.get(worker, source) == source:
            self.state = self.state.after([Put(keys.RELAY_WORKER.key(worker), source)])
            self._do(lambda: source_binding.rebalance(self.state))

    @rule(worker=names(WORKERS))
    def a_relay_ends(self, worker: str) -> None:
        self.state = self.state.after([Delete(keys.RELAY_WORKER.key(worker))])
        self._do(lambda: source_binding.rebalance(self.state))

    @rule(task=names(TASKS), source=names(SOURCES))
    def a_load_begins(self, task: str, source: str) -> None:
        """Its worker claims it; nobody else can as long as the claim is there."""
        worker = self.state.worker_of(source)
        if worker and (source, task) in self.state.subtasks and (task, source) not in self.state.load_tasks:
            self.state = self.state.after([Put(keys.LOAD_TASK.key(task, source), worker)])
            self._do(lambda: source_binding.rebalance(self.state))

    @rule(task=names(TASKS), source=names(SOURCES))
    def a_load_ends(self, task: str, source: str) -> None:
        self.state = self.state.after([Delete(keys.LOAD_TASK.key(task, source))])
        self._do(lambda: source_binding.rebalance(self.state))

    @rule(task=names(TASKS), sources=st.sets(names(SOURCES), min_size=1))
    def start_task(self, task: str, sources: set[str]) -> None:
        self._do(lambda: task_stage.start_task(self.state, task, "text", dict.fromkeys(sources, "config")))

    @rule(task=names(TASKS), sources=st.sets(names(SOURCES)), stage=names(("Running", "Paused", "Finished")))
    def set_stage(self, task: str, sources: set[str], stage: str) -> None:
        self._do(lambda: task_stage.set_stage(self.state, task, sorted(sources), stage))

    @rule(task=names(TASKS), sources=st.sets(names(SOURCES)))
    def stop_task(self, task: str, sources: set[str]) -> None:
        self._do(lambda: task_stage.stop_task(self.state, task, sorted(sources)))

    @invariant()
    def a_source_has_one_worker_at_most(self) -> None:
        served = list(self.state.bounds.values())
        assert len(served) == len(set(served))

    @invariant()
    def only_workers_that_can_serve_are_bound(self) -> None:
        for worker, source in self.state.bounds.items():
            assert worker in self.state.workers
            assert worker in self.state.alive
            assert source in self.state.sources
            assert self.state.last_bounds[worker] == source

    @invariant()
    def an_unfinished_load_goes_on_where_its_files_are(self) -> None:
        """Unless its worker is away, serves another source, or the source's other load lies with who serves it."""
        for (_, source), holder in self.state.load_tasks.items():
            server = self.state.worker_of(source)
            others = {who for (_, of), who in self.state.load_tasks.items() if of == source}
            if server != holder and server not in others and holder in self.state.workers:
                stage = self.state.worker_stage(holder)
                assert stage in ("offline", "bound") or self.state.relay_workers.get(holder, source) != source

    @invariant()
    def the_bindings_are_settled(self) -> None:
        assert source_binding.rebalance(self.state) == Plan()

    @invariant()
    def nobody_is_idle_while_a_source_waits(self) -> None:
        for worker in self.state.workers:
            if self.state.worker_stage(worker) in ("free", "relay"):
                waiting = set(self.state.unbound_sources())
                relayed = self.state.relay_workers.get(worker)
                assert not (waiting & {relayed} if relayed else waiting)

    @invariant()
    def the_console_removes_exactly_the_workers_that_may_go(self) -> None:
        for worker in self.state.workers:
            shown = pb.WorkerInfo(name=worker, stage=self.state.worker_stage(worker))
            refused: DMError | None = None
            try:
                source_binding.remove_worker(self.state, worker)
            except DMError as exc:
                refused = exc
            assert may_remove_worker(shown) == (refused is None)

    @invariant()
    def tasks_are_whole(self) -> None:
        assert set(self.state.subtasks) == set(self.state.stages)
        assert {task for _, task in self.state.subtasks} == set(self.state.task_texts)
        assert {source for source, _ in self.state.subtasks} <= set(self.state.sources)
        assert set(self.state.stages.values()) <= {"Running", "Paused"}


ClusterMachine.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40)
TestCluster = ClusterMachine.TestCase


@settings(max_examples=examples(1000))
@example(
    bounds={"w2": "s1", "w1": "s4"},
    last={},
    relay={},
    load={("t1", "s1"): "w1", ("t1", "s4"): "w3"},
    alive={"w1", "w2", "w3"},
    registered={"w1", "w2", "w3"},
    sources={"s1", "s4"},
)
@given(
    bounds=st.dictionaries(names(WORKERS), names(SOURCES)),
    last=st.dictionaries(names(WORKERS), names(SOURCES)),
    relay=st.dictionaries(names(WORKERS), names(SOURCES)),
    load=st.dictionaries(st.tuples(names(TASKS), names(SOURCES)), names(WORKERS)),
    alive=st.sets(names(WORKERS)),
    registered=st.sets(names(WORKERS)),
    sources=st.sets(names(SOURCES)),
)
def test_whatever_bindings_a_new_leader_finds_one_pass_makes_them_sound(
    bounds: dict[str, str],
    last: dict[str, str],
    relay: dict[str, str],
    load: dict[tuple[str, str], str],
    alive: set[str],
    registered: set[str],
    sources: set[str],
) -> None:
    found = replace(
        cluster(offline=" ".join(sorted(registered))),
        sources=dict.fromkeys(sources, "config"),
        bounds=bounds,
        last_bounds=last,
        relay_workers=relay,
        load_tasks=load,
        alive=dict.fromkeys(alive, ALIVE),
    )
    plan = source_binding.rebalance(found)
    assert len({op.key for op in plan.ops}) == len(plan.ops)
    state = found.after(plan.ops)
    assert source_binding.rebalance(state) == Plan()
    assert len(set(state.bounds.values())) == len(state.bounds)
    assert set(state.bounds) <= registered & alive
    assert set(state.bounds.values()) <= sources
    for worker, source in state.bounds.items():
        assert bounds.get(worker) == source or relay.get(worker, source) == source
    for worker, source in bounds.items():
        sound = worker in registered & alive and source in sources and list(bounds.values()).count(source) == 1
        if sound and not any(of == source for _, of in load):
            assert state.bounds.get(worker) == source


def test_a_source_found_at_two_workers_keeps_one() -> None:
    state = replace(cluster(sources="s1 s2", alive="w1 w2"), bounds={"w1": "s1", "w2": "s1"})
    assert state.after(source_binding.rebalance(state).ops).bounds == {"w1": "s1", "w2": "s2"}


# --- who gets what ---


def test_a_source_moves_to_a_free_worker_and_stays_there_when_the_old_one_returns() -> None:
    state = cluster(sources="s1", alive="w1 w2")
    assert state.worker_of("s1") == "w1"
    state = moved(state, "w2")
    assert state.worker_of("s1") == "w2"
    state = moved(state, "w1 w2")
    assert state.worker_of("s1") == "w2"
    assert state.worker_stage("w1") == "free"


def test_workers_get_their_last_sources_back_after_a_restart_of_all() -> None:
    state = cluster(sources="s1 s2 s3", alive="w1 w2 w3")
    before = dict(state.bounds)
    state = moved(state, "")
    assert not state.bounds
    assert moved(state, "w1 w2 w3").bounds == before


def test_a_waiting_source_is_served_by_the_next_worker_that_comes() -> None:
    state = cluster(offline="w1")
    plan = source_binding.add_source(state, "s1", "config")
    assert plan.message == "source is added but there is no free worker to bound"
    state = moved(state.after(plan.ops), "w1")
    assert state.worker_of("s1") == "w1"


@pytest.mark.parametrize(
    ("load", "relay", "last", "expected"),
    [
        ({("t", "s1"): "w2"}, {"w1": "s1"}, {"w1": "s1"}, "w2"),
        ({}, {"w2": "s1", "w3": "s1"}, {"w3": "s1", "w1": "s1"}, "w3"),
        ({}, {"w3": "s1"}, {"w2": "s1"}, "w3"),
        ({}, {}, {"w2": "s1"}, "w2"),
        ({}, {"w1": "s2"}, {}, "w2"),
        ({("t", "s1"): "w1"}, {"w1": "s2"}, {}, "w2"),
    ],
)
def test_the_best_worker_is_chosen(
    load: Mapping[tuple[str, str], str], relay: Mapping[str, str], last: Mapping[str, str], expected: str
) -> None:
    state = replace(cluster(alive="w1 w2 w3"), load_tasks=load, relay_workers=relay, last_bounds=last)
    plan = source_binding.add_source(state, "s1", "config")
    assert state.after(plan.ops).worker_of("s1") == expected


def test_an_unfinished_load_returns_to_the_worker_that_has_its_files() -> None:
    state = with_task(cluster(sources="s1", alive="w1 w2"), "t", "s1")
    state = state.after([Put(keys.LOAD_TASK.key("t", "s1"), "w1")])
    state = moved(state, "w2")
    assert state.bounds == {"w2": "s1"}
    state = moved(state, "w1 w2")
    assert state.bounds == {"w1": "s1"}
    assert state.worker_stage("w2") == "free"


def test_a_source_is_not_moved_away_from_its_unfinished_load() -> None:
    state = with_task(cluster(sources="s1", alive="w1 w2"), "t", "s1")
    state = state.after([Put(keys.LOAD_TASK.key("t", "s1"), "w1")])
    assert code_of(lambda: source_binding.transfer_source(state, "s1", "w2")) == 46006


def test_loads_of_one_source_on_two_workers_do_not_throw_it_back_and_forth() -> None:
    state = with_task(with_task(cluster(sources="s1", alive="w1 w2"), "t1", "s1"), "t2", "s1")
    state = state.after([Put(keys.LOAD_TASK.key("t1", "s1"), "w1"), Put(keys.LOAD_TASK.key("t2", "s1"), "w2")])
    assert source_binding.rebalance(state) == Plan()


def test_a_source_stays_with_the_worker_it_was_given_to() -> None:
    state = cluster(alive="w1 w2")
    state = state.after(source_binding.add_source(state, "s1", "config", "w2").ops)
    assert state.bounds == {"w2": "s1"}


def test_a_stopped_source_frees_its_worker_for_a_waiting_one() -> None:
    state = cluster(sources="s1 s2", alive="w1")
    plan = source_binding.remove_source(state, "s1")
    assert plan.message == ""
    assert state.after(plan.ops).bounds == {"w1": "s2"}


def test_a_source_that_never_had_a_worker_says_so() -> None:
    plan = source_binding.remove_source(cluster(sources="s1"), "s1")
    assert plan.message == "source is stopped and hasn't bound to worker before being stopped"


def test_a_transferred_source_leaves_a_worker_for_the_next() -> None:
    state = cluster(sources="s1", alive="w1 w2")
    state = state.after(source_binding.transfer_source(state, "s1", "w2").ops)
    assert state.bounds == {"w2": "s1"}
    assert source_binding.transfer_source(state, "s1", "w2").ops == ()


# --- refusals ---


def test_refusals_have_dms_codes() -> None:
    state = with_task(cluster(sources="s1 s2", alive="w1 w2 w3", offline="w4"), "t", "s1")
    relayed = replace(state, relay_workers={"w3": "s2"})
    assert code_of(lambda: source_binding.add_source(state, "s1", "config")) == 46007
    assert code_of(lambda: source_binding.add_source(state, "s9", "config", "nobody")) == 46004
    assert code_of(lambda: source_binding.add_source(state, "s9", "config", "w1")) == 46033
    assert code_of(lambda: source_binding.add_source(relayed, "s9", "config", "w3")) == 46027
    assert code_of(lambda: source_binding.remove_source(state, "s9")) == 46008
    assert code_of(lambda: source_binding.remove_source(state, "s1")) == 46010
    assert code_of(lambda: source_binding.remove_source(relayed, "s2")) == 46023
    assert code_of(lambda: source_binding.transfer_source(state, "s9", "w3")) == 46008
    assert code_of(lambda: source_binding.transfer_source(state, "s1", "nobody")) == 46004
    assert code_of(lambda: source_binding.transfer_source(state, "s1", "w2")) == 46006
    assert code_of(lambda: source_binding.transfer_source(state, "s1", "w4")) == 46006
    assert code_of(lambda: source_binding.transfer_source(relayed, "s1", "w3")) == 46027
    assert code_of(lambda: source_binding.register_worker(state, "w1", "elsewhere:8262")) == 46003
    assert code_of(lambda: source_binding.remove_worker(state, "nobody")) == 46004
    assert code_of(lambda: source_binding.remove_worker(state, "w1")) == 46005


def test_tasks_refuse_what_does_not_exist() -> None:
    state = with_task(cluster(sources="s1 s2 s3", alive="w1 w2"), "t", "s1")
    assert code_of(lambda: task_stage.start_task(state, "t", "text", {"s9": "config"})) == 46008
    assert code_of(lambda: task_stage.start_task(state, "t", "text", {"s1": "config"})) == 46014
    assert code_of(lambda: task_stage.start_task(state, "t", "text", {"s3": "config"})) == 46009
    assert code_of(lambda: task_stage.set_stage(state, "t", [], "Finished")) == 46015
    assert code_of(lambda: task_stage.set_stage(state, "other", [], "Paused")) == 46018
    assert code_of(lambda: task_stage.set_stage(state, "t", ["s2"], "Paused")) == 46017
    assert code_of(lambda: task_stage.stop_task(state, "other", [])) == 46018
    assert code_of(lambda: task_stage.stop_task(state, "t", ["s1", "s2"])) == 46017


def test_a_stored_task_needs_no_worker_and_runs_later() -> None:
    state = cluster(sources="s1 s2", alive="w1")
    state = state.after(task_stage.start_task(state, "t", "text", {"s1": "a", "s2": "a"}, stage="Stopped").ops)
    assert state.stages == {("s1", "t"): "Stopped", ("s2", "t"): "Stopped"}
    assert code_of(lambda: task_stage.start_task(state, "t", "text", {"s1": "b"}, stage="Stopped")) == 46014
    assert code_of(lambda: task_stage.start_task(state, "t", "text", {"s2": "b"})) == 46009
    state = state.after(task_stage.start_task(state, "t", "text", {"s1": "b"}).ops)
    assert (state.stages["s1", "t"], state.subtasks["s1", "t"]) == ("Running", "b")


def test_an_update_replaces_all_of_a_task_that_does_not_run() -> None:
    state = with_task(cluster(sources="s1 s2", alive="w1 w2"), "t", "s1")
    new = {"s1": "new", "s2": "new"}
    assert code_of(lambda: task_stage.update_task(state, "other", "text", new)) == 46018
    assert code_of(lambda: task_stage.update_task(state, "t", "text", new)) == 46035
    state = state.after(task_stage.set_stage(state, "t", [], "Paused").ops)
    assert code_of(lambda: task_stage.update_task(state, "t", "text", {"s2": "new"})) == 46035
    assert code_of(lambda: task_stage.update_task(state, "t", "text", {"s1": "new", "s9": "new"})) == 46008
    state = state.after(task_stage.update_task(state, "t", "changed", new).ops)
    assert state.task_texts["t"] == "changed"
    assert {key: (state.subtasks[key], state.stages[key]) for key in state.subtasks} == {
        ("s1", "t"): ("new", "Paused"),
        ("s2", "t"): ("new", "Stopped"),
    }


def test_a_source_is_updated_while_nothing_uses_it() -> None:
    state = with_task(cluster(sources="s1", alive="w1"), "t", "s1")
    assert code_of(lambda: source_binding.update_source(state, "s9", "new", {})) == 46008
    assert code_of(lambda: source_binding.update_source(state, "s1", "new", {"t": "new"})) == 46025
    state = state.after(task_stage.set_stage(state, "t", [], "Paused").ops)
    assert code_of(lambda: source_binding.update_source(state, "s1", "new", {})) == 46025
    plan = source_binding.update_source(state, "s1", "new", {"t": "new"})
    # The worker reads the source again because its key is written again.
    assert [op.key for op in plan.ops if op.key.startswith(keys.BOUND.prefix())] == [keys.BOUND.key("w1")]
    after = state.after(plan.ops)
    assert (after.sources["s1"], after.subtasks["s1", "t"], after.bounds) == ("new", "new", state.bounds)


# --- tasks ---


def test_starting_again_adds_the_new_sources_only() -> None:
    state = with_task(cluster(sources="s1 s2", alive="w1 w2"), "t", "s1")
    state = state.after(task_stage.set_stage(state, "t", [], "Paused").ops)
    plan = task_stage.start_task(state, "t", "new text", {"s1": "changed", "s2": "config"})
    state = state.after(plan.ops)
    assert state.subtasks == {("s1", "t"): "config", ("s2", "t"): "config"}
    assert state.stages == {("s1", "t"): "Paused", ("s2", "t"): "Running"}
    assert state.task_texts == {"t": "new text"}


def test_resuming_writes_again_what_is_expected_already() -> None:
    state = with_task(cluster(sources="s1", alive="w1"), "t", "s1")
    expected: tuple[EtcdOperation, ...] = (
        Put(keys.SUBTASK_STAGE.key("s1", "t"), SubTaskStage("Running", "s1", "t").to_json()),
    )
    assert task_stage.set_stage(state, "t", ["s1"], "Running").ops == expected


def test_resuming_in_safe_mode_stores_that_with_the_stage_until_the_next_one() -> None:
    state = with_task(cluster(sources="s1", alive="w1"), "t", "s1")
    (safe,) = task_stage.set_stage(state, "t", [], "Running", safe_mode=True).ops
    assert isinstance(safe, Put)
    assert SubTaskStage.from_json(safe.value) == SubTaskStage("Running", "s1", "t", safe_mode=True)
    (then,) = task_stage.set_stage(state.after((safe,)), "t", [], "Paused").ops
    assert isinstance(then, Put)
    assert not SubTaskStage.from_json(then.value).safe_mode


def test_the_file_goes_with_the_last_subtask() -> None:
    state = with_task(cluster(sources="s1 s2", alive="w1 w2"), "t", "s1", "s2")
    state = state.after(task_stage.stop_task(state, "t", ["s1"]).ops)
    assert state.task_texts == {"t": "text"}
    state = state.after(task_stage.stop_task(state, "t", []).ops)
    assert not state.subtasks
    assert not state.stages
    assert not state.task_texts


def test_a_foreign_key_is_refused() -> None:
    assert code_of(lambda: Topology().after([Put("/dm-master/unknown/61", "")])) == 42502
