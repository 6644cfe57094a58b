"""Hazards: a finding that counts for another hole, a hole that counts though the code fails without it, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest

from tests.fuzz import holes
from tests.fuzz.features import Pair
from tests.fuzz.history import History
from tests.fuzz.holes import Replaced, open_holes
from tests.fuzz.proof import Proof, Row
from tests.fuzz.runner import Runner
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

    def run(self, group: Sequence[History]) -> list[Verdict]:
        return [Verdict("different" if self._wrong(one.seed, _open()) else "equal", one.planned) for one in group]


def _prove(wrong: Callable[[int, set[str]], bool], seconds: float = 60.0) -> tuple[list[Row], list[Finding]]:
    strange: list[Finding] = []
    proof = Proof(_NAMES, cast(Runner, _Servers(wrong)), 0, shrink_seconds=0, strange=strange.append)
    return list(proof.rows(seconds)), strange


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


def test_holes_that_replace_one_function_are_all_undone() -> None:
    both = (Replaced(_Product, "hole 0", "first"),), (Replaced(_Product, "hole 0", "second"),)
    every = cast(dict[str, Sequence[Replaced]], holes.EVERY)
    every["hole 1"], every["hole 2"] = both
    with open_holes(["hole 1", "hole 2"]):
        assert getattr(_Product, "hole 0") == "second"
    assert getattr(_Product, "hole 0") is False
