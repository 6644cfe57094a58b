"""Chooses features for histories that bring many open pairs at once: a greedy covering array. Pure.

A history made for one open pair brings little else that is new when few are open. Here each parameter takes the value
that has the most open pairs with what is chosen already.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fuzz.features import LOGGED_AS_STATEMENTS, PARAMETERS, Pair, apart, feature
from tests.fuzz.pairs import Coverage
from tests.fuzz.refusals import STOPPING

#: How many values of a parameter that may have several, besides those that have one.
_MOST: Mapping[str, int] = {"statement": 8, "transaction": 2, "moment": 2}
#: What a value's open pairs with features that are not chosen count, against those with chosen ones.
_ELSEWHERE = 0.01
#: Open pairs that are drawn until one fits the group's settings.
_TRIES = 20
#: They depend on what the others leave.
_LAST = ("statement", "transaction", "moment")


@dataclass
class Aim:
    """The features chosen so far."""

    pair: Pair
    rng: random.Random
    coverage: Coverage
    chosen: list[str] = field(default_factory=list)

    def settle(self, names: Iterable[str]) -> None:
        """Chooses a value for each of these parameters that has none."""
        order = list(names)
        self.rng.shuffle(order)
        taken = {one.split("=", 1)[0] for one in self.chosen}
        for name in sorted(order, key=lambda one: _LAST.index(one) if one in _LAST else -1):
            if name not in taken:
                for _ in range(_MOST.get(name, 1)):
                    self._take_best(name)

    def stop_by(self, one: str) -> None:
        """Takes a feature that stops tasks."""
        if one not in self.chosen and self._fits(one):
            self.chosen.append(one)

    def start(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Takes one of these open pairs that goes together with what is chosen."""
        for _ in range(_TRIES):
            one, two = self.rng.choice(pairs)
            if self._fits(one) and self._fits(two):
                self.chosen += [name for name in (one, two) if name not in self.chosen]
                return

    def _take_best(self, name: str) -> None:
        # Features that stop a task, and so hide the others, come only with an open pair of their own.
        every = (one for one in _features(self.pair, name) if one not in STOPPING and one not in self.chosen)
        values = [one for one in every if self._fits(one)]
        if name == "statement" and any(one.startswith("statement=") for one in self.chosen) and self._stopping():
            # Of those that stop the task only one shows anything.
            values = [one for one in values if one.removeprefix("statement=") in LOGGED_AS_STATEMENTS]
        if values:
            self.chosen.append(max(self.rng.sample(values, len(values)), key=self._worth))

    def _fits(self, one: str) -> bool:
        return one in self.chosen or apart(self.pair, one).isdisjoint(self.chosen)

    def _worth(self, one: str) -> float:
        here = sum(self.coverage.worth(one, other) for other in self._stopping() or self.chosen)
        return here + _ELSEWHERE * self.coverage.worth_of(one)

    def _stopping(self) -> list[str]:
        return [one for one in self.chosen if one in STOPPING]


def _features(pair: Pair, name: str) -> list[str]:
    return [feature(name, value) for value in PARAMETERS[name].of(pair)]


def aimed_group(
    coverage: Coverage, pair: Pair, rng: random.Random, task: Sequence[str], size: int, stopping: str = ""
) -> list[list[str]]:
    """What each of ``size`` histories with one task (the parameters ``task``) is to have; each has the feature
    ``stopping``, if it is given."""
    open_pairs = coverage.missing()
    if not open_pairs:
        return [[] for _ in range(size)]
    group = Aim(pair, rng, coverage)
    if stopping:
        group.stop_by(stopping)
    group.start(open_pairs)
    group.settle(task)
    group.chosen = [one for one in group.chosen if one.split("=", 1)[0] in task]
    found: list[list[str]] = []
    ahead = coverage.copy()
    for _ in range(size):
        aim = Aim(pair, rng, ahead, list(group.chosen))
        if stopping:
            aim.stop_by(stopping)
        aim.start(open_pairs)
        aim.settle(PARAMETERS)
        ahead.add(aim.chosen, by=STOPPING.intersection(aim.chosen))
        found.append(aim.chosen)
    return found
