"""Which pairs of features have been seen together, and which histories bring the most new ones. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from copy import copy
from itertools import combinations

from tests.fuzz.features import Pair, possible_pairs


class Coverage:
    """Pairs that were covered; only those that are possible count."""

    def __init__(self, pair: Pair) -> None:
        self._open = set(possible_pairs(pair))
        #: How often a history meant to have an open pair, and had it not.
        self._missed: Counter[tuple[str, str]] = Counter()
        #: Of each feature, what all its open pairs are worth.
        self._worth_of: defaultdict[str, float] = defaultdict(float)
        for one in self._open:
            self._revalue(one, 1.0)
        self.total = len(self._open)

    def _revalue(self, pair: tuple[str, str], change: float) -> None:
        for one in pair:
            self._worth_of[one] += change

    @property
    def covered(self) -> int:
        return self.total - len(self._open)

    @property
    def share(self) -> float:
        return self.covered / self.total if self.total else 1.0

    def gain(self, features: Collection[str]) -> int:
        """How many new pairs these features would bring."""
        return sum(pair in self._open for pair in pairs_of(features))

    def worth(self, a: str, b: str) -> float:
        """How much it helps to bring the two together: nothing once they are covered, less after each vain try."""
        return self._worth((a, b) if a < b else (b, a))

    def _worth(self, pair: tuple[str, str]) -> float:
        return 1 / (1 + self._missed[pair]) if pair in self._open else 0.0

    def worth_of(self, one: str) -> float:
        """As :meth:`worth`, of all pairs with this feature."""
        return self._worth_of[one]

    def add(self, features: Iterable[str], meant: Iterable[str] = (), by: Collection[str] = ()) -> int:
        """Counts the pairs that a history had; ``meant`` are the features that it was made for.

        If its task stopped, it shows nothing of other pairs than those with the features ``by`` which it stopped.
        """
        before = len(self._open)
        for pair in _with(by, pairs_of(features)):
            if pair in self._open:
                self._revalue(pair, -self._worth(pair))
                self._open.remove(pair)
        for pair in _with(by, pairs_of(meant)):
            if pair in self._open:
                worth = self._worth(pair)
                self._missed[pair] += 1
                self._revalue(pair, self._worth(pair) - worth)
        return before - len(self._open)

    def copy(self) -> Coverage:
        """The same, to think ahead with."""
        found = copy(self)
        found._open, found._missed = set(self._open), Counter(self._missed)
        found._worth_of = defaultdict(float, self._worth_of)
        return found

    def missing(self) -> list[tuple[str, str]]:
        return sorted(self._open)

    def missing_by_feature(self) -> Counter[str]:
        """In how many open pairs each feature is: what the generator seldom makes."""
        return Counter(one for pair in self._open for one in pair)


def _with(some: Collection[str], pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """The pairs with any of these features; all of them where none is given."""
    return (pair for pair in pairs if not some or pair[0] in some or pair[1] in some)


def pairs_of(features: Iterable[str]) -> Iterable[tuple[str, str]]:
    return combinations(sorted(set(features)), 2)
