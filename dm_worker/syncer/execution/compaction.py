"""Compaction: of all changes to one key within a batch, only the last image needs to be written. Pure.

A key's changes leave it in one of five states. What existed before the batch matters: an existing row is updated
or deleted, a new one is inserted, and a duplicate key is then an error instead of a silent overwrite.

================  ==========================================================
``INSERTED``      not there before, there now
``UPDATED``       there before, and it stayed the same row
``DELETED``       there before, gone now
``REPLACED``      there before, deleted, and inserted again
``GONE``          not there before, inserted and deleted again
================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pkg import errors
from pkg.errors import Code
from pkg.mysql.names import qualified

INSERT, UPDATE, DELETE = 0, 1, 2

#: The first three equal the operations, so that a key's first change is its own state.
INSERTED, UPDATED, DELETED, REPLACED, GONE = 0, 1, 2, 3, 4
STATE_COUNT = 5
#: A change that is impossible for a row in that state.
IMPOSSIBLE = -1

#: Added to a state when the key's changes came from several upstream tables.
MIXED = 8
#: Added to a state when the row is in a conflict set.
JOINED = 16
MARKS = MIXED | JOINED
#: States of rows that are there.
_THERE = (INSERTED, UPDATED, REPLACED)

#: Plan number → number of its upstream table.
SourceNumbers = Mapping[int, int]
ONE_SOURCE: SourceNumbers = MappingProxyType({})

#: (state, plan number, values): the values are the SQL tuple of the last image, empty when there is none.
KeyState = tuple[int, int, bytes]
KeyStates = dict[bytes, KeyState]
#: (op, key, values, old key), as the row decoder returns them.
KeyChange = tuple[int, bytes, bytes, bytes]

# Indexed by state * 3 + operation.
_STRICT = (
    *(IMPOSSIBLE, INSERTED, GONE),
    *(IMPOSSIBLE, UPDATED, DELETED),
    *(REPLACED, IMPOSSIBLE, IMPOSSIBLE),
    *(IMPOSSIBLE, REPLACED, DELETED),
    *(INSERTED, IMPOSSIBLE, IMPOSSIBLE),
)
# In safe mode the range may be applied already, in part or twice: only whether the row exists at the end counts.
_SAFE = (UPDATED, UPDATED, DELETED) * 5

# A later state as the changes that lead to it, to compact with an earlier state of the same key.
_REPLAY: tuple[tuple[int, ...], ...] = ((INSERT,), (UPDATE,), (DELETE,), (DELETE, INSERT), (INSERT, DELETE))


class ImpossibleChange(Exception):
    """Two changes to one key contradict each other, such as two inserts without a delete between them.

    ``before`` is the state that the earlier change, of ``other_plan``, led to; ``op`` is the later one.
    """

    def __init__(self, key: bytes, before: int, op: int, plan: int, other_plan: int) -> None:
        super().__init__(key, before, op, plan, other_plan)
        self.key = key
        self.before = before
        self.op = op
        self.plan = plan
        self.other_plan = other_plan

    def to_error(self, target: tuple[str, str], source: tuple[str, str], other: tuple[str, str]) -> errors.DMError:
        """The error for operators: table, key and the probable cause. ``other``: the upstream table of the earlier
        change."""
        name, upstream, earlier = (qualified(*table) for table in (target, source, other))
        key = self.key.decode("utf-8", "backslashreplace")
        if self.op == INSERT:
            return errors.new(
                Code.DBExecuteFailed,
                f"Error 1062 (23000): Duplicate entry ({key}) for the key of table {name}: two upstream rows of one "
                f"batch (one from {earlier}, the later one from {upstream}) have the same key",
                scope="downstream",
                workaround="Give the sharded tables disjoint keys, or route them to different target tables.",
            )
        what = "update" if self.op == UPDATE else "delete"
        if self.before in _THERE:
            return errors.new(
                Code.SyncerUnitDMLOldNewValueMismatch,
                f"the binlog contains an {what} of the row ({key}) of {upstream} after a change of a row of "
                f"{earlier} with the same key (target {name})",
                workaround="Give the sharded tables disjoint keys, or route them to different target tables. Then copy "
                "them again: their rows have overwritten each other.",
            )
        return errors.new(
            Code.SyncerUnitDMLOldNewValueMismatch,
            f"the binlog contains an {what} of the row ({key}) of {upstream} (target {name}) after that row was "
            "deleted",
            workaround="Check that the sharded tables that merge here have disjoint keys.",
        )


def compact_changes(
    states: KeyStates,
    plan: int,
    changes: Iterable[KeyChange],
    *,
    safe: bool = False,
    sources: SourceNumbers = ONE_SOURCE,
) -> int:
    """Compacts decoded row changes into ``states``; returns their number. Raises :class:`ImpossibleChange`, also for a
    change to a row that another upstream table has inserted."""
    table = _SAFE if safe else _STRICT
    count = 0
    for op, key, values, old_key in changes:
        count += 1
        if op == UPDATE and old_key != key:
            _step(states, table, old_key, DELETE, plan, b"", sources)
            _step(states, table, key, INSERT, plan, values, sources)
        elif key in states:
            _step(states, table, key, op, plan, values, sources)
        else:
            states[key] = (op, plan, values)
    return count


def _step(
    states: KeyStates,
    table: tuple[int, ...],
    key: bytes,
    op: int,
    plan: int,
    values: bytes,
    sources: SourceNumbers,
    mixed: int = 0,
) -> None:
    """``mixed``: whether another upstream table than that of ``plan`` may have made the change."""
    entry = states.get(key)
    if entry is None:
        states[key] = (op, plan, values)
        return
    before, other, _ = entry
    before, marks = before & ~MARKS, before & MARKS
    state = table[before * 3 + op]
    if other != plan and table is _STRICT and sources.get(other) != sources.get(plan):
        if op != INSERT and before in _THERE and not mixed:
            state = IMPOSSIBLE
        marks |= MIXED
    if state < 0:
        raise ImpossibleChange(key, before, op, plan, other)
    states[key] = (state | marks, plan, values)


def merge_states(
    states: KeyStates,
    later: Iterable[tuple[bytes, int, int, bytes]],
    *,
    safe: bool = False,
    sources: SourceNumbers = ONE_SOURCE,
) -> None:
    """Merges the packed states of a later slice (key, state, plan, values) into those of the earlier ones."""
    table = _SAFE if safe else _STRICT
    for key, state, plan, values in later:
        if key not in states:
            states[key] = (state, plan, values)
            continue
        for op in _REPLAY[state & ~MARKS]:
            _step(states, table, key, op, plan, values, sources, state & MIXED)
