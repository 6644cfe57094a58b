"""Which pairs of features have been seen together, and which histories bring the most new ones. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations
from typing import TypeVar

from tests.fuzz.features import Pair, possible_pairs

T = TypeVar("T")
#: A prime larger than most runs of pairs with one feature.
_STRIDE = 7919


class Coverage:
    """Pairs that were covered; only those that are possible count."""

    def __init__(self, pair: Pair) -> None:
        self._open = set(possible_pairs(pair))
        self.total = len(self._open)

    @property
    def covered(self) -> int:
        return self.total - len(self._open)

    @property
    def share(self) -> float:
        return self.covered / self.total if self.total else 1.0

    def gain(self, features: Collection[str]) -> int:
        """How many new pairs these features would bring."""
        return sum(pair in self._open for pair in pairs_of(features))

    def add(self, features: Collection[str]) -> int:
        before = len(self._open)
        self._open.difference_update(pairs_of(features))
        return before - len(self._open)

    def open_pair(self, number: int) -> tuple[str, ...]:
        """One of the open pairs; neighbouring numbers give pairs far from each other. Empty when none is open."""
        found = self.missing()
        return found[number * _STRIDE % len(found)] if found else ()

    def missing(self) -> list[tuple[str, str]]:
        return sorted(self._open)

    def missing_by_feature(self) -> Counter[str]:
        """In how many open pairs each feature is: what the generator seldom makes."""
        return Counter(one for pair in self._open for one in pair)

    def best(self, candidates: Sequence[T], features: Callable[[T], Collection[str]]) -> T:
        """The candidate with the most new pairs, the first of those that have equally many."""
        return max(candidates, key=lambda one: self.gain(features(one)))


def pairs_of(features: Iterable[str]) -> Iterable[tuple[str, str]]:
    return combinations(sorted(set(features)), 2)
