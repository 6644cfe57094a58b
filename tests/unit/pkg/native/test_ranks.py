"""Hazard: the compiled kernel tries another order of a family's rows than the Python code, or reads beyond a row."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.syncer.execution import family_order
from dm_worker.syncer.execution.compaction import DELETE, INSERT
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.kernel_layout import links_of
from dm_worker.syncer.rows.key_normalization import KeyNormalizer
from dm_worker.syncer.rows.table_plan import RowLink, TablePlan
from tests.sweeps import examples
from tests.unit.pkg.native.support import KERNEL
from tests.unit.pkg.native.test_placement import INTS, LATINS, SHAPE, TEXTS

EXACT = INTS[0]
#: By column: a key, a text, a number that may be NULL, a text of another charset.
FORMS: tuple[list[KeyNormalizer], ...] = (INTS, TEXTS, INTS, LATINS)
LITERALS = ([b"0", b"1", b"1001", b"-1"], [b"'a'", b"'A '", b"'it\\'s'", b"NULL"],
            [b"NULL", b"5", b"7"], [b"'a'", b"_latin1 x'e9'", b"NULL"])  # fmt: skip
images = st.tuples(*map(st.sampled_from, LITERALS)).map(list)


@st.composite
def links(draw: st.DrawFn) -> RowLink:
    columns = draw(st.sampled_from([(0,), (1,), (2,), (3,), (1, 0), (0, 2, 3)]))
    forms = tuple(draw(st.sampled_from(FORMS[i])) for i in columns)
    return RowLink(draw(st.integers(0, 2)), columns, forms, draw(st.booleans()), draw(st.booleans()))


def plan_of(number: int, *found: RowLink) -> TablePlan:
    return replace(SHAPE.plan(number, number), links=found)


@settings(max_examples=examples(300))
@given(st.lists(st.lists(links(), min_size=1, max_size=3), min_size=2, max_size=2),
       st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2), images, images), max_size=12))  # fmt: skip
def test_rows_have_the_same_order(
    found: list[list[RowLink]], changes: list[tuple[int, int, list[bytes], list[bytes]]]
) -> None:
    plans = {number: plan_of(number, *links) for number, links in enumerate(found, 1)}
    rows: list[OrderedRow] = [
        (n, op, plan, 4, None if op == INSERT else before, None if op == DELETE else after)
        for n, (op, plan, before, after) in enumerate(changes)
    ]
    runs = family_order.reordered(plans, rows, KERNEL)
    assert runs == family_order.reordered(plans, rows, None)
    assert sorted(chain.from_iterable(run.rows for run in runs), key=lambda row: row[0]) == rows


def test_many_values_keep_their_order() -> None:
    plans = {1: plan_of(1, RowLink(1, (0,), (EXACT,), always=True))}
    rows: list[OrderedRow] = [(n, INSERT, 1, 4, None, [b"%d" % (n % 5000), *[b"NULL"] * 3]) for n in range(15000)]
    runs = family_order.reordered(plans, rows, KERNEL)
    assert [run.rows for run in runs] == [rows[at : at + 5000] for at in range(0, 15000, 5000)]
    assert runs == family_order.reordered(plans, rows, None)


ROW = (0, 0, 1, 4, None, [b"1", b"'a'", b"2", b"'b'"])


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (ROW[:5], TypeError),
        ([*ROW], TypeError),
        ((*ROW[:5], (b"1", b"2", b"3", b"4")), ValueError),
        ((*ROW[:5], [b"1"]), ValueError),
        ((*ROW[:4], [b"1"], None), ValueError),
        ((*ROW[:5], [b"1", b"2", 3, b"4"]), TypeError),
        ((0, 1, 1, 4, [b"1", b"2", "3", b"4"], ROW[5]), TypeError),
        ((0, 0, 2, 4, *ROW[4:]), KeyError),
    ],
)
def test_rows_that_do_not_fit_are_refused(row: object, wrong: type[Exception]) -> None:
    links = links_of(KERNEL, plan_of(1, RowLink(1, (2,), (EXACT,))))
    with pytest.raises(wrong):
        KERNEL.ranks([row], {1: links})


def test_links_that_do_not_fit_are_refused() -> None:
    placement, flags = links_of(KERNEL, plan_of(1, RowLink(1, (0,), (EXACT,))))
    for wrong in (placement, (placement, flags + flags), (placement, b""), (placement,), (flags, flags)):
        with pytest.raises((TypeError, ValueError)):
            KERNEL.ranks([ROW], {1: wrong})
    with pytest.raises(TypeError):
        KERNEL.ranks(None, {})


def test_a_row_that_shrinks_while_it_is_read_is_refused() -> None:
    image = [b"1", b"2", b"3", b"4"]

    def shrink(_: bytes) -> bytes:
        image.clear()
        return b""

    call = KERNEL.KeyNormalizer(4, 0, None, b"", shrink)
    links = KERNEL.Placement(0, False, (), ((1, (0, 3), (call, call), (0, 3)),))
    with pytest.raises(IndexError):
        KERNEL.ranks([(0, 0, 1, 4, None, image)], {1: (links, b"\0")})
