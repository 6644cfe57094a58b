"""Hazard: the comparison with the target looks at other rows than were written, or at other values of them."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from dm_worker.syncer.execution import row_look
from dm_worker.syncer.execution.compaction import DELETE, INSERT, UPDATE
from dm_worker.syncer.execution.expected_rows import ExpectedRows, ExpectRows
from dm_worker.syncer.execution.merge import BucketContent, merge_blocks
from dm_worker.syncer.execution.partition import partition_slice
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.execution.row_look import ExpectedRow, Presence
from dm_worker.syncer.execution.spill import SpillStore
from dm_worker.syncer.rows.row_filter import RowFilter
from dm_worker.syncer.rows.table_plan import ORDERED, TablePlan
from pkg.errors import DMError
from tests.harness import binlog_bytes
from tests.unit.dm_worker.syncer.execution.test_row_block import (
    DELETE_EVENT,
    INSERT_EVENT,
    UPDATE_EVENT,
    image,
    plan_of,
    slice_of,
)

EVENTS = [
    (1, binlog_bytes.rows(INSERT_EVENT, 2, image(1) + image(2) + image(3))),
    (1, binlog_bytes.rows(UPDATE_EVENT, 2, image(1) + image(1, "b,'c"))),
    (1, binlog_bytes.rows(DELETE_EVENT, 2, image(2, None))),
    (1, binlog_bytes.rows(UPDATE_EVENT, 2, image(4) + image(5, None))),
]


IN_MEMORY = SpillStore()
#: The target has no text of a column, so that rows are compared one by one.
ALONE = replace(plan_of(), texts=(plan_of().texts[0], ""))


def expected(
    plan: TablePlan, *, full: bool = True, most_rows: int = 100, store: SpillStore = IN_MEMORY
) -> ExpectedRows:
    plans = {1: plan.to_compare()}
    action = ExpectRows(full, most_rows, store)
    ((_, block),) = partition_slice(slice_of(EVENTS), plans, 1, safe=action.safe)
    content = merge_blocks([(0, block)], {1: action.rule_of(plans[1])}, safe=action.safe)
    return action.run(0, content, plans)


@pytest.mark.parametrize("mode", ["", ORDERED])
def test_each_touched_row_is_expected_with_its_last_image(mode: str) -> None:
    plan = plan_of(mode=mode)
    found = expected(plan)
    rows = [*found.single_rows().rows, *(row.expected() for chunk in found.row_chunks() for row in chunk.rows(plan))]
    assert {row.key: None if row.values is None else list(row.values) for row in rows} == {
        b"1": [b"1", b"'b,\\'c'"],
        b"2": None,
        b"3": [b"3", b"'a'"],
        b"4": None,
        b"5": [b"5", b"NULL"],
    }


def test_rows_in_a_shared_folder_are_not_sent_through_spark(tmp_path: Path) -> None:
    here, shared = (expected(plan_of(), store=store) for store in (IN_MEMORY, SpillStore(str(tmp_path))))
    assert list(shared.row_chunks()) == list(here.row_chunks()) != []
    assert len(pickle.dumps(shared.chunks)) < 300 * len(shared.chunks)
    assert b"'b,\\'c'" not in pickle.dumps(shared)
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(DMError, match="temporary folder") as caught:
        list(shared.row_chunks())
    assert caught.value.retryable


def test_values_are_compared_by_the_target_and_keys_exactly() -> None:
    found = expected(ALONE).single_rows()
    ((plan, numbers, text),) = found.queries
    assert (plan, numbers) == (1, [0, 1, 2, 3, 4])
    parts = dict(zip((row.key for row in found.rows), text.split(b" UNION ALL "), strict=True))
    place = [row.key for row in found.rows].index(b"3")
    assert (
        parts[b"3"]
        == b"SELECT %d FROM `d`.`t1` WHERE `id`=3 AND `id` <=> 3 AND CAST(`note` AS BINARY) <=> CAST('a' AS BINARY)"
        % place
    )
    assert b"note" not in parts[b"2"]


def test_fast_mode_asks_only_for_keys() -> None:
    ((_, _, text),) = expected(replace(ALONE, texts=("", "")), full=False).single_rows().queries
    assert b"note" not in text


def test_statements_have_a_limited_number_of_rows_and_bytes() -> None:
    found = expected(ALONE, most_rows=2).single_rows()
    assert [numbers for _, numbers, _ in found.queries] == [[0, 1], [2, 3], [4]]
    rows = list(enumerate(found.rows))
    sizes = list(row_look.joined(rows, lambda _n, _r: b"x" * 60, 100, 150))
    assert [numbers for _, numbers, _ in sizes] == [[0, 1], [2, 3], [4]]
    assert [len(numbers) for _, numbers, _ in row_look.joined(rows, lambda _n, _r: b"x" * 600, 100, 150)] == [1] * 5


def change(op: int, before: int | None, after: int | None) -> OrderedRow:
    """Of a row whose value is always the same."""
    return 0, op, 1, 0, *(None if key is None else [b"%d" % key, b"'a'"] for key in (before, after))  # type: ignore[return-value]


SURE, IF_THERE, UNKNOWN = Presence


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ([change(INSERT, None, 1)], {1: SURE}),
        ([change(UPDATE, 1, 1)], {1: IF_THERE}),
        ([change(INSERT, None, 1), change(UPDATE, 1, 1)], {1: SURE}),
        ([change(UPDATE, 1, 1), change(UPDATE, 1, 1)], {1: IF_THERE}),
        ([change(DELETE, 1, None), change(UPDATE, 1, 1)], {1: UNKNOWN}),
        ([change(DELETE, 1, None), change(INSERT, None, 1), change(UPDATE, 1, 1)], {1: SURE}),
        ([change(UPDATE, 1, 2)], {1: None, 2: UNKNOWN}),
        ([change(INSERT, None, 1), change(UPDATE, 1, 2)], {1: None, 2: SURE}),
        ([change(UPDATE, 1, 2), change(UPDATE, 2, 2)], {1: None, 2: UNKNOWN}),
        ([change(UPDATE, 1, 2), change(DELETE, 2, None)], {1: None, 2: None}),
    ],
)
@pytest.mark.parametrize("filtered", [True, False])
def test_an_update_that_a_filter_lets_pass_is_judged_by_what_came_before(
    changes: list[OrderedRow], wanted: dict[int, Presence | None], filtered: bool
) -> None:
    rules = RowFilter(insert=("id > 1",)) if filtered else RowFilter()
    plan = replace(plan_of(mode=ORDERED), filter=rules)
    numbered = [(number, *row[1:]) for number, row in enumerate(changes)]
    found = row_look.expected_rows(BucketContent(ordered={1: numbered}), {1: plan})  # type: ignore[dict-item]
    shown = {int(row.key): None if row.values is None else row.presence for row in found}
    assert shown == (wanted if filtered else {key: None if one is None else SURE for key, one in wanted.items()})


def test_keys_that_swap_are_judged_by_what_came_last() -> None:
    plan = plan_of(mode=ORDERED)
    changes: list[OrderedRow] = [
        (3, INSERT, 1, 0, None, [b"1", b"'c'"]),
        (1, DELETE, 1, 0, [b"1", b"'a'"], None),
        (2, UPDATE, 1, 0, [b"2", b"'b'"], [b"3", b"'b'"]),
    ]
    found = list(row_look.expected_rows(BucketContent(ordered={1: changes}), {1: plan}))
    assert found == [
        ExpectedRow(1, b"1", [b"1", b"'c'"]),
        ExpectedRow(1, b"2", None),
        ExpectedRow(1, b"3", [b"3", b"'b'"]),
    ]


def test_tables_whose_rows_have_no_identity_are_left_out_with_a_reason() -> None:
    keyless = plan_of(keyless=True)
    assert row_look.problem_of(keyless) == "no primary key"
    assert "foreign keys" in row_look.problem_of(replace(plan_of(), acts=True))
    assert "computes" in row_look.problem_of(replace(plan_of(), write=(1,)))
    assert row_look.problem_of(plan_of()) == ""
    content = BucketContent(ordered={1: [(1, INSERT, 1, 0, None, [b"1", b"'a'"])]})
    assert list(row_look.expected_rows(content, {1: keyless})) == []


def test_rows_are_shown_as_json() -> None:
    names = ("a", "b", "c", "d")
    assert json.loads(row_look.shown_row(names, [b"1", b"'it''s'", b"NULL", b"_binary 'x\xff'"])) == {
        "a": "1",
        "b": "it's",
        "c": None,
        "d": "0x78ff",
    }
    floats = [b"0.25e0", b"-1e+30", b"'1e5'", b"12"]  # as the target's own values are shown, apart from the text
    assert list(json.loads(row_look.shown_row(names, floats)).values()) == [str(0.25), str(-1e30), "1e5", "12"]
    assert json.loads(row_look.shown_values(names, [1, "x", None, b"\xff"])) == {
        "a": "1",
        "b": "x",
        "c": None,
        "d": "0xff",
    }
    assert row_look.shown_row(names, None) == row_look.shown_values(names, None) == ""


def test_a_literal_stands_in_each_gap_and_a_percent_sign_in_none() -> None:
    plan = replace(
        plan_of(),
        key_names=("i%d",),
        matchers=(("`i%d` <=> ", ""), ("(`note` <=> ", " AND LEFT(`n%b`) <=> LEFT(", ")")),
    )
    selects = row_look.RowSelects({1: plan})
    there = ExpectedRow(1, b"7", [b"7", b"'50%'"])
    assert selects.there(3, there, full=True) == (
        b"SELECT 3 FROM `d`.`t1` WHERE `i%d`=7 AND `i%d` <=> 7 AND (`note` <=> '50%' AND LEFT(`n%b`) <=> LEFT('50%')"
    )
    assert selects.is_right(there, full=False) == b"SELECT 1 FROM `d`.`t1` WHERE `i%d`=7 AND `i%d` <=> 7"
    gone = ExpectedRow(1, b"7", None)
    assert selects.is_right(gone, full=True) == (
        b"SELECT 1 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM `d`.`t1` WHERE `i%d`=7 AND `i%d` <=> 7)"
    )
    assert selects.values(there) == b"SELECT `id`,`note` FROM `d`.`t1` WHERE `i%d`=7 AND `i%d` <=> 7"
