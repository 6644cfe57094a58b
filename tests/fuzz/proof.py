"""``python -m tests.fuzz.proof [NAME …]``: puts known holes and defects back at once, and lets one search find each.

A finding is some hole's if it comes with that hole alone, and not without any. A hole that was found is closed, and
the search goes on for the others. Prints the table of docs/fuzzing.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.__main__ import in_memory
from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import Pair
from tests.fuzz.history import History
from tests.fuzz.holes import DEFECTS, EVERY, open_holes
from tests.fuzz.known import HOLES, first_form, hole_of
from tests.fuzz.runner import Runner
from tests.fuzz.search import SHRINK_SECONDS, Finding, Search
from tests.fuzz.servers import running_servers
from tests.fuzz.shrink import shrink
from tests.fuzz.verdict import Verdict

#: Each search may take an hour.
_SECONDS = 3600.0
_SEED = 1_000_000


@dataclass(frozen=True)
class Row:
    """A line of the table; ``finding`` None: not found. The seconds are all since the start, with those in which other
    holes were found and histories shrunk."""

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
        shrink_seconds: float = SHRINK_SECONDS,
        strange: Callable[[Finding], None] = lambda _: None,
    ) -> None:
        self.left = list(names)
        self._runner = runner
        self._focus = focus
        self._shrink_seconds = shrink_seconds
        self._strange = strange
        self._search = Search(runner, runner.pair, seed, shrink_seconds=0)
        self._search.focus = focus

    def rows(self, seconds: float) -> Iterator[Row]:
        """A row for each hole as it is found, then one for each that was not."""
        began = time.monotonic()

        def row(name: str, finding: Finding | None) -> Row:
            histories = self._search.tally.histories
            return Row(name, self._runner.pair, time.monotonic() - began, histories, finding, self._focus)

        while self.left and (rest := seconds - (time.monotonic() - began)) > 0:
            opened = list(self.left)
            for finding in self._next_findings(rest):
                if self.left != opened and self._fails(finding.history, self.left) is None:
                    continue  # It shows a hole that another history of its group has just shown.
                shown = self._explained(finding)
                if shown is not None and shown.hole in self.left:
                    self.left.remove(shown.hole)
                    yield row(shown.hole, shown)
        for name in self.left:
            yield row(name, None)

    def _next_findings(self, seconds: float) -> list[Finding]:
        """Those of the next group that has any, with all holes open that are left."""
        found: list[Finding] = []
        with open_holes(self.left):
            self._search.run(seconds, found.append, enough=lambda _: bool(found))
        return found

    def _explained(self, finding: Finding) -> Finding | None:
        """The finding with the hole that it shows, shrunk; None where no hole that is left shows it alone."""
        name = self._hole_of(finding)
        if not name or self._fails(finding.history, ()) is not None:
            self._strange(finding)
            return None
        smallest, last = self._shrunk(finding, name)
        # Some holes are open in one place, and only their form tells them apart.
        same = [other for other in EVERY if EVERY[other] == EVERY[name]]
        named = name if len(same) == 1 else first_form(smallest, last, same)
        return Finding(smallest, last, finding.seconds, finding.original, named)

    def _hole_of(self, finding: Finding) -> str:
        """The hole with which alone the history fails: first the one that it looks like, then half of them at a
        time."""
        history = finding.history
        guess = hole_of(history, finding.verdict)
        if guess in self.left and self._fails(history, [guess]):
            return guess
        names = list(self.left)
        while len(names) > 1:
            half = names[: len(names) // 2]
            names = half if self._fails(history, half) else names[len(half) :]
        return names[0] if names and self._fails(history, names) else ""

    def _fails(self, history: History, names: Collection[str]) -> Verdict | None:
        """What is wrong with the history while these holes are open."""
        with open_holes(names):
            (verdict,) = self._runner.run([history])
        return verdict if verdict.is_finding else None

    def _shrunk(self, finding: Finding, name: str) -> tuple[History, Verdict]:
        last, end = finding.verdict, time.monotonic() + self._shrink_seconds

        def fails(smaller: History) -> bool:
            nonlocal last
            found = self._fails(smaller, [name]) if time.monotonic() < end else None
            if found is None or found.signature != finding.verdict.signature:
                return False
            last = found
            return True

        smallest = shrink(finding.history, fails)
        return smallest, last


def _tell(finding: Finding) -> None:
    print(f"no hole explains seed {finding.original.seed} alone: {finding.verdict.text[:300]}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.proof")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for all together")
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--pair", type=Pair.parse, default=Pair.parse("mariadb"))
    parser.add_argument("--focus", action="append", default=[], help="a feature that histories have where they can")
    parser.add_argument("--shrink", type=float, default=SHRINK_SECONDS, help="seconds for each hole")
    parser.add_argument("--out", type=Path, help="a folder for the shrunk histories")
    parser.add_argument("names", nargs="*", metavar="HOLE", default=[*(hole.name for hole in HOLES), *DEFECTS])
    options = parser.parse_args()
    unknown = set(options.names) - set(EVERY)
    if unknown:
        parser.error(f"no hole is called {', '.join(sorted(unknown))}; there are {', '.join(EVERY)}")
    print(
        "| hole | focus | pair | seed | seconds | histories | what failed |\n|---|---|---|---|---|---|---|", flush=True
    )
    missed = 0
    with in_memory(), running_servers(options.pair) as servers:
        runner = Runner(servers, LocalEngine())
        proof = Proof(options.names, runner, options.seed, options.focus, options.shrink, _tell)
        for row in proof.rows(options.seconds):
            print(row.markdown(), flush=True)
            missed += row.finding is None
            if row.finding is not None and options.out is not None:
                options.out.mkdir(parents=True, exist_ok=True)
                (options.out / f"{row.hole.replace(' ', '-')}.json").write_text(row.finding.history.to_json())
        runner.close()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
