"""The search: chooses histories, runs them, shrinks what is wrong, and keeps count."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from tests.fuzz.aim import aimed_group
from tests.fuzz.features import Pair, features_of
from tests.fuzz.generator import GROUP, TASK, generate
from tests.fuzz.history import History
from tests.fuzz.known import certain_hole_of, hole_of
from tests.fuzz.pairs import Coverage
from tests.fuzz.refusals import STOPPING, refusal
from tests.fuzz.runner import Runner
from tests.fuzz.shrink import shrink
from tests.fuzz.verdict import Verdict

#: Of so many groups the one with the most new pairs is run.
_CANDIDATES = 4
#: So many groups made for open pairs follow each of those.
_AIMED = 2
#: Each of so many of these is made for one feature that stops tasks, in turn, with so many histories: each of them has
#: a task of its own, and shows little else.
_STOPPING_TURN, _STOPPED = 3, 4
#: So many findings of one hole are shrunk where it is plain without.
_SAME = 2
#: How long one finding may be shrunk.
SHRINK_SECONDS = 30.0


@dataclass(frozen=True)
class Finding:
    history: History
    verdict: Verdict
    #: Seconds since the start of the search.
    seconds: float
    #: The seed's history before it was shrunk.
    original: History
    #: The known hole that it is, or empty.
    hole: str = ""
    #: Why nothing can be done about it; empty where something can.
    inherent: str = ""


@dataclass
class Tally:
    """What a search did."""

    pair: Pair
    seed: int
    seconds: float = 0.0
    histories: int = 0
    statements: int = 0
    failed: int = 0
    #: Histories that were compared in clusters, and how long their groups took.
    in_clusters: int = 0
    cluster_seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    refusals: Counter[tuple[int, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    #: What upstream and target call themselves.
    versions: tuple[str, ...] = ()


class Search:
    """Groups of histories from ``seed`` on."""

    def __init__(
        self,
        runner: Runner,
        pair: Pair,
        seed: int,
        shrink_seconds: float = SHRINK_SECONDS,
        clusters: int = 0,
        play: Callable[[Sequence[History]], Sequence[Verdict]] | None = None,
    ) -> None:
        """``clusters``: each group of this number plays in a cluster of real processes; 0 for none. ``play`` judges
        the histories of the others; the runner if not given."""
        self._runner = runner
        self._play = play or runner.run
        self._next = seed // GROUP
        #: Features that all histories are to have where they can.
        self.focus: Collection[str] = ()
        self._shrink_seconds = shrink_seconds
        self._clusters = clusters
        self._played = 0
        self._aims = 0
        self._stopping = cycle(sorted(STOPPING.intersection(features_of(pair))))
        self._upcoming = self._groups()
        self.coverage = Coverage(pair)
        self.tally = Tally(pair, seed, versions=runner.versions)
        self._pair = pair

    def run(
        self, seconds: float, say: Callable[[Finding], None], enough: Callable[[Tally], bool] = lambda _: False
    ) -> Tally:
        """Until the time is over; ``say`` hears each finding at once. A further call continues the search."""
        began = time.monotonic() - self.tally.seconds
        end = self.tally.seconds + seconds
        while self.tally.seconds <= end and not enough(self.tally):
            group = next(self._upcoming)
            for history, verdict in zip(group, self._verdicts(group), strict=True):
                found = self._count(history, verdict, time.monotonic() - began)
                if found is not None:
                    say(found)
            self.tally.seconds = time.monotonic() - began
        return self.tally

    def _verdicts(self, group: list[History]) -> Sequence[Verdict]:
        self._played += 1
        if self._clusters and self._played % self._clusters == 0:
            began, before = time.monotonic(), self._runner.cluster.compared
            verdicts = self._runner.run_in_cluster(group)
            if self._runner.cluster.compared > before:
                self.tally.cluster_seconds += time.monotonic() - began
                self.tally.in_clusters = self._runner.cluster.compared
            return verdicts
        return self._play(group)

    def _groups(self) -> Iterator[list[History]]:
        """In turn: of the next few groups the one that brings the most new pairs, and some made for open pairs.

        Of the former, the others wait.
        """
        waiting: list[list[History]] = []
        while True:
            while len(waiting) < _CANDIDATES:
                waiting.append(self._group([self.focus] * GROUP))
            best = max(waiting, key=self._gain)
            waiting.remove(best)
            yield best
            for _ in range(_AIMED):
                yield self._group([self.focus] * GROUP if self.focus else self._aimed())

    def _gain(self, group: Sequence[History]) -> int:
        return sum(self.coverage.gain(history.planned) for history in group)

    def _aimed(self) -> list[list[str]]:
        rng = random.Random(f"{self._pair} aim {self._next}")
        self._aims += 1
        if self._aims % _STOPPING_TURN == 0:
            return aimed_group(self.coverage, self._pair, rng, TASK, _STOPPED, next(self._stopping))
        return aimed_group(self.coverage, self._pair, rng, TASK, GROUP)

    def _group(self, wanted: Sequence[Collection[str]]) -> list[History]:
        first = self._next * GROUP
        self._next += 1
        return [generate(first + number, self._pair, focus) for number, focus in enumerate(wanted)]

    def _count(self, history: History, verdict: Verdict, seconds: float) -> Finding | None:
        tally = self.tally
        tally.histories += 1
        tally.statements += verdict.statements
        tally.failed += verdict.failed
        tally.kinds[verdict.kind] += 1
        stopped = refusal(verdict.code, verdict.text, verdict.executed)
        if stopped is not None:
            tally.refusals[verdict.code, stopped.why] += 1
        right = not verdict.is_finding
        by = () if stopped is None else stopped.features
        self.coverage.add(verdict.executed if right else (), history.planned, by)
        if right:
            return None
        hole = certain_hole_of(history, verdict)
        if hole and sum(one.hole == hole for one in tally.findings) >= _SAME:
            found = Finding(history, verdict, seconds, history, hole)
        else:
            found = self._shrunk(history, verdict, seconds)
        tally.findings.append(found)
        return found

    def _shrunk(self, history: History, verdict: Verdict, seconds: float) -> Finding:
        """The finding with its history as small as it goes."""
        last = verdict
        end = time.monotonic() + self._shrink_seconds

        def fails(smaller: History) -> bool:
            nonlocal last
            if time.monotonic() > end:
                return False
            (found,) = self._runner.run([smaller])
            if found.signature != verdict.signature:
                return False
            last = found
            return True

        smallest = shrink(history, fails)
        hole = hole_of(smallest, last)
        inherent = "" if not self._shrink_seconds or last.kind == "hang" else self._runner.inherent(smallest)
        return Finding(smallest, last, seconds, history, hole, inherent)
