"""``python -m tests.fuzz.proof [NAME …]``: puts known holes and defects back at once, and lets one search find each.

A finding is some hole's if it comes with that hole alone, and not without any. A hole that was found is closed, and
the search goes on for the others. Histories are shrunk at the end. Prints the table of docs/fuzzing.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.fuzz.__main__ import in_memory
from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import Pair
from tests.fuzz.history import History
from tests.fuzz.holes import DEFECTS, EVERY, open_holes
from tests.fuzz.known import HOLES, forms
from tests.fuzz.runner import Runner, is_alone
from tests.fuzz.search import SHRINK_SECONDS, Finding, Search
from tests.fuzz.servers import running_servers
from tests.fuzz.shrink import shrink
from tests.fuzz.verdict import Verdict

#: Each search may take an hour.
_SECONDS = 3600.0
_SEED = 1_000_000
#: So often a finding's hole is looked for: which of two writers comes first decides whether some of them show.
_ATTEMPTS = 2
#: So often a history that shows a hole is run without any, and at most so often with the hole again.
_CONFIRMED = 3
#: After so many histories of a group that stop its task, each of the others plays alone: that takes less time.
_STOPS = 2


@dataclass(frozen=True)
class Row:
    """A line of the table; ``finding`` None: not found. The seconds are all since the start, with those in which other
    holes were found."""

    hole: str
    pair: Pair
    seconds: float
    histories: int
    finding: Finding | None
    focus: Sequence[str] = ()

    def markdown(self) -> str:
        focus = ", ".join(self.focus)
        if self.finding is None:
            return f"| {self.hole} | {focus} | {self.pair} | not found | {self.seconds:.0f} | {self.histories} | |"
        seed = self.finding.original.seed
        return (
            f"| {self.hole} | {focus} | {self.pair} | {seed} | {self.seconds:.0f} | {self.histories} |"
            f" {self.finding.verdict.signature}: {_short(self.finding.history)} |"
        )


def _short(history: History) -> str:
    """What a shrunk history does, in a cell of a table: statements but for plain INSERTs, and events."""
    done = [step for step in history.steps if step.do != "insert" or step.how != "INSERT" or step.values]
    texts = [*history.target, *(f"event: {step.text}" if step.do == "event" else step.sql() for step in done)]
    shown = [text.replace("{s}.", "").replace("`", "").replace("|", "\\|") for text in texts]
    cut = [f"`{text[:_WIDTH]}{'…' if len(text) > _WIDTH else ''}`" for text in shown]
    return ", ".join(cut[:_STATEMENTS]) + (", …" if len(cut) > _STATEMENTS else "")


#: How much of a history a cell shows: statements, and characters of each.
_STATEMENTS, _WIDTH = 3, 60


class Proof:
    """Searches with the holes ``names`` until each is found, or the time is over.

    ``strange`` hears of findings that no hole explains alone: they are today's code's own, or of two holes together.
    """

    def __init__(
        self,
        names: Sequence[str],
        runner: Runner,
        seed: int,
        focus: Sequence[str] = (),
        strange: Callable[[Finding], None] = lambda _: None,
    ) -> None:
        self.left = list(names)
        self._runner = runner
        self._focus = focus
        self._strange = strange
        self._search = Search(runner, runner.pair, seed, shrink_seconds=0, play=self._judged)
        self._search.focus = focus
        self._began = 0.0
        #: Of all groups that have begun.
        self._histories = 0
        self._found: list[Row] = []

    def rows(self, seconds: float) -> Iterator[Row]:
        """A row for each hole as it is found, then one for each that was not."""
        self._began = time.monotonic()
        while self.left and (rest := seconds - self._seconds) > 0:
            self._search.run(rest, lambda _: None, enough=lambda _: bool(self._found))
            yield from self._found
            self._found.clear()
        for name in self.left:
            yield self._row(name, None)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _row(self, name: str, finding: Finding | None) -> Row:
        return Row(name, self._runner.pair, self._seconds, self._histories, finding, self._focus)

    def _judged(self, group: Sequence[History]) -> list[Verdict]:
        """The verdicts on the histories of a group while those holes are open that none of them shows alone.

        A hole is closed as soon as one history shows it, and the others play on without it: while many holes are open,
        most histories of a group fail, each for a hole that the others show as well.
        """
        self._histories += len(group)
        verdicts: dict[int, Verdict] = {}
        stops = 0
        while waiting := [history for history in group if history.seed not in verdicts]:
            with open_holes(self.left):
                suspect = waiting[0] if stops == _STOPS else self._suspect(waiting, verdicts)
                if suspect is None:
                    continue
                (verdict,) = self._runner.run([suspect])
            if verdict.is_finding and self._attributed(suspect, verdict):
                stops = 0
            else:
                verdicts[suspect.seed] = verdict
                stops = min(stops + 1, _STOPS)
        return [verdicts[history.seed] for history in group]

    def _suspect(self, waiting: Sequence[History], verdicts: dict[int, Verdict]) -> History | None:
        """A history that has to play alone; what is certain of the others goes to ``verdicts``."""
        together = [history for history in waiting if not is_alone(history)]
        if len(together) < 2:
            return waiting[0]
        one_task = self._runner.in_one_task(together)
        found = list(zip(together, one_task.verdicts, strict=False))
        verdicts.update((history.seed, verdict) for history, verdict in found if not verdict.is_finding)
        if not found:
            return together[one_task.blamed or 0]
        return next((history for history, verdict in found if verdict.is_finding), None)

    def _attributed(self, history: History, verdict: Verdict) -> bool:
        """Whether the history shows a hole that is left; it is closed then."""
        finding = Finding(history, verdict, self._seconds, history)
        attempts = () if verdict.kind == "hang" else (self._hole_of(finding) for _ in range(_ATTEMPTS))
        name = next(filter(None, attempts), "")
        if not name or not self._is_certain(history, name):
            self._strange(finding)
            return False
        self.left.remove(name)
        self._found.append(self._row(name, replace(finding, hole=name)))
        return True

    def _is_certain(self, history: History, name: str) -> bool:
        """Whether the history passes each time without any hole, and fails again with this one: some stop for one of
        two reasons by chance, of which one looks like a finding."""
        passes = all(self._fails(history, ()) is None for _ in range(_CONFIRMED))
        return passes and any(self._fails(history, [name]) for _ in range(_CONFIRMED))

    def _hole_of(self, finding: Finding) -> str:
        """The hole with which alone the history fails: first those that it looks like, then half of the others at a
        time."""
        history = finding.history
        alike = [name for name in forms(history, finding.verdict) if name in self.left]
        for name in alike:
            if self._fails(history, [name]):
                return name
        names = [name for name in self.left if name not in alike]
        if alike and not self._fails(history, names):
            return ""
        while len(names) > 1:
            middle = len(names) // 2
            halves = (names[:middle], names[middle:])
            names = next((half for half in halves if self._fails(history, half)), [])
        return next(iter(names), "")

    def _fails(self, history: History, names: Collection[str]) -> Verdict | None:
        """What is wrong with the history while these holes are open."""
        with open_holes(names):
            (verdict,) = self._runner.run([history])
        return verdict if verdict.is_finding else None

    def shrunk(self, row: Row, seconds: float) -> Row:
        """The row with the smallest history that shows its hole, as far as that is found in so many seconds."""
        if row.finding is None:
            return row
        wanted = last = row.finding.verdict
        end = time.monotonic() + seconds

        def fails(smaller: History) -> bool:
            nonlocal last
            found = self._fails(smaller, [row.hole]) if time.monotonic() < end else None
            if found is None or found.signature != wanted.signature:
                return False
            last = found
            return True

        smallest = shrink(row.finding.history, fails)
        return replace(row, finding=replace(row.finding, history=smallest, verdict=last))


def tell_strange(finding: Finding, out: Path) -> None:
    """Shows what no hole explains, and keeps its history: a search makes another one of the seed once its groups ran
    with other results."""
    seed = finding.original.seed
    print(f"no hole explains seed {seed} alone: {finding.verdict.text[:300]}", file=sys.stderr)
    _keep(finding, f"unexplained-{seed}", out)


def _keep(finding: Finding | None, name: str, out: Path) -> None:
    """Writes the finding's history to the folder ``out``."""
    if finding is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name.replace(' ', '-')}.json").write_text(finding.history.to_json())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.proof")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for all together")
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--pair", type=Pair.parse, default=Pair.parse("mariadb"))
    parser.add_argument("--focus", action="append", default=[], help="a feature that histories have where they can")
    parser.add_argument("--shrink", type=float, default=SHRINK_SECONDS, help="seconds for each hole, at the end")
    parser.add_argument("--out", type=Path, default=Path("/tmp/fuzz-out"), help="a folder for the histories")
    parser.add_argument("names", nargs="*", metavar="HOLE", default=[*(hole.name for hole in HOLES), *DEFECTS])
    options = parser.parse_args()
    unknown = set(options.names) - set(EVERY)
    if unknown:
        parser.error(f"no hole is called {', '.join(sorted(unknown))}; there are {', '.join(EVERY)}")
    with in_memory(), running_servers(options.pair) as servers:
        runner = Runner(servers, LocalEngine())
        proof = Proof(options.names, runner, options.seed, options.focus, partial(tell_strange, out=options.out))
        rows = []
        for row in proof.rows(options.seconds):
            print(row.markdown(), file=sys.stderr, flush=True)
            rows.append(row)
            _keep(row.finding, row.hole, options.out)
        print("| hole | focus | pair | seed | seconds | histories | what failed |\n|---|---|---|---|---|---|---|")
        for row in rows:
            shrunk = proof.shrunk(row, options.shrink)
            print(shrunk.markdown(), flush=True)
            _keep(shrunk.finding, shrunk.hole, options.out)
        runner.close()
    missed = sum(row.finding is None for row in rows)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
