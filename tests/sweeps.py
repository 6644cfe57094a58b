"""How much of a sweep or a property test runs: all, or a bounded part."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

C = TypeVar("C")

#: Whether the whole form of each sweep runs (``make test-long``), and not the bounded one of ``make test``.
LONG = "DM_TEST_LONG" in os.environ
#: Whether property tests draw other examples in each run.
SEARCHES = "DM_TEST_RANDOM" in os.environ
#: Whether property tests draw fewer examples (``make check``).
QUICK = "DM_TEST_QUICK" in os.environ


def examples(whole: int) -> int:
    """How many examples of a property test run: ``whole`` in a long run or one that searches, else half, and a quarter
    where the run is quick. They are the same in each run, so that a whole run finds nothing that it did not find."""
    part = 4 if QUICK else 1 if LONG or SEARCHES else 2
    return min(whole, max(whole // part, 10))


def each_on_one(
    cases: Sequence[C], places_of: Callable[[C], Sequence[str]], name: Callable[[C], str], *, first: int = 0
) -> list[Any]:
    """Parameters ``(place, case)``: each case on each of its places. Only one of these is not marked ``slow``.

    The places take turns, so that each gets its part of the cases; ``first`` is the place of the first case.
    """
    return [
        pytest.param(place, case, id=f"{place}-{name(case)}", marks=() if place == chosen else pytest.mark.slow)
        for number, case in enumerate(cases, first)
        for places in [places_of(case)]
        for chosen in [places[number % len(places)]]
        for place in places
    ]
