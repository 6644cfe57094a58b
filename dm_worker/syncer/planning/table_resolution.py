"""Feeds a planner and resolves the tables that it needs, possibly by queries to servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm_worker.syncer.planning.planner import Planner
from dm_worker.syncer.planning.table_maps import Handling
from pkg.binlog.events import Event
from pkg.binlog.position import Position

#: How the rows after a TABLE_MAP at a position are handled. The second value asks to end the batch before it.
Resolve = Callable[[bytes, Position], tuple[Handling, bool]]


def feed_events(planner: Planner, events: Sequence[Event], resolve: Resolve) -> int:
    """Feeds ``events`` as :meth:`Planner.feed` does, and resolves the tables that the planner needs in between.

    Returns how many were taken. Raises DMError as the planner and ``resolve`` do.
    """
    taken = 0
    while True:
        taken += planner.feed(events[taken:] if taken else events)
        if planner.needed_table is None:
            return taken
        while (need := planner.needed_table) is not None:
            handling, ends_batch = resolve(need.table_map, need.position)
            planner.resolve_table(handling, ends_batch=ends_batch)
