"""Hazard: browsers that watch make the leader work, or a page of a large cluster is slow or large."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import AsyncExitStack, aclosing

import pytest

from dm_master.console.forms import Form
from dm_master.console.live import LiveParts, LiveStatus
from dm_master.console.pages import LIVE_PAGES
from dm_master.console.rendering import Renderer
from dm_master.console.snapshot import CURVE_POINTS, ClusterReader, ClusterSnapshot
from dm_master.console.view.rules import rules_view
from tests.harness.canned_cluster import CannedCluster, large_cluster, replicating, rules, small_cluster

BROWSERS = 50
INTERVAL = 0.1


def _text(snapshot: ClusterSnapshot) -> str:
    return f"look {snapshot.number}"


def test_fifty_browsers_cause_one_read_per_interval() -> None:
    cluster = small_cluster()

    async def watch(parts: LiveParts, name: str) -> list[str]:
        found = []
        async with aclosing(parts.events(name, _text)) as events:
            async for event in events:
                if event.startswith("data"):
                    found.append(json.loads(event.removeprefix("data: ")))
                if len(found) == 5:
                    return found
        return found

    async def run() -> float:
        live = LiveStatus(ClusterReader(cluster.call).read, INTERVAL)
        parts = LiveParts(live)
        began = time.monotonic()
        seen = await asyncio.gather(*(watch(parts, f"page {number % 3}") for number in range(BROWSERS)))
        # All of them saw the same looks.
        assert {tuple(one) for one in seen} == {tuple(f"look {number}" for number in range(1, 6))}
        assert parts.streams == 0
        return time.monotonic() - began

    took = asyncio.run(run())
    assert cluster.calls["QueryStatus"] == cluster.calls["ListMember"] == cluster.calls["ShowDDLLocks"] == 5
    assert took >= 4 * INTERVAL


def test_a_part_is_rendered_once_for_all_browsers() -> None:
    made: list[int] = []

    def render(snapshot: ClusterSnapshot) -> str:
        made.append(snapshot.number)
        return "the same"

    async def run() -> None:
        live = LiveStatus(ClusterReader(small_cluster().call).read, INTERVAL)
        parts = LiveParts(live)
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(aclosing(parts.events("page", render))) for _ in range(10)]
            firsts = [[await anext(one), await anext(one)] for one in streams]
            assert all(at.startswith("event: at\n") for at, _ in firsts)
            # What did not change is not sent again: only the time comes.
            assert (await anext(streams[0])).startswith("event: at\n")

    asyncio.run(run())
    assert made == sorted(set(made))


def test_a_slow_leader_is_asked_less_often() -> None:
    looks: list[float] = []

    def read() -> ClusterSnapshot:
        looks.append(time.monotonic())
        time.sleep(0.2)
        return ClusterSnapshot(len(looks), 0.0, small.status, small.members, small.locks)

    small = small_cluster()

    async def run() -> None:
        live = LiveStatus(read, 0.01)
        await live.next((await live.current()).number)

    asyncio.run(run())
    assert looks[1] - looks[0] >= 0.8


def test_a_browser_that_leaves_does_not_cancel_the_read_for_the_others() -> None:
    release = threading.Event()
    small = small_cluster()

    def read() -> ClusterSnapshot:
        release.wait(10)
        return ClusterSnapshot(1, 0.0, small.status, small.members, small.locks)

    async def run() -> int:
        live = LiveStatus(read, 60)
        leaves, stays = asyncio.create_task(live.current()), asyncio.create_task(live.current())
        await asyncio.sleep(0)
        leaves.cancel()
        release.set()
        return (await stays).number

    assert asyncio.run(run()) == 1


def test_the_curves_of_a_task_are_bounded_and_removed_with_it() -> None:
    cluster = CannedCluster()
    source = cluster.add_source("one")
    source.subTaskStatus.append(replicating("orders", rows_per_second=7))
    reader = ClusterReader(cluster.call)
    for _ in range(CURVE_POINTS + 5):
        snapshot = reader.read()
    assert len(snapshot.curves["orders"]) == CURVE_POINTS
    del source.subTaskStatus[:]
    assert reader.read().curves == {}


@pytest.mark.parametrize("page", sorted(LIVE_PAGES))
def test_a_thousand_tasks_stay_quick_and_small(page: str) -> None:
    snapshot = ClusterReader(large_cluster(1000).call).read()
    renderer, query = Renderer(), Form({"name": ["task-00097"]})
    renderer.page(f"parts/{page}.html", LIVE_PAGES[page](snapshot, query))  # compiles the template
    began = time.process_time()
    html = renderer.page(f"parts/{page}.html", LIVE_PAGES[page](snapshot, query))
    assert time.process_time() - began < 0.5
    assert len(html) < 150_000


def test_ten_thousand_tables_stay_quick_and_small() -> None:
    answer = rules(10_000, 10_000)
    renderer = Renderer()
    began = time.process_time()
    view = rules_view(answer, 1)
    assert view.targets.total == 10_000
    assert len(view.targets.items) < 100
    assert time.process_time() - began < 1.0
    merged = rules_view(rules(10_000, 1), 1).targets.items[0]
    assert len(merged.upstream) + merged.more == 10_000
    assert len(merged.upstream) < 50
    assert "console.css" in renderer.files
