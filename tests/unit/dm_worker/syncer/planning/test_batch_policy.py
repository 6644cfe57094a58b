"""Hazard: lag grows because batches are too small, too large or closed too late; budgets are exceeded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.planning.batch_policy import (
    LEAST_BATCH,
    LONGEST,
    MIB,
    QUIET,
    BatchKind,
    BatchPolicy,
    Budget,
    Cost,
)
from pkg.config.worker import LEAST_MEMORY_BUDGET

STEP = 0.001
#: No batch is for the driver.
NOTHING = -1
LINK = 300 * MIB


class World:
    """A source, a link, and a target whose true costs the policy does not know. Time passes in milliseconds."""

    def __init__(self, small: tuple[float, float], large: tuple[float, float], memory: int = 1 << 30) -> None:
        self.costs = {BatchKind.SMALL: small, BatchKind.LARGE: large}
        self.policy = BatchPolicy(Budget.of(memory))
        self.now = 0.0
        self.random = random.Random(1)
        self.sizes: list[int] = []
        self.lags: list[float] = []

    @property
    def best_rate(self) -> float:
        """Bytes per second with the largest batches."""
        fixed, per_mib = self.costs[BatchKind.LARGE]
        size = self.policy.budget.batch
        return size / (fixed + per_mib * size / MIB)

    def run(self, seconds: float, rate: float, backlog: float = 0.0) -> None:
        """``rate`` bytes per second are written at the source."""
        written, fetched, closed = backlog, 0.0, 0.0
        running: tuple[float, int, BatchKind, float, float] | None = None
        queue: list[tuple[int, float]] = []
        first, oldest, silence = 0.0, 0.0, 0.0
        end = self.now + seconds
        while self.now < end:
            self.now += STEP
            written += rate * STEP * self.random.uniform(0.5, 1.5)
            room = sum(size for size, _ in queue) < self.policy.budget.queue
            come = min(LINK * STEP, written - fetched) if room else 0.0
            silence = 0.0 if come > 64 else silence + STEP
            if fetched == closed and come:
                first, oldest = self.now, self.now - (written - fetched) / max(rate, 1)
            fetched += come
            if running and running[0] <= self.now:
                until, size, kind, began, since = running
                self.policy.observe(size, kind=kind, seconds=until - began)
                self.sizes.append(size)
                self.lags.append(until - since)
                running = None
            size = int(fetched - closed)
            waited = self.now - first
            idle = running is None and not queue
            due = self.policy.due(idle=idle, quiet=silence >= QUIET, size=size, waited=waited)
            if size and (size >= self.policy.budget.batch or due):
                queue.append((size, oldest))
                closed = fetched
            if running is None and queue:
                size, since = queue.pop(0)
                kind = self.policy.kind(size, NOTHING)
                fixed, per_mib = self.costs[kind]
                seconds_needed = (fixed + per_mib * size / MIB) * self.random.uniform(0.8, 1.2)
                running = (self.now + seconds_needed, size, kind, self.now, since)


MACHINES = [((0.1, 0.03), (0.25, 0.02)), ((0.2, 0.2), (0.4, 0.1)), ((0.05, 0.01), (0.5, 0.01))]


@pytest.mark.parametrize("costs", MACHINES)
def test_lag_stays_low_at_half_of_the_possible_rate(costs: tuple[tuple[float, float], tuple[float, float]]) -> None:
    world = World(*costs)
    world.run(60, world.best_rate / 2)
    lags = sorted(world.lags[5:])
    fixed = max(costs[0][0], costs[1][0])
    assert lags[len(lags) // 2] < 5 * fixed, "the oldest transaction of a batch waits for one batch and its own"
    assert lags[-1] < 12 * fixed


@pytest.mark.parametrize("costs", MACHINES)
def test_backlog_is_applied_in_full_batches(costs: tuple[tuple[float, float], tuple[float, float]]) -> None:
    world = World(*costs)
    world.run(30, 0, backlog=20 * 1024 * MIB)
    assert world.sizes[0] > MIB, "the first batch is not tiny"
    assert min(world.sizes[2:]) >= world.policy.budget.batch


def test_lag_recovers_after_a_burst() -> None:
    world = World(*MACHINES[0])
    world.run(40, world.best_rate / 3, backlog=500 * MIB)
    assert max(world.lags[-10:]) < 1.0


def test_lone_transaction_does_not_wait_for_company() -> None:
    policy = BatchPolicy(Budget.of(1 << 30))
    assert policy.due(idle=True, quiet=True, size=500, waited=0.0)
    assert not policy.due(idle=False, quiet=True, size=500, waited=9.0), "waiting costs nothing"
    assert not policy.due(idle=True, quiet=False, size=500, waited=0.001)
    assert policy.due(idle=True, quiet=False, size=500, waited=0.03)


def test_driver_applies_what_is_too_little_for_a_job_and_learns_nothing_from_it() -> None:
    policy = BatchPolicy(Budget.of(1 << 30))
    assert [policy.kind(size, tiny=1000) for size in (0, 1000, 1001)] == [
        BatchKind.TINY,
        BatchKind.TINY,
        BatchKind.SMALL,
    ]
    costs = [(cost.fixed, cost.per_mib) for cost in (policy.small, policy.large)]
    for _ in range(20):
        policy.observe(1000, kind=BatchKind.TINY, seconds=0.003)
    assert [(cost.fixed, cost.per_mib) for cost in (policy.small, policy.large)] == costs
    # Rows that are found by a scan each are as slow there.
    policy.observe(1000, kind=BatchKind.TINY, seconds=3600.0)
    assert policy.most == LEAST_BATCH
    assert policy.kind(0, tiny=-1) is BatchKind.SMALL


def test_one_task_is_chosen_where_it_is_faster() -> None:
    policy = BatchPolicy(Budget.of(1 << 30))
    assert policy.kind(100_000, NOTHING) is BatchKind.SMALL
    assert policy.kind(64 * MIB, NOTHING) is BatchKind.LARGE
    for _ in range(50):
        # One core that decodes slowly, and a shuffle that starts fast.
        policy.observe(4 * MIB, kind=BatchKind.SMALL, seconds=2.0)
        policy.observe(4 * MIB, kind=BatchKind.LARGE, seconds=0.4)
    assert policy.kind(4 * MIB, NOTHING) is BatchKind.LARGE


@given(st.lists(st.floats(0, 60), max_size=60))
def test_a_few_transactions_never_need_a_shuffle(hiccups: list[float]) -> None:
    """While the machine was busy small batches took long. A shuffle, with many processes to start, takes longer."""
    policy = BatchPolicy(Budget.of(1 << 30))
    for seconds in hiccups:
        policy.observe(10_000, kind=BatchKind.SMALL, seconds=seconds)
    assert policy.kind(10_000, NOTHING) is BatchKind.SMALL


@given(st.lists(st.tuples(st.integers(0, 128 * MIB), st.floats(0, 1000)), max_size=60))
def test_no_history_makes_costs_absurd(jobs: list[tuple[int, float]]) -> None:
    cost = Cost(0.1, 0.04)
    for size, seconds in jobs:
        cost.observe(size, seconds)
        assert 0 < cost.fixed < 1e9
        assert 0 < cost.per_mib < 1e9


def test_costs_are_learned() -> None:
    cost = Cost(0.1, 0.04)
    sizes = random.Random(2)
    for _ in range(100):
        size = sizes.randrange(8 * MIB)
        cost.observe(size, 0.3 + 0.1 * size / MIB)
    assert cost.fixed == pytest.approx(0.3, rel=0.1)
    assert cost.per_mib == pytest.approx(0.1, rel=0.1)


def test_batches_that_take_minutes_become_smaller_and_grow_again() -> None:
    # A table whose rows are found by a scan each: 50 ms for every 100 bytes.
    policy = BatchPolicy(Budget.of(1 << 30))
    whole = policy.most
    taken = []
    for _ in range(10):
        taken.append(policy.most / 100 * 0.05)
        policy.observe(policy.most, kind=BatchKind.LARGE, seconds=taken[-1])
    assert taken[0] > 3600
    assert max(taken[1:]) <= LONGEST * 1.2 or policy.most == LEAST_BATCH
    # A target that hung once.
    policy.observe(5000, kind=BatchKind.SMALL, seconds=600.0)
    assert policy.most == LEAST_BATCH
    for _ in range(12):
        policy.observe(policy.most, kind=BatchKind.LARGE, seconds=1.0)
    assert policy.most == whole
    # Small batches, because little comes in, say nothing of large ones.
    policy.observe(whole, kind=BatchKind.LARGE, seconds=60.0)
    for _ in range(12):
        policy.observe(5000, kind=BatchKind.SMALL, seconds=0.1)
    assert policy.most == whole // 2


def test_batches_that_the_target_refuses_become_smaller_and_stay_so() -> None:
    policy = BatchPolicy(Budget.of(1 << 30))
    size = policy.most
    policy.refused(size)
    assert policy.most == size // 4
    for _ in range(5):
        policy.observe(policy.most, kind=BatchKind.LARGE, seconds=0.1)
        assert policy.most == size // 4
    for _ in range(40):
        policy.refused(policy.most)
    assert policy.most == 1


@given(st.integers(0, 1 << 40))
def test_shares_add_up_to_the_budget(memory: int) -> None:
    budget = Budget.of(memory)
    assert 8 * budget.batch + budget.queue <= max(memory, LEAST_MEMORY_BUDGET)
    assert max(budget.slice, budget.small) <= budget.batch
    assert budget.limits(2).slice_bytes == budget.slice
