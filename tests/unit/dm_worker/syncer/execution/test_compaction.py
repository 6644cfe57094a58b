"""Hazards: a compacted batch leaves other rows than the single changes would; contradictions pass unnoticed."""

from __future__ import annotations

import itertools
import pickle
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.execution import compaction
from dm_worker.syncer.execution.compaction import DELETE, DELETED, GONE, INSERT, INSERTED, REPLACED, UPDATE, UPDATED

Rows = dict[bytes, bytes]
KEYS = [b"%d" % i for i in range(8)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Rows, list[compaction.KeyChange]]:
    """A table's rows and a series of changes that a real upstream could have made to them."""
    start: Rows = dict.fromkeys(draw(st.sets(st.sampled_from(KEYS))), b"(start)")
    rows = dict(start)
    changes: list[compaction.KeyChange] = []
    for step in range(draw(st.integers(0, 40))):
        key, other = draw(st.sampled_from(KEYS)), draw(st.sampled_from(KEYS))
        values = b"(%d)" % step
        if key not in rows:
            changes.append((INSERT, key, values, b""))
            rows[key] = values
        elif draw(st.booleans()):
            changes.append((DELETE, key, b"", b""))
            del rows[key]
        else:
            new = other if other not in rows else key
            changes.append((UPDATE, new, values, key))
            del rows[key]
            rows[new] = values
    return start, changes


def serial(rows: Rows, changes: list[compaction.KeyChange]) -> Rows:
    rows = dict(rows)
    for op, key, values, old_key in changes:
        if op == DELETE:
            del rows[key]
        else:
            if op == UPDATE:
                del rows[old_key]
            assert key not in rows
            rows[key] = values
    return rows


def write(rows: Rows, states: compaction.KeyStates, *, safe: bool) -> None:
    """What the appliers do with the states of one bucket, with the checks that a server makes."""
    for key, (state, _, _) in states.items():
        if state in (DELETED, REPLACED):
            assert safe or key in rows
            rows.pop(key, None)
    for key, (state, _, values) in states.items():
        if state in (INSERTED, REPLACED):
            assert safe or key not in rows, "a duplicate key at the target"
            rows[key] = values
        elif state == UPDATED:
            assert safe or key in rows
            rows[key] = values


@given(histories(), st.lists(st.integers(0, 40), max_size=4), st.integers(1, 5))
def test_compacted_slices_leave_the_rows_that_single_changes_leave(
    history: tuple[Rows, list[compaction.KeyChange]], cuts: list[int], buckets: int
) -> None:
    start, changes = history
    edges = [0, *sorted(min(cut, len(changes)) for cut in cuts), len(changes)]
    merged: dict[int, compaction.KeyStates] = {}
    for low, high in itertools.pairwise(edges):
        states: compaction.KeyStates = {}
        assert compaction.compact_changes(states, 7, changes[low:high]) == high - low
        for key, entry in states.items():
            compaction.merge_states(merged.setdefault(zlib.crc32(key, 99) % buckets, {}), [(key, *entry)])
    rows = dict(start)
    for states in merged.values():
        write(rows, states, safe=False)
    assert rows == serial(start, changes)


@given(histories(), st.data())
def test_safe_mode_repeats_a_range_from_any_state_in_between(
    history: tuple[Rows, list[compaction.KeyChange]], data: st.DataObject
) -> None:
    start, changes = history
    rows = serial(start, changes[: data.draw(st.integers(0, len(changes)))])
    states: compaction.KeyStates = {}
    compaction.compact_changes(states, 7, changes, safe=True)
    write(rows, states, safe=True)
    assert rows == serial(start, changes)


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        ((INSERT, b"1", b"(a)", b""), (UPDATE, b"1", b"(b)", b"1"), (INSERTED, 7, b"(b)")),
        ((INSERT, b"1", b"(a)", b""), (DELETE, b"1", b"", b""), (GONE, 7, b"")),
        ((UPDATE, b"1", b"(a)", b"1"), (UPDATE, b"1", b"(b)", b"1"), (UPDATED, 7, b"(b)")),
        ((UPDATE, b"1", b"(a)", b"1"), (DELETE, b"1", b"", b""), (DELETED, 7, b"")),
        ((DELETE, b"1", b"", b""), (INSERT, b"1", b"(b)", b""), (REPLACED, 7, b"(b)")),
    ],
)
def test_two_changes_fold_into_one(
    first: compaction.KeyChange, second: compaction.KeyChange, state: compaction.KeyState
) -> None:
    states: compaction.KeyStates = {}
    compaction.compact_changes(states, 7, [first, second])
    assert states == {b"1": state}


@pytest.mark.parametrize(
    "changes",
    [
        [(INSERT, b"1", b"(a)", b""), (INSERT, b"1", b"(b)", b"")],
        [(UPDATE, b"1", b"(a)", b"1"), (INSERT, b"1", b"(b)", b"")],
        [(DELETE, b"1", b"", b""), (DELETE, b"1", b"", b"")],
        [(DELETE, b"1", b"", b""), (UPDATE, b"1", b"(a)", b"1")],
        [(UPDATE, b"1", b"(a)", b"1"), (UPDATE, b"1", b"(a)", b"2")],
    ],
)
@pytest.mark.parametrize("in_two_slices", [False, True])
def test_contradicting_changes_of_merged_shards_are_an_error(
    changes: list[compaction.KeyChange], in_two_slices: bool
) -> None:
    states: compaction.KeyStates = {}
    later: compaction.KeyStates = {}

    def fold() -> None:
        compaction.compact_changes(states, 1, changes[:1])
        compaction.compact_changes(later if in_two_slices else states, 2, changes[1:])
        compaction.merge_states(states, [(key, *entry) for key, entry in later.items()])

    with pytest.raises(compaction.ImpossibleChange) as caught:
        fold()
    assert pickle.loads(pickle.dumps(caught.value)).key == b"1"
    error = caught.value.to_error(("d", "t"), ("s", "t2"), ("s", "t1"))
    assert error.workaround
    assert "`t`" in error.message


PUT, SET, DROP = (INSERT, b"1", b"(a)", b""), (UPDATE, b"1", b"(b)", b"1"), (DELETE, b"1", b"", b"")
LEAVE = (UPDATE, b"2", b"(c)", b"1")


@pytest.mark.parametrize("last", [SET, DROP, LEAVE])
@pytest.mark.parametrize("first", [[PUT], [SET], [DROP, PUT], [PUT, SET]])
@pytest.mark.parametrize("in_two_slices", [False, True])
def test_no_shard_changes_the_row_that_another_one_put_there(
    first: list[compaction.KeyChange], last: compaction.KeyChange, in_two_slices: bool
) -> None:
    sources = {1: 10, 2: 20, 3: 10}

    def fold(plan: int, *, safe: bool = False) -> None:
        states: compaction.KeyStates = {}
        later: compaction.KeyStates = {}
        compaction.compact_changes(states, 1, first, safe=safe, sources=sources)
        compaction.compact_changes(later if in_two_slices else states, plan, [last], safe=safe, sources=sources)
        compaction.merge_states(states, [(key, *entry) for key, entry in later.items()], safe=safe, sources=sources)

    fold(1)
    fold(3)
    fold(2, safe=True)
    with pytest.raises(compaction.ImpossibleChange) as caught:
        fold(2)
    assert (caught.value.plan, caught.value.other_plan) == (2, 1)
    message = caught.value.to_error(("d", "t"), ("s", "t2"), ("s", "t1")).message
    assert "`s`.`t1`" in message
    assert "`s`.`t2`" in message


def test_rows_may_move_from_shard_to_shard() -> None:
    sources = {1: 10, 2: 20}
    moves = [(1, SET), (1, DROP), (2, PUT), (2, SET), (2, DROP), (1, PUT)]
    for cut in range(len(moves) + 1):
        for again in range(cut, len(moves) + 1):
            states: compaction.KeyStates = {}
            for part in (moves[:cut], moves[cut:again], moves[again:]):
                one: compaction.KeyStates = {}
                for plan, change in part:
                    compaction.compact_changes(one, plan, [change], sources=sources)
                compaction.merge_states(states, [(key, *entry) for key, entry in one.items()], sources=sources)
            state, plan, values = states[b"1"]
            assert (state & ~compaction.MIXED, plan, values) == (REPLACED, 1, b"(a)")
