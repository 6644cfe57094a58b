"""Hazards: a finding that counts for another hole, a hole that counts though the code fails without it, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from pkg.rules.value_loss import ColumnLoss
from tests.fuzz import holes
from tests.fuzz.features import Pair
from tests.fuzz.history import History
from tests.fuzz.holes import REPLACED, Replaced, open_holes
from tests.fuzz.proof import Proof, Row, tell_strange
from tests.fuzz.runner import InOneTask, Runner
from tests.fuzz.search import Finding
from tests.fuzz.verdict import Verdict

_NAMES = tuple(f"hole {number}" for number in range(7))


class _Product:
    """Its holes are attributes that are put back."""


@pytest.fixture(autouse=True)
def _seven_holes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in _NAMES:
        monkeypatch.setattr(_Product, name, False, raising=False)
        monkeypatch.setitem(cast(dict[str, Sequence[Replaced]], holes.EVERY), name, (Replaced(_Product, name, True),))
    yield
    assert not _open()


def _open() -> set[str]:
    return {name for name in _NAMES if getattr(_Product, name)}


class _Servers:
    """In place of a runner: ``wrong`` is asked for each history whether it fails with the open holes."""

    pair = Pair.parse("mariadb")
    versions = ()

    def __init__(self, wrong: Callable[[int, set[str]], bool]) -> None:
        self._wrong = wrong
        #: Seconds: each run takes a fraction of one, however busy the machine is.
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def in_one_task(self, group: Sequence[History]) -> InOneTask:
        """Stops for the last history that fails, if that one's seed is even."""
        verdicts = self.run(group)
        stopped = [number for number, one in enumerate(group) if verdicts[number].is_finding and one.seed % 2 == 0]
        return InOneTask([], stopped[-1]) if stopped else InOneTask(verdicts)

    def run(self, group: Sequence[History]) -> list[Verdict]:
        self.now += 0.02
        return [Verdict("different" if self._wrong(one.seed, _open()) else "equal", one.planned) for one in group]


def _prove(wrong: Callable[[int, set[str]], bool], seconds: float = 60.0) -> tuple[list[Row], list[Finding]]:
    strange: list[Finding] = []
    servers = _Servers(wrong)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.fuzz.proof.time", servers)
        proof = Proof(_NAMES, cast(Runner, servers), 0, strange=strange.append)
        return [proof.shrunk(row, 0) for row in proof.rows(seconds)], strange


def test_each_hole_is_found_by_a_history_that_fails_with_it_alone() -> None:
    rows, strange = _prove(lambda seed, there: f"hole {seed % 7}" in there)
    assert sorted(row.hole for row in rows) == sorted(_NAMES)
    for row in rows:
        assert row.finding is not None
        assert row.hole == f"hole {row.finding.original.seed % 7}"
    assert not strange


def test_what_fails_without_any_hole_or_only_with_two_is_no_proof() -> None:
    rows, strange = _prove(lambda seed, there: seed % 3 == 0 or {"hole 1", "hole 5"} <= there, seconds=3)
    assert all(row.finding is None for row in rows)
    assert len(rows) == len(_NAMES)
    assert strange


def test_the_history_of_what_no_hole_explains_is_kept(tmp_path: Path) -> None:
    """Its seed alone may be another history the next time."""
    _, strange = _prove(lambda seed, there: seed % 3 == 0, seconds=1)
    tell_strange(strange[0], tmp_path)
    kept = tmp_path / f"unexplained-{strange[0].original.seed}.json"
    assert History.read(kept) == strange[0].history


def test_holes_that_replace_one_function_are_all_undone() -> None:
    both = (Replaced(_Product, "hole 0", "first"),), (Replaced(_Product, "hole 0", "second"),)
    every = cast(dict[str, Sequence[Replaced]], holes.EVERY)
    every["hole 1"], every["hole 2"] = both
    with open_holes(["hole 1", "hole 2"]):
        assert getattr(_Product, "hole 0") == "second"
    assert getattr(_Product, "hole 0") is False


def test_a_group_shows_several_holes_and_what_it_stopped_for_is_not_counted_twice() -> None:
    """Each history of a group shows a hole of its own, and one that all of them show."""
    seen: list[Finding] = []

    def wrong(seed: int, there: set[str]) -> bool:
        return "hole 6" in there or (seed < 6 and f"hole {seed}" in there)

    proof = Proof(_NAMES, cast(Runner, _Servers(wrong)), 0, strange=seen.append)
    rows = list(proof.rows(3600))
    assert sorted(row.hole for row in rows) == sorted(_NAMES)
    assert {row.finding.original.seed for row in rows if row.finding and row.hole != "hole 6"} <= set(range(8))
    assert not seen


def test_a_hole_that_shows_every_second_time_is_found() -> None:
    asked = 0

    def wrong(seed: int, there: set[str]) -> bool:
        nonlocal asked
        asked += there == {"hole 3"}
        return "hole 3" in there and (len(there) > 1 or asked % 2 == 0)

    rows, _ = _prove(wrong, seconds=2)
    assert [row.hole for row in rows if row.finding is not None] == ["hole 3"]


def test_what_passes_only_now_and_then_without_a_hole_shows_none() -> None:
    asked = 0

    def wrong(seed: int, there: set[str]) -> bool:
        nonlocal asked
        asked += seed == 3 and not there
        return seed == 3 and (bool(there) or asked % 2 == 0)

    rows, strange = _prove(wrong, seconds=2)
    assert all(row.finding is None for row in rows)
    assert strange


def test_two_losses_of_a_target_are_put_back_apart_and_together() -> None:
    fills, narrows = (REPLACED[name][0].by for name in ("target fills NULL in", "narrower target"))
    losses = [ColumnLoss("a", "int", "timestamp", nulls=True), ColumnLoss("b", "int", "tinyint", kind="every")]

    def found() -> list[ColumnLoss]:
        return losses

    assert fills(found)() == losses[1:]
    assert narrows(found)() == losses[:1]
    assert fills(narrows(found))() == []
