"""Hazard: a row is called wrong although a later batch had changed it, or a wrong row is never named."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.validator import verdicts as v
from dm_worker.validator.differences import (
    CHANGED,
    MISSING,
    LookResult,
    Restructured,
    RowMismatch,
    Snapshot,
    Uncompared,
)
from dm_worker.validator.verdicts import ErrorList, Judge, Verdicts

TABLE = ("d", "t")


def difference(key: int = 1, kind: int = CHANGED) -> RowMismatch:
    return RowMismatch(TABLE, ("s", "t"), b"%d" % key, kind, "{}", "", b"SELECT 1")


def look(
    first: int, last: int, seen: int, *wrong: int, right: tuple[int, ...] = (), intent: int | None = None
) -> LookResult:
    snapshot = Snapshot(seen, seen if intent is None else intent)
    rows = {(TABLE, b"%d" % key) for key in right}
    return LookResult(first, last, snapshot, [difference(key) for key in wrong], rows)


def keys(found: Verdicts) -> list[bytes]:
    return sorted(one.key for one in found.wrong)


def test_a_difference_in_a_snapshot_without_later_batches_is_wrong_at_once() -> None:
    assert keys(Judge().looked(look(1, 3, 3, 7))) == [b"7"]


def test_a_difference_waits_for_the_batches_that_its_snapshot_may_contain() -> None:
    judge = Judge()
    assert keys(judge.looked(look(1, 3, 5, 7))) == []
    assert judge.watched == [difference(7)]
    assert keys(judge.looked(look(4, 4, 5))) == [], "batch 5 may have touched the row"
    assert keys(judge.looked(look(5, 5, 5))) == [b"7"]
    assert judge.undecided == 0


@pytest.mark.parametrize("wrong_again", [False, True])
def test_a_row_that_a_later_batch_touched_is_judged_by_its_later_image(wrong_again: bool) -> None:
    judge = Judge()
    judge.looked(look(1, 3, 5, 7))
    later = look(4, 5, 5, 7) if wrong_again else look(4, 5, 5, right=(7,))
    assert keys(judge.looked(later)) == ([b"7"] if wrong_again else [])
    assert judge.undecided == 0


def test_a_touch_after_the_snapshot_does_not_excuse_the_row() -> None:
    """A lost version of a hot row is an error even if the next version hides it."""
    judge = Judge()
    judge.looked(look(1, 3, 5, 7))
    judge.looked(look(4, 4, 9))
    found = judge.looked(look(6, 8, 9, right=(7,)))
    assert keys(found) == [b"7"]


def test_a_statement_in_the_snapshot_may_have_changed_the_rows_of_its_table() -> None:
    judge = Judge()
    coming = [Restructured(4, {("d", "t")})]
    assert keys(judge.looked(look(1, 3, 3, 7, intent=4), coming)) == []
    assert judge.uncompared == {(TABLE, ("s", "t"), v.CHANGED_STRUCTURE): 1}
    assert keys(judge.looked(look(1, 3, 3, 8, intent=3), coming)) == [b"8"], "the snapshot is older than the statement"
    other = [Restructured(4, {("d", "u")})]
    assert keys(judge.looked(look(1, 3, 3, 9, intent=4), other)) == [b"9"]


@pytest.mark.parametrize("tables", [{("d", "")}, {("", "")}, {("D", "T")}])
def test_a_statement_for_a_schema_or_unknown_names_covers_its_tables(tables: set[tuple[str, str]]) -> None:
    assert Restructured(4, tables).names(TABLE)


def test_a_statement_that_is_still_executed_delays_the_verdict_until_its_tables_are_known() -> None:
    judge = Judge()
    running = LookResult(1, 3, Snapshot(3, 4, in_ddl=True), [difference(7), difference(8)])
    assert keys(judge.looked(running)) == []
    assert keys(judge.restructured(Restructured(4, {("d", "u")}))) == [b"7", b"8"]
    judge.looked(running)
    assert keys(judge.restructured(Restructured(4, {TABLE}))) == []


def test_rows_of_a_table_that_other_sources_may_change_are_not_judged() -> None:
    judge = Judge()
    assert keys(judge.looked(look(1, 3, 3, 7), is_unsettled=lambda table: table == TABLE)) == []
    assert keys(judge.looked(look(4, 4, 4, 7), [Restructured(None, {TABLE})])) == []
    assert sum(judge.uncompared.values()) == 2


def test_an_interruption_leaves_no_verdict_to_changes_that_are_applied_again() -> None:
    judge = Judge()
    judge.looked(look(1, 3, 5, 7))
    judge.interrupted(3)
    assert judge.undecided == 0
    assert keys(judge.looked(look(2, 3, 6, 8))) == [], "an attempt that was given up may have changed the row"
    assert keys(judge.looked(look(4, 7, 7))) == [], "no later batch decides on the row"
    assert keys(judge.looked(look(2, 3, 3, 8))) == [b"8"]
    assert keys(judge.looked(look(8, 8, 8, 8))) == [b"8"]


def test_what_was_not_compared_is_counted() -> None:
    judge = Judge()
    judge.looked(LookResult(1, 1, Snapshot(1, 1), uncompared=[Uncompared(TABLE, ("s", "t"), 5, "why")]))
    judge.looked(LookResult(2, 2, Snapshot(2, 2), uncompared=[Uncompared(TABLE, ("s", "t"), 2, "why")]))
    assert judge.uncompared == {(TABLE, ("s", "t"), "why"): 7}


def test_suspects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v, "MOST_SUSPECTS", 2)
    judge = Judge()
    judge.looked(look(1, 1, 9, 1, 2, 3))
    assert judge.undecided == 2
    assert judge.uncompared == {(TABLE, ("s", "t"), v.TOO_MANY): 1}


@given(st.integers(0, 10**6))
def test_in_any_schedule_right_rows_are_never_named_and_certain_losses_always_are(seed: int) -> None:
    """A model of the target: batches write rows, some writes are lost, looks see any boundary or the middle of one."""
    chance = random.Random(seed)
    rows = range(6)
    target: dict[int, int] = {}
    written: list[dict[int, int]] = [{}]
    judge, named, lost = Judge(), set[int](), set[int]()
    reached = 0
    for number in range(1, 15):
        batch = {row: number for row in rows if chance.random() < 0.4}
        written.append(batch)
        order = chance.sample(sorted(batch), len(batch))
        middle = chance.randrange(len(order) + 1)
        seen_middle = dict(target)
        for place, row in enumerate(order):
            if chance.random() < 0.05:
                lost.add(row)
            else:
                target[row] = number
            if place < middle:
                seen_middle = dict(target)
        if chance.random() < 0.5 and number - 1 > reached:
            named |= _look(judge, written, reached, number - 1, number, seen_middle)
            reached = number - 1
        if chance.random() < 0.3:
            named |= _look(judge, written, reached, number, number, target)
            reached = number
    if reached < 14:
        named |= _look(judge, written, reached, 14, 14, target)
    assert named <= lost, "a right row was named"
    assert judge.undecided == 0
    final = {
        row: max(n for n, batch in enumerate(written) if row in batch)
        for row in rows
        if any(row in one for one in written)
    }
    assert {row for row, n in final.items() if target.get(row) != n} <= named, "a row that is wrong now was not named"


def _look(
    judge: Judge, written: list[dict[int, int]], reached: int, last: int, seen: int, target: dict[int, int]
) -> set[int]:
    expected: dict[int, int] = {}
    for batch in written[reached + 1 : last + 1]:
        expected |= batch
    wrong = [row for row, number in expected.items() if target.get(row) != number]
    right = tuple(row for row in expected if row not in wrong)
    return {int(key) for key in keys(judge.looked(look(reached + 1, last, seen, *wrong, right=right)))}


def test_errors_are_listed_with_their_count_and_status() -> None:
    errors = ErrorList()
    assert [one.difference.key for one in errors.take(Verdicts([difference(1), difference(2)]), "then")] == [b"1", b"2"]
    errors.take(Verdicts([difference(1, MISSING)]), "later")
    one = errors.errors[TABLE, b"1"]
    assert (one.times, one.difference.kind, one.time, one.message) == (2, MISSING, "later", "found 2 times")
    errors.repaired((TABLE, b"1"))
    assert errors.errors[TABLE, b"1"].message == "found 2 times; the row is right again"
    assert errors.counts() == (1, 0, 1)
    errors.take(Verdicts([difference(1)]), "again")
    assert errors.counts() == (2, 0, 0), "wrong once more"


def test_a_later_change_hides_a_fault_and_does_not_settle_it() -> None:
    errors = ErrorList()
    errors.take(Verdicts([difference(1)]), "then")
    errors.take(Verdicts(right=[(TABLE, b"1"), (TABLE, b"5")]), "later")
    assert errors.errors[TABLE, b"1"].message == "a later change of the row hides it"
    assert errors.counts() == (1, 0, 0)
    errors.repaired((TABLE, b"1"))
    assert errors.counts() == (1, 0, 0), "nothing was repaired"
    assert errors.to_check() == []


def test_an_operator_ignores_resolves_and_clears_one_error_or_all() -> None:
    errors = ErrorList()
    errors.numbered([v.RowError(4, difference(1)), v.RowError(6, difference(2))])
    assert errors.cleared == {4, 6}, "errors that were cleared before they had a number"
    errors.take(Verdicts([difference(1), difference(2)]), "then")
    errors.numbered([v.RowError(4, difference(1)), v.RowError(6, difference(2))])
    assert errors.operate(4, v.IGNORED)
    assert not errors.operate(5, v.IGNORED)
    errors.take(Verdicts([difference(1)]), "again")
    assert errors.counts() == (1, 1, 0), "ignored stays ignored"
    assert errors.operate(None, v.RESOLVED)
    assert errors.counts() == (0, 0, 2)
    assert errors.operate(6, None)
    assert errors.counts() == (0, 0, 1)
    assert 6 in errors.cleared


def test_errors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v, "MOST_ERRORS", 1)
    errors = ErrorList()
    errors.take(Verdicts([difference(1), difference(2)]), "then")
    assert (len(errors.errors), errors.unlisted) == (1, 1)
