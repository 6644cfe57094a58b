"""Reads the cluster once per interval, however many browsers watch: pages and streams of events share the snapshot.
Everything here runs in the port's event loop, except for the read itself, which runs in a thread.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable

from starlette.concurrency import run_in_threadpool

from dm_master.console.rendering import moment
from dm_master.console.snapshot import ClusterSnapshot

#: Seconds between two reads; a slow read makes the interval longer.
INTERVAL = 2.0
#: The interval is at least this many times the duration of the last read.
_SHARE = 4
#: The most streams at the same time.
MOST_STREAMS = 500
_MOST_FRAGMENTS = 256


class LiveStatus:
    """``read`` reads the cluster. More browsers do not cause more reads."""

    def __init__(self, read: Callable[[], ClusterSnapshot], interval: float = INTERVAL) -> None:
        self._read = read
        self._interval = interval
        self._latest: ClusterSnapshot | None = None
        self._due = 0.0
        self._look: asyncio.Task[ClusterSnapshot] | None = None

    async def current(self) -> ClusterSnapshot:
        """The latest snapshot, not older than the interval."""
        if self._latest is not None and _now() < self._due:
            return self._latest
        if self._look is None:
            self._look = asyncio.create_task(self._look_once())
        # A caller that leaves must not cancel the read for the others.
        return await asyncio.shield(self._look)

    async def next(self, after: int) -> ClusterSnapshot:
        """The first snapshot after the one with the number ``after``."""
        snapshot = await self.current()
        while snapshot.number <= after:
            await asyncio.sleep(max(0.0, self._due - _now()))
            snapshot = await self.current()
        return snapshot

    def expire(self) -> None:
        """Call this after a change: the next page must not show an older snapshot."""
        self._due = 0.0

    async def _look_once(self) -> ClusterSnapshot:
        began = _now()
        try:
            self._latest = await run_in_threadpool(self._read)
        finally:
            self._look = None
        took = _now() - began
        self._due = began + max(self._interval, _SHARE * took)
        return self._latest


#: Renders the changing part of a page; the key identifies the page.
RenderPart = Callable[[ClusterSnapshot], str]


class LiveParts:
    """The changing part of pages, rendered once for each snapshot, for all browsers that show the same page."""

    def __init__(self, live: LiveStatus) -> None:
        self._live = live
        self._parts: OrderedDict[tuple[str, int], asyncio.Task[str]] = OrderedDict()
        self.streams = 0

    async def part(self, page: str, snapshot: ClusterSnapshot, render: RenderPart) -> str:
        key = (page, snapshot.number)
        if key not in self._parts:
            self._parts[key] = asyncio.create_task(run_in_threadpool(render, snapshot))
            while len(self._parts) > _MOST_FRAGMENTS:
                self._parts.popitem(last=False)
        return await asyncio.shield(self._parts[key])

    async def events(self, page: str, render: RenderPart) -> AsyncGenerator[str, None]:
        """Server-sent events with the changed part of ``page``, until the browser leaves."""
        self.streams += 1
        try:
            sent, number = "", 0
            while True:
                snapshot = await self._live.next(number)
                number = snapshot.number
                html = await self.part(page, snapshot, render)
                # The time is sent with each snapshot, so that both sides notice a lost connection.
                yield f"event: at\ndata: {json.dumps(moment(snapshot.at))}\n\n"
                if html != sent:
                    sent = html
                    yield f"data: {json.dumps(html)}\n\n"
        finally:
            self.streams -= 1


def _now() -> float:
    return asyncio.get_running_loop().time()
