"""``python -m tests.fuzz``: searches for silent differences. See README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.engine import LocalEngine
from tests.fuzz.features import Pair
from tests.fuzz.report import headline, page
from tests.fuzz.runner import Runner
from tests.fuzz.search import SHRINK_SECONDS, Finding, Search
from tests.fuzz.servers import running_servers

_MEMORY = Path("/dev/shm")


@contextmanager
def in_memory() -> Iterator[None]:
    """The servers' files go to memory, where there is such a place: DDL mostly waits for the disk."""
    before = tempfile.tempdir
    if _MEMORY.is_dir():
        tempfile.tempdir = str(_MEMORY)
    try:
        yield
    finally:
        tempfile.tempdir = before


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()) // 60 * 1000)
    parser.add_argument("--pair", type=Pair.parse, default=Pair.parse("mariadb"))
    parser.add_argument("--out", type=Path, default=Path("/tmp/fuzz-out"))
    parser.add_argument("--shrink", type=float, default=SHRINK_SECONDS, help="seconds for each finding")
    parser.add_argument("--focus", action="append", default=[], help="a feature that histories have where they can")
    parser.add_argument("--clusters", type=int, default=0, metavar="N", help="every N-th group in a real cluster")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    def say(finding: Finding) -> None:
        file = options.out / f"{str(options.pair).replace(':', '-to-')}-{finding.original.seed}.json"
        print(
            f"{headline(finding)}\n{finding.verdict.text[:700]}\n"
            f"{finding.history.script() if options.shrink else ''}\n"
            f"To run it again: python -m tests.fuzz.replay {file}\n",
            flush=True,
        )
        file.write_text(finding.history.to_json())

    with in_memory(), running_servers(options.pair) as servers:
        runner = Runner(servers, LocalEngine(every=4))
        search = Search(runner, options.pair, options.seed, options.shrink, options.clusters)
        search.focus = options.focus
        try:
            search.run(options.seconds, say)
        except KeyboardInterrupt:
            print("interrupted: this is what was done so far")
        finally:
            runner.close()
            _show(search, options.report)
    return 1 if any(not finding.inherent for finding in search.tally.findings) else 0


def _show(search: Search, report: Path | None) -> None:
    """What was done, also of a search that an error ended."""
    tally = search.tally
    print(
        f"seed {tally.seed}, pair {tally.pair}: {tally.histories} histories"
        f" ({tally.in_clusters} compared in clusters, in {tally.cluster_seconds:.0f} s),"
        f" {tally.statements} statements"
        f" ({tally.failed} refused upstream) in {tally.seconds:.0f} s; {dict(tally.kinds)};"
        f" pairs {search.coverage.share:.1%} of {search.coverage.total}"
    )
    for (code, why), count in tally.refusals.most_common():
        print(f"  {code} × {count}: {why}")
    if report is not None:
        report.write_text(page(tally, search.coverage))


if __name__ == "__main__":
    sys.exit(main())
