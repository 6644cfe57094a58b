"""``python -m tests.fuzz.replay FILE …``: runs histories from files again and shows what came of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.__main__ import in_memory
from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import Pair
from tests.fuzz.generator import generate
from tests.fuzz.history import History
from tests.fuzz.known import hole_of
from tests.fuzz.report import taken_for
from tests.fuzz.runner import Runner
from tests.fuzz.servers import running_servers
from tests.fuzz.shrink import shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.replay")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seed", type=int, action="append", default=[], help="a seed in place of a file")
    parser.add_argument("--pair", type=Pair.parse, default=None)
    parser.add_argument("--shrink", action="store_true")
    options = parser.parse_args()
    pair = options.pair or Pair.parse("mariadb")
    histories = [History.read(file) for file in options.files] + [generate(seed, pair) for seed in options.seed]
    pair = options.pair or Pair.parse(histories[0].pair)
    bad = 0
    with in_memory(), running_servers(pair) as servers:
        runner = Runner(servers, LocalEngine())
        for history in histories:
            bad += _show(runner, history, smaller=options.shrink)
        runner.close()
    return 1 if bad else 0


def _show(runner: Runner, history: History, *, smaller: bool) -> bool:
    (verdict,) = runner.run([history])
    if smaller and verdict.is_finding:
        history = shrink(history, lambda one: runner.run([one])[0].signature == verdict.signature)
        (verdict,) = runner.run([history])
    sentence = verdict.sentence
    if verdict.is_finding:
        sentence += f"; {taken_for(runner.inherent(history), hole_of(history, verdict))}"
    print(f"{history.script()}\n-- {sentence}\n{verdict.text}\n", flush=True)
    return verdict.is_finding


if __name__ == "__main__":
    sys.exit(main())
