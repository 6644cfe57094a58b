"""Packed blocks: all rows of one bucket from one slice in one bytes object, so that a shuffle moves no rows.

``marshal`` packs lists of bytes several times faster than pickle; driver and executors run the same Python.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from dataclasses import dataclass, field

from dm_worker.syncer import compact

#: (operation, plan number, position in the binlog, before image, after image): rows that keep their order.
OrderedRow = tuple[int, int, int, list[bytes] | None, list[bytes] | None]


@dataclass(slots=True)
class Content:
    """The rows of one bucket: compacted states and ordered rows, both per target table number."""

    states: dict[int, compact.States] = field(default_factory=dict)
    ordered: dict[int, list[OrderedRow]] = field(default_factory=dict)
    changes: int = 0


def scatter(
    states: dict[int, compact.States], seeds: dict[int, tuple[int, bool]], buckets: int
) -> dict[int, dict[int, list[tuple[bytes, int, int, bytes]]]]:
    """Places compacted states: bucket → target number → (key, state, plan, values).

    ``seeds`` gives for each target its hash seed and whether its rows spread over the buckets by their key.
    """
    placed: dict[int, dict[int, list[tuple[bytes, int, int, bytes]]]] = {}
    for target, entries in states.items():
        seed, spread = seeds[target]
        if not spread:
            rows = [(key, *entry) for key, entry in entries.items()]
            placed.setdefault(whole_table_bucket(seed, buckets), {})[target] = rows
            continue
        lists: list[list[tuple[bytes, int, int, bytes]]] = [[] for _ in range(buckets)]
        bucket_of = compact.bucket_of
        for key, entry in entries.items():
            lists[bucket_of(key, seed, buckets)].append((key, *entry))
        for bucket, rows in enumerate(lists):
            if rows:
                placed.setdefault(bucket, {})[target] = rows
    return placed


def whole_table_bucket(seed: int, buckets: int) -> int:
    """The one bucket of a table whose rows must not be spread."""
    return seed % buckets


def pack(
    states: dict[int, list[tuple[bytes, int, int, bytes]]], ordered: dict[int, list[OrderedRow]], changes: int
) -> bytes:
    """One bucket's rows of one slice as bytes; ``changes`` is the number of row changes they stand for."""
    return marshal.dumps((states, ordered, changes))


def combine(blocks: Iterable[tuple[int, bytes]], *, safe: bool) -> Content:
    """Merges the blocks (slice order, bytes) of one bucket in slice order. Raises ``ImpossibleChange``."""
    content = Content()
    for _, data in sorted(blocks):
        states, ordered, changes = marshal.loads(data)
        for target, rows in states.items():
            compact.merge(content.states.setdefault(target, {}), rows, safe=safe)
        for target, rows in ordered.items():
            content.ordered.setdefault(target, []).extend(rows)
        content.changes += changes
    return content
