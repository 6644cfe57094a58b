"""Merges the blocks of one bucket into groups of SQL rows, one statement each. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add
from types import ModuleType
from typing import NamedTuple

from dm_worker.syncer.execution import compaction, row_block
from dm_worker.syncer.execution.compaction import ImpossibleChange
from dm_worker.syncer.execution.row_block import OrderedRow
from pkg.binlog.rows.row_decoder import KERNEL

#: Kinds of groups, in the order of execution.
DELETE_KEYS, UPSERT_ROWS, INSERT_ROWS = 0, 1, 2
#: How a state is written: flags to combine, one per kind.
AS_DELETE, AS_UPSERT, AS_INSERT = 1 << DELETE_KEYS, 1 << UPSERT_ROWS, 1 << INSERT_ROWS


class WriteRule(NamedTuple):
    """How the states of one plan are written as groups.

    ``kinds`` has the flags ``AS_…`` of each state (INSERTED, UPDATED, DELETED, REPLACED, GONE), then those of the
    states of rows in conflict sets. ``wrap``: keys are in parentheses. ``most_bytes`` and ``most_rows`` limit a group
    of each kind; a row over the limit has its own group. ``source`` is the number of the plan's upstream table.
    """

    kinds: bytes
    wrap: bool
    most_bytes: tuple[int, int, int]
    most_rows: tuple[int, int, int]
    source: int = 0

    def flags_of(self, state: int) -> int:
        """The flags of a state with its marks."""
        return self.kinds[(state & ~compaction.MARKS) + (compaction.STATE_COUNT if state & compaction.JOINED else 0)]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows of one statement: SQL tuples or keys joined by commas, without the statement's start and end.

    ``cuts`` holds where each row ends in ``body``, as unsigned 32-bit little-endian numbers; the next row begins one
    byte later.
    """

    plan: int
    kind: int
    body: bytes
    cuts: bytes
    count: int

    def rows(self) -> list[bytes]:
        """The single rows."""
        if self.kind == DELETE_KEYS and self.body.count(b",") == self.count - 1:
            return self.body.split(b",")
        start, found = 0, []
        for cut in memoryview(self.cuts).cast("I"):
            found.append(self.body[start:cut])
            start = cut + 1
        return found


@dataclass(slots=True)
class BucketContent:
    """The rows that one bucket writes: groups in the order of execution, then the ordered rows, per target table.
    ``changes`` is the number of row changes that they represent. A row's sequence is unique within the bucket
    and follows the binlog across tables."""

    groups: list[RowGroup] = field(default_factory=list)
    ordered: dict[int, list[OrderedRow]] = field(default_factory=dict)
    changes: int = 0

    @property
    def rows(self) -> int:
        """The number of rows to write."""
        return sum(group.count for group in self.groups) + sum(map(len, self.ordered.values()))


def merge_blocks(
    blocks: Iterable[tuple[int, bytes]],
    rules: Mapping[int, WriteRule],
    *,
    safe: bool = False,
    kernel: ModuleType | None = KERNEL,
) -> BucketContent:
    """Merges the blocks (slice order, bytes) of one bucket in slice order.

    Within a target table all DELETE groups come before UPSERT groups, and these before INSERT groups: keys and values
    that rows release are free when other rows need them. ``kernel``: the compiled row kernel, None for Python.
    Raises ``ImpossibleChange``, and ``ValueError`` for bytes that are not a block.
    """
    if kernel is not None:
        return _combine_natively(kernel, sorted(blocks), rules, safe=safe)
    content = BucketContent()
    states: dict[int, compaction.KeyStates] = {}
    sources = {number: rule.source for number, rule in rules.items()}
    for order, data in sorted(blocks):
        content.changes += row_block.changes_of(data)
        for target, packed, rows in row_block.sections(data, order):
            if packed:
                compaction.merge_states(states.setdefault(target, {}), packed, safe=safe, sources=sources)
            if rows:
                content.ordered.setdefault(target, []).extend(rows)
    for target in sorted(states):
        content.groups += groups_of(states[target], rules)
    return content


def _combine_natively(
    kernel: ModuleType, blocks: Sequence[tuple[int, bytes]], rules: Mapping[int, WriteRule], *, safe: bool
) -> BucketContent:
    try:
        changes, groups, places = kernel.merge(tuple(data for _, data in blocks), dict(rules), safe)
    except kernel.Impossible as exc:
        raise ImpossibleChange(*exc.args) from None
    content = BucketContent([RowGroup(*group) for group in groups], changes=changes)
    for number, target, count, at in places:
        order, data = blocks[number]
        rows, _ = row_block.rows_at(data, at, count, order)
        content.ordered.setdefault(target, []).extend(rows)
    return content


def groups_of(states: compaction.KeyStates, rules: Mapping[int, WriteRule]) -> list[RowGroup]:
    """The groups of one target table, by kind, then by plan, rows in the order of their keys."""
    rows: tuple[dict[int, list[bytes]], ...] = ({}, {}, {})
    for key in sorted(states, key=_place):
        state, number, values = states[key]
        rule = rules[number]
        flags = rule.flags_of(state)
        if flags & AS_DELETE:
            rows[DELETE_KEYS].setdefault(number, []).append(b"(%b)" % key if rule.wrap else key)
        if flags & AS_UPSERT:
            rows[UPSERT_ROWS].setdefault(number, []).append(values)
        if flags & AS_INSERT:
            rows[INSERT_ROWS].setdefault(number, []).append(values)
    return [
        group
        for kind, by_plan in enumerate(rows)
        for number in sorted(by_plan)
        for group in cut(number, kind, by_plan[number], rules[number].most_bytes[kind], rules[number].most_rows[kind])
    ]


def _place(key: bytes) -> tuple[bool, int, bytes]:
    """Sorts roughly in the server's storage order, which saves it a fifth of the work: numbers by their size."""
    number = b"0" <= key[:1] <= b"9"
    return not number, len(key) if number else 0, key


def cut(plan: int, kind: int, rows: Sequence[bytes], most_bytes: int, most_rows: int) -> Iterator[RowGroup]:
    """Cuts rows into groups of at most ``most_rows`` and about ``most_bytes``; a larger row has its own group."""
    # Where each row ends, with a comma after it.
    ends = list(map(add, accumulate(map(len, rows)), range(1, len(rows) + 1)))
    first, start = 0, 0
    while first < len(rows):
        fitting = bisect_right(ends, start + most_bytes + 1, first, min(first + most_rows, len(rows)))
        end = max(fitting, first + 1)
        yield row_group(plan, kind, rows[first:end])
        first, start = end, ends[end - 1]


def row_group(plan: int, kind: int, rows: Sequence[bytes]) -> RowGroup:
    """The rows as one group."""
    cuts = array("I", map(add, accumulate(map(len, rows)), range(len(rows))))
    return RowGroup(plan, kind, b",".join(rows), cuts.tobytes(), len(rows))
