"""Hazard: a comparison that calls different tables equal, or reports rows that are the same."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm_worker.comparison import row_reader
from dm_worker.comparison.outcome import ComparisonLimits, Difference, DifferenceKind
from dm_worker.comparison.pair import ComparedColumn, Way
from dm_worker.comparison.value_forms import Reading
from tests.sweeps import examples
from tests.unit.dm_worker.comparison.model import Row, compared, pair_of, row_text

TEXTS = st.one_of(st.none(), st.binary(max_size=4), st.sampled_from([b"", b"N", b",", b"1", b"a,b", b"c", b"0"]))
IDS = st.integers(0, 12).map(lambda number: b"%d" % number)
ROWS = st.tuples(IDS, TEXTS, TEXTS)
SETTINGS = settings(
    max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
#: Memory for a few rows only, and for all.
LIMITS = st.sampled_from([ComparisonLimits(), ComparisonLimits(4, 1), ComparisonLimits(6, 40)])
#: How rows are compared; after a part in which many rows differed, all are read whole at once.
WAYS = pytest.mark.parametrize(
    ("way", "dense"), [(Way.PUSHED, False), (Way.PUSHED, True), (Way.STREAMED, False)], ids=["pushed", "dense", "rows"]
)


def literal_of(value: bytes | None) -> bytes:
    return b"NULL" if value is None else value


def true_differences(upstream: Sequence[Row], target: Sequence[Row]) -> list[tuple[str, bytes, tuple[int, int]]]:
    """Kind, key and counts of what must be reported, for tables whose first column is their key."""
    found = []
    for key in {row[0] or b"" for row in (*upstream, *target)}:
        here, there = ([row for row in table if row[0] == key] for table in (upstream, target))
        if Counter(here) == Counter(there):
            continue
        kind = DifferenceKind.DOUBLED
        if not there:
            kind = DifferenceKind.MISSING
        elif not here:
            kind = DifferenceKind.EXTRA
        elif (len(here), len(there)) == (1, 1):
            kind = DifferenceKind.CHANGED
        found.append((kind.value, key, (len(here), len(there))))
    return sorted(found)


def reported(found: Sequence[Difference]) -> list[tuple[str, bytes, tuple[int, int]]]:
    return sorted((one.kind.value, one.key[0], one.counts) for one in found)


def unique_keys(rows: Sequence[Row]) -> list[Row]:
    return list({row[0]: row for row in rows}.values())


@WAYS
@SETTINGS
@given(st.lists(ROWS), st.lists(ROWS), st.lists(ROWS), LIMITS)
def test_keyed_tables_differ_exactly_where_their_rows_do(
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
    dense: bool,
    common: list[Row],
    more: list[Row],
    other: list[Row],
    limits: ComparisonLimits,
) -> None:
    upstream, target = unique_keys([*common, *more]), unique_keys([*common, *other])
    outcome, found = compared(
        monkeypatch, pair_of(1, keyed=True, way=way), {"t0": upstream, "t": target}, limits=limits, dense=dense
    )
    assert reported(found) == true_differences(upstream, target)
    assert outcome.equal == (Counter(upstream) == Counter(target))
    assert outcome.rows == (len(upstream), len(target))


@WAYS
@SETTINGS
@given(st.lists(ROWS), st.lists(ROWS), st.lists(ROWS), LIMITS)
def test_shards_that_share_keys_are_reported_with_how_many_rows_there_are(
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
    dense: bool,
    first: list[Row],
    second: list[Row],
    other: list[Row],
    limits: ComparisonLimits,
) -> None:
    shards = unique_keys(first), unique_keys(second)
    target = unique_keys([*first, *second, *other])
    tables = {"t0": shards[0], "t1": shards[1], "t": target}
    _, found = compared(monkeypatch, pair_of(2, keyed=True, way=way), tables, limits=limits, dense=dense)
    assert reported(found) == true_differences([*shards[0], *shards[1]], target)


@WAYS
@SETTINGS
@given(st.lists(ROWS), st.lists(ROWS), st.lists(ROWS), LIMITS, st.randoms())
def test_tables_without_a_key_differ_exactly_as_multisets(
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
    dense: bool,
    common: list[Row],
    more: list[Row],
    other: list[Row],
    limits: ComparisonLimits,
    random: object,
) -> None:
    upstream, target = [*common, *more], [*other, *common[::-1]]
    outcome, found = compared(
        monkeypatch, pair_of(1, keyed=False, way=way), {"t0": upstream, "t": target}, limits=limits, dense=dense
    )
    here, there = Counter(upstream), Counter(target)
    wanted = {row: (here[row], there[row]) for row in here | there if here[row] != there[row]}
    assert sorted(one.counts for one in found) == sorted(wanted.values())
    assert outcome.equal == (not wanted)
    assert {one.kind for one in found} == {
        DifferenceKind.MISSING if not less else DifferenceKind.EXTRA if not most else DifferenceKind.DOUBLED
        for most, less in wanted.values()
    }


@WAYS
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "keyless"])
@pytest.mark.parametrize("side", ["may_keep", "may_lack"])
@SETTINGS
@given(st.lists(ROWS), st.lists(ROWS), st.lists(ROWS), LIMITS)
def test_differences_that_filters_allow_are_left_out_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
    side: str,
    keyed: bool,
    way: Way,
    dense: bool,
    common: list[Row],
    more: list[Row],
    other: list[Row],
    limits: ComparisonLimits,
) -> None:
    upstream, target = [*common, *more], [*common, *other]
    if keyed:
        upstream, target = unique_keys(upstream), unique_keys(target)
    pair = pair_of(1, keyed=keyed, way=way)
    whole, one_sided = (
        compared(monkeypatch, one, {"t0": upstream, "t": target}, limits=limits, dense=dense)
        for one in (pair, replace(pair, may_keep=side == "may_keep", may_lack=side == "may_lack"))
    )
    allowed = operator.lt if side == "may_keep" else operator.gt
    wanted = [one for one in whole[1] if not allowed(*one.counts)]
    assert sorted(one_sided[1], key=repr) == sorted(wanted, key=repr)
    assert one_sided[0].equal == (not wanted)


def test_a_difference_names_key_columns_and_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[str, Sequence[Row]] = {"t0": [(b"1", b"x", b"y")], "t": [(b"1", b"x", None)]}
    _, found = compared(monkeypatch, pair_of(1, keyed=True, way=Way.PUSHED), tables)
    assert found == [
        Difference(DifferenceKind.CHANGED, (b"1",), ("c1",), (b"1", b"'x'", b"'y'"), (b"1", b"'x'", b"NULL"), 0, (1, 1))
    ]


@pytest.mark.parametrize(
    ("missing", "changed", "wanted", "dense"),
    [
        (0, 0, "checksums", False),
        (0, 10, "checksums, digests, 10 rows by key", False),
        (10, 0, "checksums, digests, 10 rows by key", False),
        (100, 0, "checksums, whole rows", True),
        (0, 100, "checksums, digests, whole rows", True),
    ],
)
def test_all_rows_are_read_whole_where_many_differ(
    monkeypatch: pytest.MonkeyPatch, missing: int, changed: int, wanted: str, dense: bool
) -> None:
    upstream: list[Row] = [(b"%d" % number, b"a", b"b") for number in range(1000)]
    target = [(key, b"other" if number < changed else text, b"b") for number, (key, text, _) in enumerate(upstream)]
    tables: dict[str, Sequence[Row]] = {"t0": upstream, "t": target[missing:]}
    pair = pair_of(1, keyed=True, way=Way.PUSHED)
    outcome, found = compared(monkeypatch, pair, tables, piece=5000)
    assert (outcome.how, outcome.dense, len(found)) == (wanted, dense, missing + changed)
    next_one, again = compared(monkeypatch, pair, tables, piece=5000, dense=True)
    assert (next_one.how, next_one.dense, sorted(again)) == ("whole rows", dense, sorted(found))


@pytest.mark.parametrize("window_bytes", [row_reader.WINDOW_BYTES, 100], ids=["short rows", "long rows"])
def test_rows_in_the_same_order_take_no_memory(monkeypatch: pytest.MonkeyPatch, window_bytes: int) -> None:
    """A few rows missing, doubled or changed must not put the two streams apart for good."""
    monkeypatch.setattr(row_reader, "WINDOW_BYTES", window_bytes)
    upstream: list[Row] = [(b"%d" % number, b"a", b"b") for number in range(20_000)]
    target = [row for row in upstream if row[0] not in (b"5", b"6", b"9000")]
    target[3000:3000] = [(b"%d" % number, b"extra", b"b") for number in range(30_000, 30_040)]
    limits = ComparisonLimits(most_rows=1500)
    outcome, found = compared(
        monkeypatch, pair_of(1, keyed=True, way=Way.STREAMED), {"t0": upstream, "t": target}, limits=limits, piece=3333
    )
    assert Counter(one.kind.value for one in found) == {"missing": 3, "extra": 40}
    assert "pass" not in outcome.how


UNICODE = st.text(alphabet="a,N1é", max_size=3).map(str.encode)
FIELDS = [
    (ComparedColumn("number", Reading.SAME), st.integers().map(lambda number: b"%d" % number)),
    (ComparedColumn("text", Reading.SAME, free=True), TEXTS.filter(lambda value: value is not None)),
    (ComparedColumn("other", Reading.SAME, free=True), st.binary(max_size=3)),
    (ComparedColumn("name", Reading.SAME, free=True, utf8=True), UNICODE),
    (ComparedColumn("title", Reading.SAME, free=True, utf8=True), UNICODE),
    (ComparedColumn("long", Reading.SAME, free=True, bulky=True), st.binary(max_size=3)),
]
COLUMNS = [column for column, _ in FIELDS]
ANY_ROW = st.tuples(*(st.one_of(st.none(), values) for _, values in FIELDS))


@settings(max_examples=examples(1000))
@given(ANY_ROW, ANY_ROW)
def test_different_rows_have_different_texts(one: Row, another: Row) -> None:
    assert (row_text(COLUMNS, one) == row_text(COLUMNS, another)) == (one == another)


NEVER_NULL = st.tuples(*(values for _, values in FIELDS))


@settings(max_examples=examples(1000))
@given(NEVER_NULL, NEVER_NULL)
def test_the_last_text_needs_no_length_where_it_is_never_null(one: Row, another: Row) -> None:
    texts = [row_text(COLUMNS, row, nullable=False) for row in (one, another)]
    assert (texts[0] == texts[1]) == (one == another)


@settings(max_examples=examples(500))
@given(st.lists(TEXTS, min_size=2, max_size=5), st.integers(0, 3))
def test_moved_bytes_change_the_text(values: list[bytes | None], cut: int) -> None:
    _expect_moved_bytes_to_count(values, cut, utf8=False)


@settings(max_examples=examples(500))
@given(st.lists(st.one_of(st.none(), UNICODE), min_size=2, max_size=5), st.integers(0, 3))
def test_moved_bytes_of_utf8_change_the_text(values: list[bytes | None], cut: int) -> None:
    _expect_moved_bytes_to_count(values, cut, utf8=True)


def _expect_moved_bytes_to_count(values: list[bytes | None], cut: int, *, utf8: bool) -> None:
    """The same bytes, split in another way among the columns."""
    columns = [ComparedColumn(str(number), Reading.SAME, free=True, utf8=utf8) for number in range(len(values))]
    joined = b"".join(value or b"" for value in values)
    moved: Row = (joined[:cut], joined[cut:], *(b"" for _ in values[2:]))
    assert (row_text(columns, tuple(values)) == row_text(columns, moved)) == (tuple(values) == moved)
