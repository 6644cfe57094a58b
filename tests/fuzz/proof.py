"""``python -m tests.fuzz.proof [NAME …]``: puts known holes back one by one (and defects that are named), and lets the
search find each.

Prints the table of docs/fuzzing.md: hole, focus, pair, seed, seconds, histories, and what the shrunk history does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.__main__ import in_memory
from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import Pair
from tests.fuzz.history import History
from tests.fuzz.holes import DEFECTS, open_hole
from tests.fuzz.known import HOLES
from tests.fuzz.runner import Runner
from tests.fuzz.search import Finding, Search, Tally
from tests.fuzz.servers import running_servers

#: Each search may take an hour.
_SECONDS = 3600.0
_SEED = 1_000_000


@dataclass(frozen=True)
class Row:
    """A line of the table; ``finding`` None: not found."""

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
            f"| {self.hole} | {focus} | {self.pair} | {seed} | {self.finding.seconds:.0f} | {self.histories} |"
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


def find(hole: str, runner: Runner, seed: int, seconds: float, focus: Sequence[str] = ()) -> Row:
    """Searches until the hole is found."""
    search = Search(runner, runner.pair, seed)
    search.focus = focus

    def found(tally: Tally) -> Finding | None:
        return next((one for one in tally.findings if _is_of(one, hole)), None)

    with open_hole(hole):
        tally = search.run(seconds, _ignored, enough=lambda so_far: found(so_far) is not None)
    return Row(hole, runner.pair, tally.seconds, tally.histories, found(tally), focus)


def _is_of(finding: Finding, hole: str) -> bool:
    """A known hole has a form of its own; a defect is all that is wrong while it is there."""
    return finding.hole == hole or (hole in DEFECTS and not finding.inherent)


def _ignored(_: Finding) -> None: ...


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.proof")
    parser.add_argument("--seconds", type=float, default=_SECONDS)
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--pair", type=Pair.parse, default=Pair.parse("mariadb"))
    parser.add_argument("--focus", action="append", default=[], help="a feature that histories have where they can")
    parser.add_argument("--out", type=Path, help="a folder for the shrunk histories")
    parser.add_argument("names", nargs="*", metavar="HOLE", default=[hole.name for hole in HOLES])
    options = parser.parse_args()
    names = [*(hole.name for hole in HOLES), *DEFECTS]
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"no hole is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    print(
        "| hole | focus | pair | seed | seconds | histories | what failed |\n|---|---|---|---|---|---|---|", flush=True
    )
    missed = 0
    with in_memory(), running_servers(options.pair) as servers:
        runner = Runner(servers, LocalEngine())
        for name in options.names:
            row = find(name, runner, options.seed, options.seconds, options.focus)
            print(row.markdown(), flush=True)
            if row.finding is not None and runner.run([row.finding.history])[0].is_finding:
                print(f"without {name} it fails, too", file=sys.stderr)
            missed += row.finding is None
            if row.finding is not None and options.out is not None:
                options.out.mkdir(parents=True, exist_ok=True)
                (options.out / f"{name.replace(' ', '-')}.json").write_text(row.finding.history.to_json())
        runner.close()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
