"""Hazard: a row that the sweep found becomes the error of another row, or is called right without a look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import ComparedColumn, TablePair, TableSide, Way
from dm_worker.comparison.value_forms import Reading
from dm_worker.validator.differences import CHANGED, DELETED_EXISTS, MISSING, RowMismatch
from dm_worker.validator.swept_rows import mismatches
from dm_worker.validator.verdicts import IGNORED, NEW, RESOLVED, ErrorList, Verdicts

TARGET = TableSide("d", "t", 0, ("`id`", "`v`"), (), ())
COLUMNS = tuple(ComparedColumn(name, Reading.SAME) for name in ("id", "v"))
PAIR = TablePair(
    TARGET, (replace(TARGET, name="t1"), replace(TARGET, name="t2")), COLUMNS, (0,), (0,), Way.STREAMED, ""
)
MATCHES = (("`id` <=> ", ""), ("`v` <=> ", ""))
T = ("d", "t")


def one(kind: DifferenceKind, key: bytes, upstream: bytes = b"", target: bytes = b"", **more: Any) -> Difference:
    here, there = ((key, value) if value else None for value in (upstream, target))
    counts = (int(bool(here)), int(bool(there)))
    return Difference(kind, (key,), ("v",), here, there, 1 if here else -1, counts)._replace(**more)


@pytest.mark.parametrize(
    ("found", "kind", "source", "check"),
    [
        (
            one(DifferenceKind.CHANGED, b"1", b"'a'", b"'b'"),
            CHANGED,
            ("d", "t2"),
            b"SELECT 1 FROM `d`.`t` WHERE `id` = 1 AND `id` <=> 1 AND `v` <=> 'a'",
        ),
        (
            one(DifferenceKind.MISSING, b"1", b"'a'"),
            MISSING,
            ("d", "t2"),
            b"SELECT 1 FROM `d`.`t` WHERE `id` = 1 AND `id` <=> 1 AND `v` <=> 'a'",
        ),
        (
            one(DifferenceKind.EXTRA, b"1", b"", b"'b'"),
            DELETED_EXISTS,
            ("d", "t1"),
            b"SELECT 1 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM `d`.`t` WHERE `id` = 1 AND `id` <=> 1)",
        ),
        (
            one(DifferenceKind.DOUBLED, b"1", b"'a'", b"'a'", counts=(1, 3)),
            DELETED_EXISTS,
            ("d", "t2"),
            b"SELECT 1 FROM DUAL WHERE FALSE",
        ),
        (
            one(DifferenceKind.DOUBLED, b"1", b"'a'", b"'a'", counts=(3, 1)),
            MISSING,
            ("d", "t2"),
            b"SELECT 1 FROM DUAL WHERE FALSE",
        ),
    ],
)
def test_a_difference_becomes_an_error(found: Difference, kind: int, source: tuple[str, str], check: bytes) -> None:
    (made,) = mismatches("r1", PAIR, MATCHES, [found])
    assert (made.target, made.source, made.key, made.kind, made.check, made.swept) == (
        T, source, b"1", kind, check, "r1",
    )  # fmt: skip
    assert made.expected == ('{"id": "1", "v": "a"}' if found.upstream else "")


def test_equal_rows_without_a_key_are_one_error_that_only_a_round_resolves() -> None:
    keyless = replace(PAIR, key=())
    extra = one(DifferenceKind.EXTRA, b"7", b"", b"NULL")._replace(key=())
    (made,) = mismatches("r1", keyless, MATCHES, [extra])
    assert (made.key, made.kind, made.check) == (b"7,NULL", DELETED_EXISTS, b"SELECT 1 FROM DUAL WHERE FALSE")


def mismatch(key: bytes, run: str = "r1") -> RowMismatch:
    return RowMismatch(T, T, key, CHANGED, "", "", b"", run)


def test_a_later_round_resolves_what_it_does_not_find_again() -> None:
    known = ErrorList()
    known.take(Verdicts([mismatch(key) for key in (b"1", b"2", b"3")]), "now")
    known.take(Verdicts([mismatch(b"4", run="")]), "now")
    known.take(Verdicts([mismatch(b"2", "r2")]), "later")
    known.swept("r2", {("d", "other")})
    assert known.counts() == (4, 0, 0), "other tables do not count"
    known.swept("r2", {T})
    states = {key: error.status for (_, key), error in known.errors.items()}
    assert states == {b"1": RESOLVED, b"2": NEW, b"3": RESOLVED, b"4": NEW}


def test_an_ignored_error_stays_ignored_while_it_is_found() -> None:
    known = ErrorList()
    known.take(Verdicts([mismatch(b"1")]), "now")
    known.operate(None, IGNORED)
    known.take(Verdicts([mismatch(b"1", "r2")]), "later")
    known.swept("r2", {T})
    assert known.counts() == (0, 1, 0)
